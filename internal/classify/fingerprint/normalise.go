package fingerprint

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxInput bounds what is read of a message, in bytes: the 4096 characters that a report may have.
	maxInput = 16 << 10
	// maxOutput bounds a normalised message, in bytes. It is far below maxInput, so that of two long messages that
	// differ in the length of a number the same words count.
	maxOutput = 1 << 10
	// maxWord is the longest run of letters that counts as a word, in bytes.
	maxWord = 64
)

// The placeholders stand for what changes between repeats of one failure. They mean themselves,
// so that normalising twice changes nothing.
const (
	number   = "<n>"
	random   = "<id>"
	uuid     = "<uuid>"
	moment   = "<time>"
	duration = "<dur>"
	address  = "<ip>"
	host     = "<host>"
	query    = "<query>"
	tempPath = "<path>"
	quoted   = "<str>"
	secret   = "<redacted>"
	email    = "<email>"
	size     = "<size>"
)

var placeholders = []string{number, random, uuid, moment, duration, address, host, query, tempPath, quoted, secret, email, size}

// Normalise gives what stays the same of a message when the failure repeats, at most 1024 bytes of valid UTF-8:
// letters in lower case, white space as single spaces, no ANSI escapes, and placeholders for numbers, UUIDs,
// hexadecimal and random runs, times, durations, sizes, IP and hardware addresses with their ports, hosts with theirs,
// e-mail addresses, queries of URLs, temporary paths, quoted values and secrets that were taken out. Names and values of
// JSON and quoted sentences are text, as otherwise all answers in JSON, and all errors that quote others, were one.
// Numbers that name a failure, as in exit status 137 and ORA-00942, stay (code.go).
//
// It reads the message once, from left to right. Only ASCII letters are folded: the rest of Unicode changes with its
// version, and a fingerprint must not.
func Normalise(message string) string {
	return string(normalise(make([]byte, 0, maxOutput), message))
}

// normalise appends what Normalise gives, and allocates nothing where there is room for maxOutput bytes and the message
// has no escapes.
func normalise(to []byte, message string) []byte {
	message = message[:min(len(message), maxInput)]
	message = plainSpaces(text.StripANSI(message))
	n := normaliser{in: message, out: to[len(to):]}
	for n.at < len(n.in) && !n.full {
		n.step()
	}
	return append(to, bytes.TrimRight(n.out, " ")...)
}

// plainSpaces makes every white space a plain one, before anything looks ahead for the end of a path or a name. It
// allocates nothing where there is none but in ASCII.
func plainSpaces(message string) string {
	if strings.IndexFunc(message, isOddSpace) < 0 {
		return message
	}
	var b strings.Builder
	for i, r := range message {
		switch {
		case isOddSpace(r):
			b.WriteByte(' ')
		case r == utf8.RuneError:
			b.WriteString("\uFFFD") // As it is written in the end.
		default:
			_, size := utf8.DecodeRuneInString(message[i:])
			b.WriteString(message[i : i+size])
		}
	}
	return b.String()
}

// isOddSpace reports whether a character is white space, or nothing to see, beside those that ASCII has up to the space.
func isOddSpace(r rune) bool {
	return r >= 0x7f && r <= 0xa0 || r >= 0x2000 && r <= 0x200b || strings.ContainsRune("\u2028\u2029\u202f\u3000\ufeff", r)
}

// normaliser reads a message. What it decides depends on the rest of the input and on the end of the output, never on
// input that was already read: that makes the output its own normal form.
type normaliser struct {
	in  string
	at  int
	out []byte
	// full says that the next part did not fit.
	full bool
	// inPath says that a slash stands before in the same piece of text, so that a question mark begins a query.
	inPath bool
	quotes quoteState
}

// emit writes a part as a whole or, where there is no room, ends the output.
func (n *normaliser) emit(part string) {
	if len(n.out)+len(part) > maxOutput {
		n.full = true
		return
	}
	n.out = append(n.out, part...)
}

// emitLower is emit for letters of ASCII in any case.
func (n *normaliser) emitLower(part string) {
	from := len(n.out)
	n.emit(part)
	for i := from; i < len(n.out); i++ {
		n.out[i] = lower(n.out[i])
	}
}

// endsWith reports whether the output ends with a part.
func (n *normaliser) endsWith(part string) bool {
	return len(n.out) >= len(part) && string(n.out[len(n.out)-len(part):]) == part
}

// place writes a placeholder. Several moments or durations in a row are one.
func (n *normaliser) place(placeholder string) {
	if placeholder == moment || placeholder == duration {
		end := len(n.out)
		if n.last() == ' ' && end > 0 {
			end--
		}
		if bytes.HasSuffix(n.out[:end], []byte(placeholder)) {
			return
		}
	}
	n.emit(placeholder)
}

// space writes white space, of which only the first counts.
func (n *normaliser) space() {
	n.inPath = false
	if len(n.out) > 0 && n.last() != ' ' {
		n.emit(" ")
	}
}

// last is the end of the output, or a space.
func (n *normaliser) last() byte {
	if len(n.out) == 0 {
		return ' '
	}
	return n.out[len(n.out)-1]
}

