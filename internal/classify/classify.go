// Package classify decides from ordered rules, without a model and without any input or output, what a
// reported tool error means, so that a diagnosis is paid for only where the evidence decides nothing.
//
// The rules and their format are those of the specification's §4.2.
package classify

import (
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
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
	if where == "" {
		return p.Message
	}
	return where + ": " + p.Message
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
	// Action says what is written into the tool's health at once; never empty.
	Action v1alpha1.HealthAction
}

// Rules is a compiled, ordered list of rules. It never changes and is safe for concurrent use. The nil and the
// empty list leave every error unclassified.
type Rules struct {
	rules   []rule
	entries []EffectiveEntry
}

// unclassified is the verdict where not even a fallback rule matches: a level may replace `fallback` by
// something narrower, and an error must be diagnosed all the same.
var unclassified = Verdict{
	RuleID:    fallbackID,
	Signature: "unclassified",
	Class:     v1alpha1.Unclear,
	Action:    v1alpha1.HealthActionNone,
}

// Classify gives the verdict of the first rule that matches a reported error, and UNCLEAR where none does. It
// depends on nothing but its arguments. The tool's name selects nothing among the specification's selectors.
// Now is the time against which a wait until a date counts where the report states no time of its own.
func (r *Rules) Classify(_ string, e v1alpha1.ToolError, now time.Time) Verdict {
	if r == nil {
		return unclassified
	}
	subject := subject{err: &e}
	for i := range r.rules {
		if rule := &r.rules[i]; rule.matches(&subject) {
			verdict := rule.verdict
			if rule.waitHeader != "" {
				verdict.Wait = statedWait(&e, rule.waitHeader, now)
			}
			return verdict
		}
	}
	return unclassified
}

// Entries lists the rules in force in the order in which they are tried. The caller may change the slice, not
// what its entries point to.
func (r *Rules) Entries() []EffectiveEntry {
	if r == nil {
		return nil
	}
	return append([]EffectiveEntry(nil), r.entries...)
}
