package classify

import (
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// rule is an entry made ready for matching.
type rule struct {
	// verdict is what the rule answers; its Wait is set from waitHeader where that is not empty.
	verdict    Verdict
	waitHeader string

	// hasStatus says whether the status must lie between statusMin and statusMax, both included.
	hasStatus            bool
	statusMin, statusMax int32
	types                []typeName
	// needles are in lower case.
	needles   []string
	errorCode string
}

// newRule compiles an entry that Validate finds nothing wrong with.
func newRule(p *v1alpha1.ErrorPattern) rule {
	r := rule{
		verdict: Verdict{
			RuleID:    string(p.ID),
			Signature: p.Signature,
			Note:      p.Note,
			Class:     p.Classification,
			Action:    p.HealthAction,
		},
		errorCode: p.Match.ErrorCode,
	}
	if r.verdict.Action == "" {
		r.verdict.Action = v1alpha1.HealthActionNone
	}
	r.verdict.Wait, r.waitHeader, _ = parseCooldown(p.Cooldown)
	r.setStatus(&p.Match)
	for _, name := range p.Match.ExceptionType {
		r.types = append(r.types, newTypeName(string(name)))
	}
	for _, text := range p.Match.BodyContains {
		r.needles = append(r.needles, strings.ToLower(string(text)))
	}
	return r
}

// setStatus makes one range of httpStatus and httpStatusRange, which both must hold where both are set. It may
// be an empty one, which no status matches.
func (r *rule) setStatus(m *v1alpha1.ErrorMatch) {
	r.statusMin, r.statusMax = minStatus, maxStatus
	if m.HTTPStatus != nil {
		r.hasStatus = true
		r.statusMin, r.statusMax = *m.HTTPStatus, *m.HTTPStatus
	}
	if len(m.HTTPStatusRange) == 2 {
		r.hasStatus = true
		r.statusMin = max(r.statusMin, m.HTTPStatusRange[0])
		r.statusMax = min(r.statusMax, m.HTTPStatusRange[1])
	}
}

// matches reports whether every selector that is set holds. The text is read last: it costs most.
func (r *rule) matches(s *subject) bool {
	if r.hasStatus {
		status := s.err.HTTPStatus
		if status == nil || *status < r.statusMin || *status > r.statusMax {
			return false
		}
	}
	if r.errorCode != "" && r.errorCode != s.err.ErrorCode {
		return false
	}
	if r.types != nil && !matchesType(r.types, s.err.ExceptionTypes) {
		return false
	}
	return r.needles == nil || matchesText(r.needles, s.text())
}

// subject is one reported error under classification.
type subject struct {
	err     *v1alpha1.ToolError
	lowered bool
	lower   string
}

// text is the body, or the message where there is no body, in lower case. It is made when the first rule asks.
func (s *subject) text() string {
	if !s.lowered {
		text := s.err.Body
		if text == "" {
			text = s.err.Message
		}
		s.lower, s.lowered = strings.ToLower(text), true
	}
	return s.lower
}

func matchesText(needles []string, text string) bool {
	for _, needle := range needles {
		if strings.Contains(text, needle) {
			return true
		}
	}
	return false
}

// matchesType reports whether one of the names is one of the reported types.
func matchesType(names []typeName, reported []v1alpha1.MatchText) bool {
	for _, text := range reported {
		got := newTypeName(string(text))
		for _, want := range names {
			if want.agrees(got) {
				return true
			}
		}
	}
	return false
}

// typeName is the name of an error's type, as in java.net.ConnectException, *net.OpError or TypeError.
type typeName struct {
	full string
	// last is what follows the last separator; all of full where there is none.
	last string
}

func newTypeName(text string) typeName {
	full := strings.TrimPrefix(text, "*")
	return typeName{full: full, last: full[lastSeparator(full)+1:]}
}

// agrees reports whether two names may stand for one type: they are equal, or one is a bare name and the last
// segment of the other. Two different qualified names never agree: com.acme.ConnectException is not
// java.net.ConnectException.
func (n typeName) agrees(other typeName) bool {
	if n.last != other.last {
		return false
	}
	return len(n.full) == len(n.last) || len(other.full) == len(other.last) || n.full == other.full
}

// lastSeparator is the index of the last character that separates the segments of a type's name in some
// language, or -1.
func lastSeparator(name string) int {
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case '.', '/', '$', ':', '\\':
			return i
		}
	}
	return -1
}
