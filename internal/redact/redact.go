// Package redact takes secrets out of text that strangers wrote, before it reaches etcd, logs or a model.
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// mark begins every placeholder.
const mark = "[redacted"

// placeholder stands for a secret: the same for the same secret, so that repeats stay recognisable, and not
// readable. A short secret gets no digits at all: it could be found by trying.
func placeholder(secret string) string {
	if len(secret) < 16 {
		return mark + "]"
	}
	sum := sha256.Sum256([]byte(secret))
	return mark + ":" + hex.EncodeToString(sum[:])[:6] + "]"
}

// secretHeaders carry credentials whatever their value looks like.
var secretHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true,
	"x-api-key": true, "api-key": true, "x-auth-token": true, "x-csrf-token": true, "x-amz-security-token": true,
}

// pattern finds a kind of secret in text. Its first group is the secret; what surrounds it stays.
type pattern struct {
	*regexp.Regexp
	// digit says that only a value with a digit is a secret: others are words that say what went wrong.
	digit bool
}

var secretPatterns = []pattern{
	// Private keys in PEM.
	secret(`(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))`),
	// JSON Web Tokens (RFC 7519): two or three base64url parts of which the first begins with {" .
	secret(`\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)`),
	// Tokens whose vendors gave them a prefix so that they can be found.
	secret(`\b((?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|ATATT[A-Za-z0-9_=-]{20,})`),
	// An Authorization value: the scheme, then a token68 that is no parameter of a challenge (RFC 9110 §11).
	word(`(?i)\b(?:bearer|basic|token)\s+([A-Za-z0-9._~+/-]{8,})(?:=*(?:[\s',;\\]|$)|")`),
	// The same behind the name of its header, where no word can stand.
	secret(`(?i)\bauthorization\\?["']?\s*[:=]\s*\\?["']?[A-Za-z0-9-]+\s+([^\s"',;\\]{6,512})`),
	// Cookies.
	secret(`(?i)\b(?:set-)?cookie\\?["']?\s*[:=]\s*\\?["']?([^\s"'=;]{1,128}=[^"'\r\n\\]{2,512})`),
	// user:password@ in an address.
	secret(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@"']*:([^\s/@"']{1,256})@`),
	// name=value and "name": "value" where the name says that the value is a secret.
	secret(`(?i)(?:api[-_]?key|access[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|auth[-_]?token|client[-_]?secret|secret[-_]?key|session[-_]?token|private[-_]?key|passphrase|password|passwd|pwd|secret)\\?["']?\s*[:=]\s*\\?["']?([^\s"'&,;\\\]}]{6,512})`),
	// The same for names that texts use for other things, too: only as a JSON key or a query parameter.
	word(`(?i)["'?&]\s*(?:token|credentials?|key)\\?["']?\s*[:=]\s*\\?["']?([A-Za-z0-9._~+/=-]{8,512})`),
	// Signatures of signed addresses.
	secret(`(?i)[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-goog-signature)=([^&\s"'\\]{8,512})`),
}

func secret(expression string) pattern { return pattern{Regexp: regexp.MustCompile(expression)} }

func word(expression string) pattern {
	return pattern{Regexp: regexp.MustCompile(expression), digit: true}
}

// Text returns s without the secrets that can be recognised by their shape or by the name beside them.
func Text(s string) string {
	for _, p := range secretPatterns {
		s = p.replace(s)
	}
	return s
}

// replace puts a placeholder in the place of every secret.
func (p pattern) replace(s string) string {
	matches := p.FindAllStringSubmatchIndex(s, -1)
	if matches == nil {
		return s
	}
	var b strings.Builder
	end := 0
	for _, m := range matches {
		found := s[m[2]:m[3]]
		if strings.Contains(found, mark) || p.digit && !strings.ContainsAny(found, "0123456789") {
			continue
		}
		b.WriteString(s[end:m[2]])
		b.WriteString(placeholder(found))
		end = m[3]
	}
	b.WriteString(s[end:])
	return b.String()
}

// beyond is how much more of a field is searched than is kept: a secret that begins before the cut must be seen
// whole to be known. What lies behind is dropped unread, so that a report of megabytes costs no more than others.
const beyond = 16 << 10

// field returns a field without secrets, cut to limit bytes.
func field(s string, limit int) string {
	return text.Cut(Text(text.Cut(s, limit+beyond)), limit)
}

// Error takes secrets and excess out of a reported error, in place, and reports whether anything changed. Done
// twice it changes nothing more.
func Error(e *v1alpha1.ToolError) bool {
	changed := false
	set := func(value *string, limit int) {
		if clean := field(*value, limit); clean != *value {
			*value, changed = clean, true
		}
	}
	set(&e.Body, v1alpha1.MaxErrorBody)
	set(&e.Message, v1alpha1.MaxErrorMessage)
	set(&e.ErrorCode, 128)
	set(&e.Host, 253)
	if len(e.ExceptionTypes) > v1alpha1.MaxExceptionTypes {
		e.ExceptionTypes, changed = e.ExceptionTypes[:v1alpha1.MaxExceptionTypes], true
	}
	for i := range e.ExceptionTypes {
		value := string(e.ExceptionTypes[i])
		set(&value, 256)
		e.ExceptionTypes[i] = v1alpha1.MatchText(value)
	}
	// The schema refuses empty names, and a report is not lost for one.
	named := slices.DeleteFunc(e.ExceptionTypes, func(name v1alpha1.MatchText) bool { return name == "" })
	changed = changed || len(named) != len(e.ExceptionTypes)
	e.ExceptionTypes = named
	return headers(e) || changed
}

// maxHeaderName bounds the name of a header, as the schema does.
const maxHeaderName = 256

// headers cleans the headers of a reported error.
func headers(e *v1alpha1.ToolError) bool {
	before := len(e.Headers)
	maps.DeleteFunc(e.Headers, func(name string, _ v1alpha1.HeaderValue) bool { return name == "" || len(name) > maxHeaderName })
	for _, name := range excess(e.Headers, v1alpha1.MaxErrorHeaders) {
		delete(e.Headers, name)
	}
	changed := len(e.Headers) != before
	for name, value := range e.Headers {
		clean := field(string(value), v1alpha1.MaxHeaderValue)
		if secretHeaders[strings.ToLower(name)] && !strings.HasPrefix(clean, mark) {
			clean = placeholder(string(value))
		}
		if clean != string(value) {
			e.Headers[name], changed = v1alpha1.HeaderValue(clean), true
		}
	}
	return changed
}

// excess returns the names, in a stable order, by which a map of headers is larger than limit.
func excess(headers map[string]v1alpha1.HeaderValue, limit int) []string {
	if len(headers) <= limit {
		return nil
	}
	return slices.Sorted(maps.Keys(headers))[limit:]
}
