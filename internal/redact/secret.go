package redact

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// mark begins every placeholder.
const mark = "[redacted"

// placeholder stands for a secret. For one that nobody can guess it is the same wherever the secret stands, so that
// repeats stay recognisable: it ends with six digits of its SHA-256, which leave all but 24 bits unknown. For any other
// it says nothing: who has a list of likely passwords would find it by trying, however few digits were shown. A key
// would prevent that, but it had to be the same in all replicas and the CLI, and the webhook, which has no side effects,
// could not work before it is there.
func placeholder(secret string) string {
	if !isUnguessable(secret) {
		return mark + "]"
	}
	sum := sha256.Sum256([]byte(secret))
	return mark + ":" + hex.EncodeToString(sum[:3]) + "]"
}

// placeholders match a placeholder, and what is left of one of which the end was taken for a delimiter.
var placeholders = regexp.MustCompile(`^\[redacted(?::[0-9a-f]{6})?\]?$`)

func isPlaceholder(s string) bool { return strings.HasPrefix(s, mark) && placeholders.MatchString(s) }

const (
	// minUnguessable is the length of the shortest secret that counts as unguessable: 20 hexadecimal digits are 80
	// bits.
	minUnguessable = 20
	// changesPer is how many characters there may be to a change between kinds of characters. Tokens of random letters
	// and digits change at every second one or so; what people make up, like Summer2026Summer2026, far less often.
	changesPer = 3
	// minMade is the length from which on a text without digits that is not put together from words is no word.
	minMade = 16
	digits  = "0123456789"
)

// words match what is put together from words and numbers.
var words = regexp.MustCompile(`^[a-z]*(?:[A-Z]*[a-z]{2,}|[A-Z]+|[0-9]+|[^A-Za-z0-9]+[a-z]*)+$`)

// isUnguessable reports whether a machine made a secret at random, as far as one can see.
func isUnguessable(secret string) bool {
	if plain, ok := decoded(secret); ok { // Basic credentials: in Base64 a word looks like a token.
		_, password, _ := strings.Cut(plain, ":")
		return isUnguessable(password)
	}
	changes := 0
	for i := 1; i < len(secret); i++ {
		if kindOf(secret[i]) != kindOf(secret[i-1]) {
			changes++
		}
	}
	return len(secret) >= minUnguessable && changes*changesPer >= len(secret) &&
		strings.ContainsAny(secret, digits) && !words.MatchString(secret)
}

// decoded returns what a text is the Base64 of, if that is a text.
func decoded(s string) (string, bool) {
	s = strings.TrimRight(s, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		plain, err := encoding.DecodeString(s)
		if err == nil && len(plain) > 0 && !slices.ContainsFunc(plain, func(b byte) bool { return b < ' ' || b > '~' }) {
			return string(plain), true
		}
	}
	return "", false
}

// kindOf tells upper case, lower case, digits and others apart.
func kindOf(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return 1
	case 'a' <= b && b <= 'z':
		return 2
	case 'A' <= b && b <= 'Z':
		return 3
	default:
		return 4
	}
}

// isMade reports whether a text is no word and no name put together from words.
func isMade(s string) bool {
	return strings.ContainsAny(s, digits) || len(s) >= minMade && !words.MatchString(s)
}

// faults are words that say what is wrong with a secret, and so are none.
var faults = regexp.MustCompile(`(?i)^[\[({<*]*(?:(?:is|was|not|too|must|has|the|an|a|token|password|secret|key|credentials?|field)[-_ .]?)*` +
	`(?:absent|bad|blank|changed|compromised|denied|disabled|does|empty|error|expired|failed|false|fetch|forbidden|found|incorrect|invalid|locked|` +
	`malformed|mismatch(?:ed)?|missing|needed|none|null|optional|rejected|required|reset|revoked|rotated|short|true|undefined|unknown|unset|` +
	`unsupported|weak|wrong)(?:[-_ .]?(?:password|secret|key|token|credentials?|error|value|field|marker))*[.!?)\]}>*]*$`)

func isFault(s string) bool { return len(s) < 64 && faults.MatchString(s) }

// namesAnID matches what stands before a value that tells one request from another.
var namesAnID = regexp.MustCompile(`(?i)(?:request|req|trace|span|correlation|event|job|run|task|message|transaction|operation|incident)[-_. ]?id\W*$`)
