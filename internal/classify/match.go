package classify

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify/scan"
)

// rule is an entry made ready for matching. What is asked of an error stands in the order in which it is tried:
// what costs least comes first.
type rule struct {
	host    v1alpha1.HostMatch
	tools   []string
	types   []int32
	headers []headerRule
	codes   []string
	fields  []fieldRule

	messageAny, messageAll []int32
	bodyAny, bodyAll       []int32

	// verdict is what the rule answers; its Wait is set from waitHeader where that is not empty, and its Signature
	// gets a suffix from the error where fingerprint is set.
	verdict     Verdict
	waitHeader  string
	fingerprint bool
}

// headerRule asks for a header. Without equals and contains, which are in lower case as far as ASCII goes, only its
// presence counts.
type headerRule struct {
	name, equals, contains string
	present                bool
}

// fieldRule asks for one of some values at a place of a JSON body.
type fieldRule struct {
	place int
	in    []string
}

// questions are what rules ask for, each thing once for all of them.
type questions struct {
	needles needles
	types   typeNames
	places  places
	// code is the place of the error code that a JSON body states.
	code int
}

// newRule compiles an entry that Validate finds nothing wrong with.
func (a *questions) newRule(p *v1alpha1.ErrorPattern) rule {
	m := &p.Match
	r := rule{
		verdict: Verdict{
			RuleID:    string(p.ID),
			Signature: p.Signature,
			Note:      p.Note,
			Class:     p.Classification,
			Action:    p.HealthAction,
		},
		host:       m.Host,
		codes:      m.ErrorCodeIn,
		messageAny: a.addNeedles(m.MessageContains),
		messageAll: a.addNeedles(m.MessageContainsAll),
		bodyAny:    a.addNeedles(m.BodyContains),
		bodyAll:    a.addNeedles(m.BodyContainsAll),
	}
	if r.verdict.Action == "" {
		r.verdict.Action = v1alpha1.HealthActionNone
	}
	r.verdict.Wait, r.waitHeader, _ = parseCooldown(p.Cooldown)
	if r.waitHeader == "" {
		r.verdict.Wait, r.verdict.WaitNote = r.wait(nil, time.Time{}, MaxWait)
	}
	r.fingerprint = p.Fingerprint
	for _, name := range m.ToolName {
		r.tools = append(r.tools, string(name))
	}
	for _, name := range m.ExceptionType {
		r.types = append(r.types, a.types.add(string(name)))
	}
	for _, h := range m.Header {
		r.headers = append(r.headers, headerRule{strings.ToLower(h.Name), scan.Fold(h.Equals), scan.Fold(h.Contains), h.Present == nil || *h.Present})
	}
	for _, f := range m.JSONField {
		r.fields = append(r.fields, fieldRule{a.places.add(f.Pointer), f.In})
	}
	r.setCode(m)
	return r
}

// needs are the parts without which no report matches.
func (r *rule) needs() (needs part) {
	for _, n := range []struct {
		asked bool
		part  part
	}{
		{r.types != nil, partTypes},
		{slices.ContainsFunc(r.headers, func(h headerRule) bool { return h.present }), partHeaders},
		{r.codes != nil, partCode},
		{r.fields != nil, partBody},
		{r.messageAny != nil || r.messageAll != nil, partMessage},
		{r.bodyAny != nil || r.bodyAll != nil, partText},
	} {
		if n.asked {
			needs |= n.part
		}
	}
	return needs
}

// asksMore reports whether there is something that matchesMore must look at.
func (r *rule) asksMore() bool {
	return r.host != "" || r.needs()&^partTypes != 0 || len(r.tools)+len(r.headers) > 0
}

func (a *questions) addNeedles(texts []v1alpha1.Substring) []int32 {
	var ids []int32
	for _, text := range texts {
		ids = append(ids, a.needles.add(string(text)))
	}
	return ids
}

// statusRange makes one range of httpStatus and httpStatusRange, which both must hold where both are set. It may
// be an empty one, which no status matches.
func statusRange(m *v1alpha1.ErrorMatch) (first, last int32) {
	if m.HTTPStatus == nil && len(m.HTTPStatusRange) != 2 && m.HTTPStatusIn == nil {
		return math.MinInt32, math.MaxInt32
	}
	first, last = minStatus, maxStatus
	if m.HTTPStatus != nil {
		first, last = *m.HTTPStatus, *m.HTTPStatus
	}
	if len(m.HTTPStatusRange) == 2 {
		first, last = max(first, m.HTTPStatusRange[0]), min(last, m.HTTPStatusRange[1])
	}
	if m.HTTPStatusIn != nil {
		first, last = max(first, slices.Min(m.HTTPStatusIn)), min(last, slices.Max(m.HTTPStatusIn))
	}
	return first, last
}

