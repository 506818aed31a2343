package classify

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// The bounds of an entry, as in the schema of ErrorPatternSet; lengths are in characters.
const (
	minStatus    = 100
	maxStatus    = 999
	minSubstring = 4
	maxSubstring = 256 // As minSubstring, in bytes.
	maxToolName  = 128
	maxFields    = 16
	maxName      = 120
	maxTexts     = 64
	maxText      = 256
	maxErrorCode = 128
	maxNote      = 500
	// maxSize bounds the texts of all selectors of a level, in bytes.
	maxSize = 1 << 20
	// maxQuoted bounds what a message quotes of an entry, in characters.
	maxQuoted = 60
)

// Validate says what is wrong with an entry, each as "field: what, and what to write instead"; nothing for an
// entry that can be in force. It asks no less than the schema of ErrorPatternSet does, for entries that no API
// server has seen.
func Validate(p v1alpha1.ErrorPattern) []string {
	var v findings
	v.name("id", string(p.ID))
	v.name("signature", string(p.Signature))
	if p.Before != "" {
		v.name("before", string(p.Before))
	}
	v.match(&p.Match)
	v.enum("classification", string(p.Classification), classifications)
	if p.HealthAction != "" {
		v.enum("healthAction", string(p.HealthAction), healthActions)
	}
	if _, _, err := parseCooldown(p.Cooldown); err != nil {
		v.add("cooldown: %v", err)
	}
	if n := utf8.RuneCountInString(p.Note); n > maxNote {
		v.add("note: has %d characters, at most %d are allowed", n, maxNote)
	}
	return v
}

var (
	classifications = []string{
		string(v1alpha1.TechnicallyBroken), string(v1alpha1.UserSpecificTechnical), string(v1alpha1.UserPermission),
		string(v1alpha1.UserInput), string(v1alpha1.Intermittent), string(v1alpha1.Working), string(v1alpha1.Unclear),
	}
	healthActions = []string{
		string(v1alpha1.HealthActionNone), string(v1alpha1.HealthActionMarkUnavailable),
		string(v1alpha1.HealthActionMarkDegraded),
	}
	hosts = []string{string(v1alpha1.HostEndpoint), string(v1alpha1.HostForeign), string(v1alpha1.HostUnknown)}
)

// findings are what Validate found.
type findings []string

func (v *findings) add(format string, args ...any) {
	*v = append(*v, fmt.Sprintf(format, args...))
}

// name checks an id or a signature, which become keys and parts of condition types.
func (v *findings) name(field, s string) {
	switch {
	case s == "":
		v.add("%s: is required", field)
	case len(s) > maxName:
		v.add("%s: has %d characters, at most %d are allowed", field, len(s), maxName)
	case !isName(s):
		v.add("%s: %s is not allowed; use letters, digits, '-', '_' and '.', with a letter or digit at both ends",
			field, quote(s))
	}
}

