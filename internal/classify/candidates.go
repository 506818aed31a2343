package classify

import (
	"math/bits"
	"slices"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// The rules that a report may match are found by sets of rules, one bit each, that are made once: of those for its
// status, of those for the parts that it has, and of those for its exception types. What is in all of them is decided
// by looking at nothing else, or, where a rule asks for more, is all that must be looked at. So a decision without a
// body costs the same for twelve rules and for sixty, and little more for a thousand.

// ruleSet is a set of rules, by their place in the list.
type ruleSet []uint64

func (s ruleSet) add(rule int) { s[rule/64] |= 1 << (rule % 64) }

func (s ruleSet) addAll(other ruleSet) {
	for i, word := range other {
		s[i] |= word
	}
}

func (s ruleSet) has(rule int) bool { return s[rule/64]>>(rule%64)&1 != 0 }

// part is a set of parts of a report.
type part uint8

const (
	partTypes part = 1 << iota
	partHeaders
	partBody
	partMessage
	// partText is a body or a message.
	partText
	// partCode is a stated code, or a body, in which one may stand.
	partCode

	allParts = 1<<iota - 1
)

// partsOf are the parts that a report has.
func partsOf(e *v1alpha1.ToolError) (has part) {
	if len(e.ExceptionTypes) > 0 {
		has |= partTypes
	}
	if len(e.Headers) > 0 {
		has |= partHeaders
	}
	if e.Body != "" {
		has |= partBody | partText | partCode
	}
	if e.Message != "" {
		has |= partMessage | partText
	}
	if e.ErrorCode != "" {
		has |= partCode
	}
	return has
}

// index finds the rules that a report may match. All sets have the same number of words; where several stand one behind
// the other, they have numbers.
type index struct {
	words int
	// statusSets are the sets of rules that some status leaves possible, and statusOf is the number of the one for a
	// status. A status that no rule can ask for counts as none, which is 0.
	statusSets []uint64
	statusOf   [maxStatus + 1]uint16
	// partSets are, for each set of parts, the rules that need no others.
	partSets []uint64
	// typed are the rules that ask for exception types. Types are the names that they ask for.
	typed ruleSet
	types typeTable
	// more are the rules that ask for anything that the sets above do not tell.
	more ruleSet
}

func newIndex(rules []rule, entries []EffectiveEntry, names *typeNames) index {
	words := len(rules)/64 + 1
	x := index{words: words, typed: make(ruleSet, words), more: make(ruleSet, words),
		partSets: make([]uint64, words*(allParts+1)), types: newTypeTable(rules, names)}
	for i := range rules {
		needs := rules[i].needs()
		for has := range part(allParts + 1) {
			if needs&^has == 0 {
				ruleSet(x.partSets[int(has)*words:]).add(i)
			}
		}
		if rules[i].types != nil {
			x.typed.add(i)
		}
		if rules[i].asksMore() {
			x.more.add(i)
		}
	}
	x.setStatuses(entries)
	return x
}

// setStatuses keeps each set once: there are about as many as there are statuses that rules name.
func (x *index) setStatuses(entries []EffectiveEntry) {
	all := make([]uint64, x.words*len(x.statusOf))
	of := func(status int) ruleSet { return all[status*x.words : (status+1)*x.words] }
	for i := range entries {
		asked := statusesOf(&entries[i].Pattern.Match)
		if asked.holds(0) {
			of(0).add(i)
		}
		for status := max(minStatus, asked.first); status <= min(maxStatus, asked.last); status++ {
			if asked.holds(status) {
				of(int(status)).add(i)
			}
		}
	}
	for status := 1; status < minStatus; status++ {
		copy(of(status), of(0))
	}
	for status := range x.statusOf {
		at := 0
		for at < len(x.statusSets) && !slices.Equal(x.statusSets[at:at+x.words], of(status)) {
			at += x.words
		}
		if at == len(x.statusSets) {
			x.statusSets = append(x.statusSets, of(status)...)
		}
		x.statusOf[status] = uint16(at / x.words) // There are no more sets than statuses.
	}
}

// atOnce is the rule that decides a report where nothing more need be looked at, or none where none may match. It is for
// lists of which one word holds all rules, as the specification's: nothing of the report need be kept for a next word.
func (x *index) atOnce(e *v1alpha1.ToolError) (rule int, sure bool) {
	open := x.statusSets[x.statusOf[statusOf(e)]] & x.partSets[partsOf(e)]
	if typed := x.typed[0]; open&-open&typed != 0 {
		var asked uint64
		for _, name := range e.ExceptionTypes {
			asked |= x.types.sets[x.types.lead(string(name))]
		}
		open &^= typed &^ asked
	}
	if open == 0 {
		return none, true
	}
	return bits.TrailingZeros64(open), open&-open&x.more[0] == 0
}

// statusOf is the stated status as rules see it.
func statusOf(e *v1alpha1.ToolError) int32 {
	if e.HTTPStatus != nil && 0 <= *e.HTTPStatus && *e.HTTPStatus <= maxStatus {
		return *e.HTTPStatus
	}
	return 0
}

// none is the place of no rule.
const none = -1

// candidates are the rules that one report may match, in their order. It is small, because it is made for each report.
type candidates struct {
	index    *index
	reported []v1alpha1.MatchText
	// status and parts are where the sets for the report begin in statusSets and partSets.
	status, parts int
	// word is the one of the sets that is read, and open are the bits in it that are still to be looked at.
	word int
	open uint64
	// typesKnown says that of the rules that ask for types only those are open that ask for a reported one.
	typesKnown bool
	// leads are the numbers of the sets that the reported types lead to, once leadsKnown: few without an allocation.
	leadsKnown bool
	leadCount  int32
	leads      [4]int32
	moreLeads  []int32
}

// start sets what is known at once. It takes a variable, because a literal would be made twice, which takes longer than
// a decision.
func (c *candidates) start(x *index, e *v1alpha1.ToolError) {
	c.index, c.reported, c.word = x, e.ExceptionTypes, -1
	c.status, c.parts = int(x.statusOf[statusOf(e)])*x.words, int(partsOf(e))*x.words
}

// next is the next candidate, or none behind the last. Types are looked up only when the first rule that is left asks
// for one.
func (c *candidates) next() int {
	x := c.index
	for {
		for c.open == 0 {
			if c.word++; c.word >= x.words {
				return none
			}
			c.open, c.typesKnown = x.statusSets[c.status+c.word]&x.partSets[c.parts+c.word], false
		}
		first := c.open & -c.open
		if typed := x.typed[c.word]; first&typed != 0 && !c.typesKnown {
			c.open &^= typed &^ c.typedFor()
			c.typesKnown = true
			continue
		}
		c.open ^= first
		return c.word*64 + bits.TrailingZeros64(first)
	}
}

// typedFor is the present word of the set of rules that ask for one of the reported types.
func (c *candidates) typedFor() (word uint64) {
	t := &c.index.types
	if !c.leadsKnown {
		c.leadsKnown = true
		for _, name := range c.reported {
			if id := t.lead(string(name)); id != 0 {
				c.addLead(id)
			}
		}
	}
	for _, id := range c.leads[:c.leadCount] {
		word |= t.sets[int(id)*t.words+c.word]
	}
	for _, id := range c.moreLeads {
		word |= t.sets[int(id)*t.words+c.word]
	}
	return word
}

func (c *candidates) addLead(id int32) {
	if int(c.leadCount) < len(c.leads) {
		c.leads[c.leadCount] = id
		c.leadCount++
	} else {
		c.moreLeads = append(c.moreLeads, id)
	}
}
