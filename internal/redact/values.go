package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// Values takes known secrets out of text that a server wrote: some echo what they were sent in their error pages. The
// zero value knows none.
type Values struct {
	replacer *strings.Replacer // nil: there is no secret
	longest  int               // length of the longest form of a secret, in bytes
}

// ValuesOf returns Values of the given secrets in the forms that servers commonly give them. Empty ones are left out.
func ValuesOf(secrets ...string) Values {
	var forms []string
	for _, secret := range secrets {
		if secret != "" {
			forms = append(forms, formsOf(secret)...)
		}
	}
	if len(forms) == 0 {
		return Values{}
	}
	// At one place the longest form must win, or the rest of it would stay.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, mark+"]")
	}
	return Values{replacer: strings.NewReplacer(pairs...), longest: len(forms[0])}
}

// formsOf returns the secret as it is and as it looks in URLs, JSON, HTML, hexadecimal and Base64, there also in the
// midst of something else, such as a user's name and a colon. Of a secret that is Base64 itself, as Basic credentials
// are, it returns what it encodes, too.
func formsOf(secret string) []string {
	forms := []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		html.EscapeString(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.URLEncoding.EncodeToString([]byte(secret)),
	}
	for _, escaped := range forms[1:3] {
		forms = append(forms, escapes.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	forms = append(forms, encodedWithin(secret)...)
	if len(secret) >= minHex {
		digits := hex.EncodeToString([]byte(secret))
		forms = append(forms, digits, strings.ToUpper(digits))
	}
	if quoted, err := json.Marshal(secret); err == nil {
		inJSON := string(quoted[1 : len(quoted)-1])
		forms = append(forms, inJSON, strings.ReplaceAll(inJSON, "/", `\/`), strings.ReplaceAll(secret, "/", `\/`))
	}
	if plain, err := base64.StdEncoding.DecodeString(secret); err == nil {
		if _, password, ok := strings.Cut(string(plain), ":"); ok && password != "" {
			forms = append(forms, string(plain), password)
		}
	}
	return forms
}

// escapes match the escaped bytes of a URL, which some write in lower case.
var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

const (
	// minHex and minEncoded bound the shortest secret that is looked for in hexadecimal, and the shortest part of one in
	// Base64: shorter ones stand anywhere by chance.
	minHex     = 6
	minEncoded = 8
)

// encodedWithin returns what is always the same in the Base64 of a longer text that holds the secret, for each of the
// three places that it may have in a group of three bytes. The secret alone, without padding, is the first of them.
func encodedWithin(secret string) []string {
	forms := []string{
		base64.RawStdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for shift := range 3 {
		padded := append(make([]byte, shift), secret...)
		from, to := (shift*8+5)/6, len(padded)*8/6
		if to-from < minEncoded {
			continue
		}
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, encoding.EncodeToString(padded)[from:to])
		}
	}
	return forms
}

// Text returns s without the secrets, and without what does not show: a server could divide one by it.
func (v Values) Text(s string) string {
	s = text.Shown(s)
	if v.replacer == nil {
		return s
	}
	return v.replacer.Replace(s)
}

// Beginning is Text for the beginning of a longer text that its sender broke off: it ends before anything that may be
// part of a secret.
func (v Values) Beginning(s string) string {
	return partOf(s, v.longest-1, v.Text)
}

// Part is Beginning for a text of which no more was read. What has only the shape of a secret goes, too: at its end may
// stand the half of one, which cannot be known.
func (v Values) Part(s string) string {
	return partOf(s, max(v.longest-1, halved), func(s string) string { return Text(v.Text(s)) })
}

// partOf cleans the beginning of a longer text. Where its last bytes, as many as end says, would be needed to
// clean it, it ends.
func partOf(s string, end int, clean func(string) string) string {
	s = text.Shown(s)
	// Behind the cut a secret may begin that goes on behind the text. One that goes on behind the cut alone is shown by the
	// first of these in part and by the second not at all, so that they are alike up to there.
	cut, whole := clean(s[:max(0, len(s)-max(0, end))]), clean(s)
	alike := 0
	for alike < min(len(cut), len(whole)) && cut[alike] == whole[alike] {
		alike++
	}
	return strings.ToValidUTF8(cut[:alike], "")
}