func isName(s string) bool {
	for i := range len(s) {
		inner := i > 0 && i < len(s)-1 && strings.IndexByte("-_.", s[i]) >= 0
		if !isAlphanumeric(s[i]) && !inner {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (v *findings) enum(field, s string, allowed []string) {
	for _, a := range allowed {
		if s == a {
			return
		}
	}
	if s == "" {
		v.add("%s: is required; use one of %s", field, strings.Join(allowed, ", "))
		return
	}
	v.add("%s: %s is not known; use one of %s", field, quote(s), strings.Join(allowed, ", "))
}

func (v *findings) match(m *v1alpha1.ErrorMatch) {
	listed(v, "match.toolName", m.ToolName, maxTexts, checkText[v1alpha1.MatchToolName](maxToolName))
	if m.HTTPStatus != nil {
		v.status("match.httpStatus", *m.HTTPStatus)
	}
	v.statusRange(m.HTTPStatusRange)
	listed(v, "match.httpStatusIn", m.HTTPStatusIn, maxTexts, (*findings).status)
	if m.Host != "" {
		v.enum("match.host", string(m.Host), hosts)
	}
	listed(v, "match.exceptionType", m.ExceptionType, maxTexts, (*findings).exceptionType)
	if n := utf8.RuneCountInString(m.ErrorCode); n > maxErrorCode {
		v.add("match.errorCode: has %d characters, at most %d are allowed", n, maxErrorCode)
	}
	listed(v, "match.errorCodeIn", m.ErrorCodeIn, maxTexts, checkText[string](maxErrorCode))
	listed(v, "match.header", m.Header, maxFields, (*findings).header)
	listed(v, "match.jsonField", m.JSONField, maxFields, (*findings).jsonField)
	listed(v, "match.bodyContains", m.BodyContains, maxTexts, (*findings).substring)
	listed(v, "match.bodyContainsAll", m.BodyContainsAll, maxTexts, (*findings).substring)
	listed(v, "match.messageContains", m.MessageContains, maxTexts, (*findings).substring)
	listed(v, "match.messageContainsAll", m.MessageContainsAll, maxTexts, (*findings).substring)
}

// listed checks a list and each of its elements. An empty list is refused: whoever writes one does not mean
// "every error".
func listed[T any](v *findings, field string, list []T, most int, check func(*findings, string, T)) {
	if list != nil && len(list) == 0 {
		v.add("%s: is empty; leave it out if it is to select nothing", field)
	}
	if len(list) > most {
		v.add("%s: has %d elements, at most %d are allowed", field, len(list), most)
		return
	}
	for i, element := range list {
		check(v, fmt.Sprintf("%s[%d]", field, i), element)
	}
}

// checkText makes a check of text that is not empty and has at most so many characters.
func checkText[T ~string](most int) func(*findings, string, T) {
	return func(v *findings, field string, text T) {
		switch n := utf8.RuneCountInString(string(text)); {
		case n == 0:
			v.add("%s: is empty; write some text", field)
		case n > most:
			v.add("%s: has %d characters, at most %d are allowed", field, n, most)
		}
	}
}

func (v *findings) exceptionType(field string, name v1alpha1.MatchText) {
	checkText[v1alpha1.MatchText](maxText)(v, field, name)
	if name != "" && newTypeName(string(name)).last == "" {
		v.add("%s: %s names no type; write for example java.net.ConnectException", field, quote(string(name)))
	}
}

// substring checks a text that is looked for. A short one stands in nearly every text by chance.
func (v *findings) substring(field string, text v1alpha1.Substring) {
	switch n := len(text); {
	case n < minSubstring:
		v.add("%s: has %d bytes, at least %d are needed to mean something", field, n, minSubstring)
	case n > maxSubstring:
		v.add("%s: has %d bytes, at most %d are allowed", field, n, maxSubstring)
	}
}

func (v *findings) header(field string, h v1alpha1.HeaderMatch) {
	if !isHeaderName(h.Name) {
		v.add("%s.name: %s is no header name; write for example retry-after", field, quote(h.Name))
	}
	asked := 0
	for _, set := range []bool{h.Equals != "", h.Contains != "", h.Present != nil} {
		if set {
			asked++
		}
	}
	if asked != 1 {
		v.add("%s: has %d of equals, contains and present; write exactly one", field, asked)
	}
	if n := utf8.RuneCountInString(h.Equals + h.Contains); n > maxText {
		v.add("%s: asks for %d characters, at most %d are allowed", field, n, maxText)
	}
}

func (v *findings) jsonField(field string, f v1alpha1.JSONFieldMatch) {
	if !isPointer(f.Pointer) {
		v.add("%s.pointer: %s is no RFC 6901 pointer; write for example /error/code", field, quote(f.Pointer))
	} else if n := utf8.RuneCountInString(f.Pointer); n > maxText {
		v.add("%s.pointer: has %d characters, at most %d are allowed", field, n, maxText)
	}
	if f.In == nil {
		v.add("%s.in: is required; list the values of which one must stand there", field)
	}
	listed(v, field+".in", f.In, maxTexts, func(v *findings, field, value string) {
		if n := utf8.RuneCountInString(value); n > maxText {
			v.add("%s: has %d characters, at most %d are allowed", field, n, maxText)
		}
	})
}

func (v *findings) status(field string, status int32) {
	if status < minStatus || status > maxStatus {
		v.add("%s: %d is no HTTP status; use %d to %d", field, status, minStatus, maxStatus)
	}
}

func (v *findings) statusRange(r []int32) {
	const field = "match.httpStatusRange"
	switch {
	case r == nil:
	case len(r) != 2:
		v.add("%s: has %d numbers; write the first and the last status, as in [500, 599]", field, len(r))
	case r[0] > r[1]:
		v.add("%s: begins above its end; write [%d, %d]", field, r[1], r[0])
	default:
		v.status(field+"[0]", r[0])
		v.status(field+"[1]", r[1])
	}
}

// quote makes untrusted text fit for a message: printable, and cut where it is long.
func quote(s string) string {
	runes := 0
	for i := range s {
		if runes == maxQuoted {
			return strconv.Quote(s[:i]) + "…"
		}
		runes++
	}
	return strconv.Quote(s)
}
