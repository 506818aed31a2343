// Package classify decides from ordered rules, without a model and without any input or output, what a
// reported tool error means, so that a diagnosis is paid for only where the evidence decides nothing.
//
// The rules and their format are those of the specification's §4.2.
package classify

import (
	"fmt"
	"sync"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify/fingerprint"
)

// fallbackID is the rule that catches what no other rule matches. New rules are placed before it.
const fallbackID = "fallback"

// Layer is one level of the cascade: bundled, operator, tenant or project.
type Layer struct {
	// Name is how the level is called in Entries.
	Name string
	// Entries are the level's rules in order.
	Entries []Entry
}

// Entry is a rule and where it stands.
type Entry struct {
	Pattern v1alpha1.ErrorPattern
	// Set is the namespace and name of the ErrorPatternSet, as in "team-a/my-set"; empty for the bundled
	// rules and for rules from a file.
	Set string
	// Path is the rule's place, as in "spec.patterns[3]".
	Path string
}

// EffectiveEntry is a rule in force and the level it came from.
type EffectiveEntry struct {
	Entry
	// Layer is the name of the Layer.
	Layer string
}

// Problem says what is wrong with an entry. The entry is not in force, unless the message says otherwise.
type Problem struct {
	// Set is the entry's ErrorPatternSet; see Entry.
	Set string
	// Path is the place of the entry, or of the field where that is narrower; see Entry.
	Path string
	// ID is the entry's id, as far as it has one. It is untrusted text, at most 120 bytes long.
	ID string
	// Line and Column say where in its file that is, counted from 1; 0 where that is not known.
	Line, Column int
	// Message says what is wrong and what to write instead. What it quotes is short and printable.
	Message string
}

// String gives the problem in one line.
func (p Problem) String() string {
	where := p.Path
	if p.Set != "" {
		where = p.Set + " " + where
	}
	if p.ID != "" {
		where += " (" + quote(p.ID) + ")"
	}
	message := p.Message
	if p.Line > 0 {
		message = fmt.Sprintf("line %d: %s", p.Line, message)
	}
	if where == "" {
		return message
	}
	return where + ": " + message
}

// Verdict is what the rules say about one reported error.
type Verdict struct {
	// RuleID is the id of the rule that matched.
	RuleID string
	// Signature names the kind of error.
	Signature v1alpha1.ErrorSignature
	// Note is the rule's note.
	Note string
	// Class is what the error means. Unclear asks for a diagnosis.
	Class v1alpha1.Classification
	// Wait is the cooldown that the rule or the answer states: 0, where the class's default applies, or from
	// one second to MaxWait.
	Wait time.Duration
	// Stated says that Wait is what the answer itself asks for, rather than what the rule says.
	Stated bool
	// WaitNote says what was asked for where Wait was cut to the longest one; empty otherwise.
	WaitNote string
	// Action says what is written into the tool's health at once; never empty.
	Action v1alpha1.HealthAction
}

// Rules is a compiled, ordered list of rules. It never changes and is safe for concurrent use. The nil and the
// empty list leave every error unclassified.
type Rules struct {
	rules   []rule
	asked   questions
	index   index
	entries []EffectiveEntry

	shadowsOnce sync.Once
	shadows     []Shadow
}

// unclassified gives the verdict where not even a fallback rule matches: a level may replace `fallback` by
// something narrower, and an error must be diagnosed all the same.
var unclassified = rule{verdict: Verdict{
	RuleID:    fallbackID,
	Signature: "unclassified",
	Class:     v1alpha1.Unclear,
	Action:    v1alpha1.HealthActionNone,
}}

// Call says which tool was called and where it is.
type Call struct {
	// Tool is the name by which agents call the tool.
	Tool string
	// EndpointHost is the host of the tool's endpoint, with or without a port; empty where it is not known.
	EndpointHost string
}

// Classify gives the verdict of the first rule that matches a reported error, and UNCLEAR where none does. It
// depends on nothing but its arguments. Now is the time against which a wait until a date counts where the report
// states no time of its own.
//
// The report is passed by reference: to copy it would take longer than to decide.
func (r *Rules) Classify(call Call, e *v1alpha1.ToolError, now time.Time) (v Verdict) {
	r.decide(&v, &call, e, now)
	return v
}

func (r *Rules) decide(v *Verdict, call *Call, e *v1alpha1.ToolError, now time.Time) {
	rule := r.first(call, e)
	*v = rule.verdict
	if rule.waitHeader != "" || rule.fingerprint {
		rule.read(v, e, now)
	}
}

// first is the first rule that matches.
func (r *Rules) first(call *Call, e *v1alpha1.ToolError) *rule {
	if r == nil {
		return &unclassified
	}
	if r.index.words == 1 {
		if i, sure := r.index.atOnce(e); sure {
			return r.at(i)
		}
	}
	return r.at(r.firstOfAll(call, e))
}

// at is the rule at a place.
func (r *Rules) at(i int) *rule {
	if i == none {
		return &unclassified
	}
	return &r.rules[i]
}

// firstOfAll is the place of the first rule that matches. It is apart from first because what it keeps of a report takes
// longer than most decisions.
func (r *Rules) firstOfAll(call *Call, e *v1alpha1.ToolError) int {
	var c candidates
	c.start(&r.index, e)
	i := c.next()
	if i >= 0 && r.index.more.has(i) {
		i = r.firstOf(&c, i, call, e)
	}
	return i
}

// firstOf is the first of the candidates from a given one on that matches, or -1. It is apart from first because what
// it makes of a report takes longer than most decisions.
func (r *Rules) firstOf(c *candidates, i int, call *Call, e *v1alpha1.ToolError) int {
	var texts *textSearch
	var s subject
	s.asked, s.err, s.call, s.texts = &r.asked, e, call, &texts
	for i >= 0 && r.index.more.has(i) && !r.rules[i].matchesMore(&s) {
		i = c.next()
	}
	if texts != nil {
		textsPool.Put(texts)
	}
	return i
}

// read puts into the verdict of a rule the wait that the answer states, and what tells failures apart in its signature.
func (r *rule) read(v *Verdict, e *v1alpha1.ToolError, now time.Time) {
	if r.waitHeader != "" {
		v.Wait, v.WaitNote = r.wait(e, now, MaxWait)
		v.Stated = v.Wait > 0
	}
	if r.fingerprint {
		said := e.Message
		if said == "" {
			said = e.Body
		}
		suffix := fingerprint.Of(e.ExceptionTypes, said)
		v.Signature = v1alpha1.ErrorSignature(fingerprint.Append(string(v.Signature), suffix))
	}
}

// Entries lists the rules in force in the order in which they are tried. The caller may change the slice, not
// what its entries point to.
func (r *Rules) Entries() []EffectiveEntry {
	if r == nil {
		return nil
	}
	return append([]EffectiveEntry(nil), r.entries...)
}