// step reads one part of the message and writes what stands for it.
func (n *normaliser) step() {
	rest := n.in[n.at:]
	c := rest[0]
	if c <= ' ' {
		n.at++
		n.space()
		return
	}
	if opener, length := quoteAt(rest); length > 0 {
		n.quote(rest, opener, length)
		return
	}
	n.quotes.pass(c)
	switch {
	case isWord(c):
		n.word(rest)
	case c >= utf8.RuneSelf:
		n.rune(rest)
	default:
		n.mark(rest)
	}
}

// mark reads what begins with a character of ASCII that is no word, space or quote.
func (n *normaliser) mark(rest string) {
	switch c := rest[0]; {
	case c == '<' && n.placeholder(rest):
	case c == '/' && n.temp(rest):
	case c == '[' && n.redacted(rest):
	case c == '%' && n.tempVariable(rest):
	case c == ':' && strings.HasPrefix(rest, "://") && (isWord(n.last()) || n.last() == '>'):
		n.at += len("://") + authorityEnd(rest[len("://"):])
		n.emit("://" + host)
		n.inPath = true
	case c == ':' && !isWord(n.last()) && n.take(addressAt(rest), address):
	case n.inPath && (c == '?' || c == '#'):
		n.at += 1 + queryEnd(rest[1:])
		n.emit(rest[:1] + query)
		n.inPath = false
	default:
		n.at++
		n.emit(rest[:1])
		if c == '/' {
			n.inPath = true
		}
		if strings.IndexByte(pathEnds, c) >= 0 {
			n.inPath = false
		}
	}
}

// pathEnds end a path or a URL.
const pathEnds = "<>()[]{},;|"

// rune reads one character that is not ASCII.
func (n *normaliser) rune(rest string) {
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case r == utf8.RuneError && size == 1:
		n.at++
		n.emit("\uFFFD")
	default:
		n.at += size
		n.emit(rest[:size])
	}
}

// placeholder copies a placeholder that stands in the message.
func (n *normaliser) placeholder(rest string) bool {
	p := placeholderAt(rest)
	return p != "" && n.take(len(p), p)
}

// placeholderAt is the placeholder at the beginning of a text, or empty.
func placeholderAt(text string) string {
	if text == "" || text[0] != '<' {
		return ""
	}
	for _, p := range placeholders {
		if hasPrefixFold(text, p) {
			return p
		}
	}
	return ""
}

// redacted reads what the report's redaction leaves of a secret: [redacted:a1b2c3], or [redacted].
func (n *normaliser) redacted(rest string) bool {
	const prefix, most = "[redacted", 16
	if !hasPrefixFold(rest, prefix) {
		return false
	}
	end := len(prefix)
	if end < len(rest) && rest[end] == ':' {
		digits := end + 1
		for end = digits; end < len(rest) && isHex(rest[end]); end++ {
		}
		if end == digits || end > digits+most {
			return false
		}
	}
	if end == len(rest) || rest[end] != ']' {
		return false
	}
	n.at += end + 1
	n.place(secret)
	return true
}

// tempPrefixes begin the paths of temporary files.
var tempPrefixes = []string{"/tmp/", "/var/tmp/", "/var/folders/", "/private/tmp/", "/private/var/", "/dev/shm/", "/run/user/"}

// temp reads a temporary path to its end.
func (n *normaliser) temp(rest string) bool {
	if last := n.last(); isWord(last) || last == '.' || last == '-' || last == '/' {
		return false
	}
	for _, prefix := range tempPrefixes {
		if hasPrefixFold(rest, prefix) {
			n.at += pieceEnd(rest, pathEnds+"\"'`?#=&")
			n.place(tempPath)
			n.inPath = true
			return true
		}
	}
	return false
}

// tempVariable reads a path that begins with a variable of Windows.
func (n *normaliser) tempVariable(rest string) bool {
	for _, name := range tempVariables {
		if hasPrefixFold(rest, name) {
			return n.take(len(name)+pieceEnd(rest[len(name):], pathEnds+"\"'`?#=&"), tempPath)
		}
	}
	return false
}

// authorityEnd is the length of the host of a URL with all that belongs to it.
func authorityEnd(text string) int {
	if hasPrefixFold(text, host) {
		return len(host)
	}
	bracket := 0
	if strings.HasPrefix(text, "[") {
		bracket = strings.IndexByte(text[:min(len(text), 64)], ']') + 1
	}
	return bracket + pieceEnd(text[bracket:], pathEnds+"/?#\"'`\\")
}

// queryEnd is the length of the query of a URL, and of its fragment.
func queryEnd(text string) int {
	if hasPrefixFold(text, query) {
		return len(query)
	}
	return pieceEnd(text, "<>()[]{}\"'`\\|")
}

// pieceEnd is the length of a piece of text that ends before white space or one of some characters, without the
// punctuation at its end.
func pieceEnd(text, ends string) int {
	end := 0
	for end < len(text) && text[end] > ' ' && strings.IndexByte(ends, text[end]) < 0 {
		end++
	}
	for end > 0 && strings.IndexByte(":.,;!", text[end-1]) >= 0 {
		end--
	}
	return end
}

func hasPrefixFold(text, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(text[i]) != prefix[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// isWord reports whether a character belongs to a word. An underscore does not: what it joins is read apart.
func isWord(c byte) bool {
	return isDigit(c) || isLetter(c)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= lower(c) && lower(c) <= 'f' }
