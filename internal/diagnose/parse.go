package diagnose

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 10
	// maxAdjustments bounds cooldownAdjustments, as Diagnosis does.
	maxAdjustments = 8
	// maxStarts bounds the places at which an object is looked for, so that a wall of braces costs little.
	maxStarts = 64
	// maxField bounds one field of text before it is cleaned, in bytes.
	maxField = 8 << 10
)

// errNoVerdict means that an answer holds no verdict that could be read.
var errNoVerdict = errors.New("the answer holds no JSON object with a classification")

// Output is the verdict as it was answered (specification §5.3): every part is untrusted and may be missing.
type Output struct {
	// Classification is one that the specification knows.
	Classification v1alpha1.Classification
	// Scope is empty where none, or an unknown one, was given: the job's counts.
	Scope v1alpha1.Scope
	// ExpectedRecoveryAt is zero where it is unknown.
	ExpectedRecoveryAt  time.Time
	HumanNote           string
	UserActionHint      string
	CooldownAdjustments []v1alpha1.CooldownAdjustment
	// Unreadable says what of the answer could not be used, in our own words.
	Unreadable []string
}

// Parse reads the verdict in an answer: the first block fenced as json that holds one, else the first balanced JSON
// object that does. An object without the key classification is none. What is wrong in a field makes that field
// empty, an unknown classification UNCLEAR; only an answer without any verdict is an error.
func Parse(answer string) (Output, error) {
	answer = answer[:min(len(answer), maxAnswer)]
	rest := answer
	for range maxStarts {
		behind, found := cutFence(rest)
		if !found {
			break
		}
		if fields, _ := objectAt(strings.TrimLeft(behind, " \t\r\n")); isVerdict(fields) {
			return read(fields), nil
		}
		rest = behind
	}
	if fields := firstVerdict(answer); fields != nil {
		return read(fields), nil
	}
	return Output{}, errNoVerdict
}

// cutFence returns what stands behind the first fence that opens a json block.
func cutFence(s string) (behind string, found bool) {
	const fence, language = "```", "json"
	for {
		_, behind, found = strings.Cut(s, fence)
		if !found {
			return "", false
		}
		if len(behind) >= len(language) && strings.EqualFold(behind[:len(language)], language) {
			return behind[len(language):], true
		}
		s = behind
	}
}

// firstVerdict returns the first balanced object in s that is a verdict.
func firstVerdict(s string) map[string]json.RawMessage {
	for range maxStarts {
		start := strings.IndexByte(s, '{')
		if start < 0 {
			return nil
		}
		s = s[start:]
		fields, end := objectAt(s)
		if isVerdict(fields) {
			return fields
		}
		// Inside an object that is no verdict there is none either, only what it quotes.
		if fields == nil {
			end = 1
		}
		s = s[end:]
	}
	return nil
}

func isVerdict(fields map[string]json.RawMessage) bool {
	_, ok := fields["classification"]
	return ok
}

// objectAt returns the fields of the JSON object with which s begins, and where it ends; nil if there is none.
func objectAt(s string) (fields map[string]json.RawMessage, end int) {
	end = balanced(s)
	if end == 0 {
		return nil, 0
	}
	if err := json.Unmarshal([]byte(s[:end]), &fields); err != nil {
		return nil, 0
	}
	return fields, end
}

// balanced returns where the brace that opens s is closed, or 0. Braces in strings do not count.
func balanced(s string) int {
	if !strings.HasPrefix(s, "{") {
		return 0
	}
	depth, inString := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// read takes what can be used from the fields of a verdict.
func read(fields map[string]json.RawMessage) Output {
	r := reader{fields: fields}
	out := Output{
		Classification:     v1alpha1.Classification(r.word("classification")),
		Scope:              v1alpha1.Scope(r.word("scope")),
		ExpectedRecoveryAt: parseTime(r.text("expectedRecoveryAt")),
		HumanNote:          r.text("humanNote"),
		UserActionHint:     r.text("userActionHint"),
	}
	if !known(out.Classification) {
		out.Classification = v1alpha1.Unclear
		r.refuse("classification")
	}
	if out.Scope != "" && out.Scope.Width() < 0 {
		out.Scope = ""
		r.refuse("scope")
	}
	if r.text("expectedRecoveryAt") != "" && out.ExpectedRecoveryAt.IsZero() {
		r.refuse("expectedRecoveryAt")
	}
	out.CooldownAdjustments = r.adjustments()
	if len(r.refused) > 0 {
		out.Unreadable = []string{"could not be read: " + strings.Join(r.refused, ", ")}
	}
	return out
}

// reader reads the fields of an object, and remembers those that are not what they should be.
type reader struct {
	fields  map[string]json.RawMessage
	refused []string
}

func (r *reader) refuse(name string) {
	if !slices.Contains(r.refused, name) {
		r.refused = append(r.refused, name)
	}
}

// text returns a JSON string, or "" for anything else. Null and nothing are no mistakes.
func (r *reader) text(name string) string {
	raw := r.fields[name]
	var s *string
	if raw != nil && json.Unmarshal(raw, &s) != nil {
		r.refuse(name)
		return ""
	}
	if s == nil {
		return ""
	}
	return text.Cut(*s, maxField)
}

// word returns a JSON string that names a value of the specification.
func (r *reader) word(name string) string { return strings.ToUpper(strings.TrimSpace(r.text(name))) }

// adjustments returns the cooldowns that can be read, and one more than may be applied, so that it shows.
func (r *reader) adjustments() (list []v1alpha1.CooldownAdjustment) {
	const name = "cooldownAdjustments"
	var entries []json.RawMessage
	if raw := r.fields[name]; raw != nil && json.Unmarshal(raw, &entries) != nil {
		r.refuse(name)
	}
	for _, raw := range entries[:min(len(entries), maxAdjustments+1)] {
		entry := reader{}
		if json.Unmarshal(raw, &entry.fields) != nil {
			r.refuse(name)
			continue
		}
		adjustment := v1alpha1.CooldownAdjustment{
			ErrorSignature: v1alpha1.ErrorSignature(entry.text("errorSignature")),
			UserID:         v1alpha1.UserID(entry.text("userId")),
			Duration:       entry.text("duration"),
		}
		if len(entry.refused) > 0 { // A user that cannot be read must not become everybody.
			r.refuse(name)
			continue
		}
		list = append(list, adjustment)
	}
	return list
}

func known(class v1alpha1.Classification) bool {
	switch class {
	case v1alpha1.TechnicallyBroken, v1alpha1.UserSpecificTechnical, v1alpha1.UserPermission, v1alpha1.UserInput,
		v1alpha1.Intermittent, v1alpha1.Working, v1alpha1.Unclear:
		return true
	}
	return false
}

// timeLayouts are the forms in which models write times. The specification's own example has no seconds.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05.999999999", "2006-01-02T15:04",
}

// parseTime reads a time, in UTC where it names no zone, as the prompt says. Zero: it is none.
func parseTime(s string) time.Time {
	s = strings.ToUpper(strings.TrimSpace(s))
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == ' ' {
		s = s[:len("2006-01-02")] + "T" + strings.TrimSpace(s[len("2006-01-02"):])
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