// setCode makes one list of errorCode and errorCodeIn, which both must hold where both are set.
func (r *rule) setCode(m *v1alpha1.ErrorMatch) {
	switch {
	case m.ErrorCode == "":
	case m.ErrorCodeIn == nil || slices.Contains(m.ErrorCodeIn, m.ErrorCode):
		r.codes = []string{m.ErrorCode}
	default:
		// No code is both; an empty one matches nothing.
		r.codes = []string{""}
	}
}

// matchesMore reports whether every selector holds that is set, apart from those for the status and for exception
// types, which the index has looked at.
func (r *rule) matchesMore(s *subject) bool {
	switch {
	case r.tools != nil && !slices.Contains(r.tools, s.call.Tool):
	case r.host != "" && !hostAgrees(r.host, s.host()):
	case !r.matchesHeaders(s):
	case r.codes != nil && !r.matchesCode(s):
	case !r.matchesFields(s):
	default:
		return r.matchesTexts(s)
	}
	return false
}

func (r *rule) matchesHeaders(s *subject) bool {
	for i := range r.headers {
		h := &r.headers[i]
		value, ok := header(s.err, h.name)
		if ok != h.present {
			return false
		}
		if h.equals == "" && h.contains == "" {
			continue
		}
		value = scan.Fold(value)
		if h.equals != "" && value != h.equals || !strings.Contains(value, h.contains) {
			return false
		}
	}
	return true
}

func (r *rule) matchesCode(s *subject) bool {
	code := s.code()
	return code != "" && slices.Contains(r.codes, code)
}

func (r *rule) matchesFields(s *subject) bool {
	if r.fields == nil {
		return true
	}
	values := s.json()
	if values == nil {
		return false
	}
	for _, f := range r.fields {
		if v := values[f.place]; v.kind == absent || !slices.Contains(f.in, v.text) {
			return false
		}
	}
	return true
}

func (r *rule) matchesTexts(s *subject) bool {
	if r.messageAny != nil || r.messageAll != nil {
		if found := s.messageFound(); !found.hasAll(r.messageAll) || !found.hasAny(r.messageAny) {
			return false
		}
	}
	if r.bodyAny != nil || r.bodyAll != nil {
		found := s.bodyFound()
		return found.hasAll(r.bodyAll) && found.hasAny(r.bodyAny)
	}
	return true
}

// subject is one reported error under classification. What costs something is made when the first rule asks. It
// holds pointers where the compiler would otherwise move the whole of it to the heap.
type subject struct {
	asked *questions
	err   *v1alpha1.ToolError
	call  *Call

	readJSON bool
	which    v1alpha1.HostMatch
	values   []scalar
	// texts is where the search in texts is kept, once a rule has asked for one.
	texts **textSearch
}

// search is what the texts hold that were searched so far.
func (s *subject) search() *textSearch {
	if *s.texts == nil {
		t := textsPool.Get().(*textSearch)
		t.readMessage, t.readBody = false, false
		*s.texts = t
	}
	return *s.texts
}

func (s *subject) host() v1alpha1.HostMatch {
	if s.which == "" {
		s.which = whichHost(s.err.Host, s.call.EndpointHost)
	}
	return s.which
}

// code is the error code that the report states, or else the one in its body.
func (s *subject) code() string {
	if s.err.ErrorCode != "" || s.err.Body == "" {
		return s.err.ErrorCode
	}
	values := s.json()
	if values == nil || values[s.asked.code].kind != textual && values[s.asked.code].kind != numeric {
		return ""
	}
	return values[s.asked.code].text
}

// json are the values at the places of the body, or nil where it is no JSON.
func (s *subject) json() []scalar {
	if !s.readJSON {
		s.readJSON = true
		if s.err.Body != "" {
			s.values = s.asked.places.read(s.err.Body)
		}
	}
	return s.values
}

func (s *subject) messageFound() *found {
	t := s.search()
	if !t.readMessage {
		t.readMessage = true
		s.asked.needles.find(s.err.Message, &t.message)
	}
	return &t.message
}

// bodyFound is what stands in the body, or in the message where there is no body.
func (s *subject) bodyFound() *found {
	if s.err.Body == "" {
		return s.messageFound()
	}
	t := s.search()
	if !t.readBody {
		t.readBody = true
		s.asked.needles.find(s.err.Body, &t.body)
	}
	return &t.body
}
