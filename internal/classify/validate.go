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
	maxName      = 120
	maxTexts     = 64
	maxText      = 256
	maxErrorCode = 128
	maxNote      = 500
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
	if m.HTTPStatus != nil {
		v.status("match.httpStatus", *m.HTTPStatus)
	}
	v.statusRange(m.HTTPStatusRange)
	v.texts("match.exceptionType", m.ExceptionType)
	for i, name := range m.ExceptionType {
		if name != "" && newTypeName(string(name)).last == "" {
			v.add("match.exceptionType[%d]: %s names no type; write for example java.net.ConnectException", i,
				quote(string(name)))
		}
	}
	v.texts("match.bodyContains", m.BodyContains)
	if n := utf8.RuneCountInString(m.ErrorCode); n > maxErrorCode {
		v.add("match.errorCode: has %d characters, at most %d are allowed", n, maxErrorCode)
	}
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

// texts checks a list of which one element must match. An empty list or element is refused: whoever writes one
// does not mean "every error".
func (v *findings) texts(field string, texts []v1alpha1.MatchText) {
	if texts != nil && len(texts) == 0 {
		v.add("%s: is empty; leave it out if it is to select nothing", field)
	}
	if len(texts) > maxTexts {
		v.add("%s: has %d elements, at most %d are allowed", field, len(texts), maxTexts)
		return
	}
	for i, text := range texts {
		switch n := utf8.RuneCountInString(string(text)); {
		case n == 0:
			v.add("%s[%d]: is empty, which would match every error; write some text", field, i)
		case n > maxText:
			v.add("%s[%d]: has %d characters, at most %d are allowed", field, i, n, maxText)
		}
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
