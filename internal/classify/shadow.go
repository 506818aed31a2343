package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// shadowWork bounds what Shadows spends on comparing texts, in comparisons of some nanoseconds each. Every entry
// may spend the same share of it.
const shadowWork = 1 << 26

// Shadow says that an entry is never reached.
type Shadow struct {
	// Entry is the one that is never reached.
	Entry EffectiveEntry
	// By is the first of the earlier entries that match whatever Entry matches.
	By EffectiveEntry
}

// String says in one line which entry is never reached, and why.
func (s Shadow) String() string {
	by := fmt.Sprintf("%q", s.By.Pattern.ID)
	if s.By.Set != "" {
		by += " (" + s.By.place() + ")"
	} else if s.By.Layer != "" {
		by += " (" + s.By.Layer + ")"
	}
	return fmt.Sprintf("%s (%q): is never reached: %s stands before it and matches all that it matches", s.Entry.place(), s.Entry.Pattern.ID, by)
}

// Shadows lists the entries that an earlier one makes unreachable, in their order. Entries are compared pair by
// pair: one that several earlier ones cover only together is not found, nor one whose texts are too many to be
// compared. What is listed is certain. It is computed once, for 1000 entries within a second.
func (r *Rules) Shadows() []Shadow {
	if r == nil {
		return nil
	}
	r.shadowsOnce.Do(func() { r.shadows = r.findShadows() })
	return slices.Clone(r.shadows)
}

func (r *Rules) findShadows() []Shadow {
	var found []Shadow
	c := newCoverage(&r.asked)
	all := make([]statuses, len(r.rules))
	for i := range r.rules {
		all[i] = statusesOf(&r.entries[i].Pattern.Match)
		c.work = shadowWork / len(r.rules)
		for j := range i {
			// What costs least is asked first.
			if all[j].cover(&all[i]) && c.covers(&r.rules[j], &r.rules[i]) {
				found = append(found, Shadow{Entry: r.entries[i], By: r.entries[j]})
				break
			}
		}
	}
	return found
}

// coverage decides whether a rule matches whatever another one matches, statuses apart.
type coverage struct {
	asked *questions
	// pairs are, for each needle, the pairs of neighbouring bytes in it, as a set of 64 hashes: a text stands in
	// another only if its set is part of the other's.
	pairs []uint64
	// work is how many comparisons of texts may still be made for the present rule.
	work int
}

func newCoverage(asked *questions) *coverage {
	c := &coverage{asked: asked, pairs: make([]uint64, len(asked.needles.texts))}
	for i, text := range asked.needles.texts {
		for j := 1; j < len(text); j++ {
			c.pairs[i] |= 1 << ((uint(text[j-1])*31 + uint(text[j])*7) % 64)
		}
	}
	return c
}

// covers reports whether every selector of the earlier rule but those of the status follows from those of the later
// one.
func (c *coverage) covers(earlier, later *rule) bool {
	return isPart(later.tools, earlier.tools) && isPart(later.codes, earlier.codes) &&
		(earlier.host == "" || later.host != "" && hostAgrees(earlier.host, later.host)) &&
		c.coversTypes(earlier.types, later.types) &&
		all(earlier.headers, later.headers, coversHeader) && all(earlier.fields, later.fields, coversField) &&
		c.all(earlier.messageAll, later.messageAny, later.messageAll) &&
		c.any(earlier.messageAny, later.messageAny, later.messageAll) &&
		c.all(earlier.bodyAll, later.bodyAny, later.bodyAll) &&
		c.any(earlier.bodyAny, later.bodyAny, later.bodyAll)
}

// statuses are those that a rule matches: from first to last, and of these only the listed where any are.
type statuses struct {
	first, last int32
	listed      []int32
}

func statusesOf(m *v1alpha1.ErrorMatch) statuses {
	first, last := statusRange(m)
	return statuses{first, last, m.HTTPStatusIn}
}

// cover reports whether a rule matches all the statuses that a later one matches. A later one that matches none is
// covered by nothing: it is its own fault that it is not reached.
func (s *statuses) cover(later *statuses) bool {
	switch {
	case later.listed != nil:
		some := false
		for _, status := range later.listed {
			if status < later.first || status > later.last {
				continue
			}
			if some = true; !s.holds(status) {
				return false
			}
		}
		return some
	case later.first > later.last || later.first < s.first || later.last > s.last:
		return false
	case s.listed == nil:
		return true
	case int64(later.last)-int64(later.first) >= maxTexts:
		return false // More statuses than a list may have.
	}
	for status := later.first; status <= later.last; status++ {
		if !s.holds(status) {
			return false
		}
	}
	return true
}

func (s *statuses) holds(status int32) bool {
	return s.first <= status && status <= s.last && (s.listed == nil || slices.Contains(s.listed, status))
}

// isPart reports whether each of the later rule's alternatives is one of the earlier's. No alternatives stand for
// everything.
func isPart[T comparable](later, earlier []T) bool {
	if earlier == nil {
		return true
	}
	if later == nil {
		return false
	}
	return !slices.ContainsFunc(later, func(one T) bool { return !slices.Contains(earlier, one) })
}

// all reports whether each demand of the earlier rule follows from one of the later's.
func all[T any](earlier, later []T, follows func(earlier, later *T) bool) bool {
	for i := range earlier {
		if !slices.ContainsFunc(later, func(one T) bool { return follows(&earlier[i], &one) }) {
			return false
		}
	}
	return true
}

func coversHeader(earlier, later *headerRule) bool {
	switch {
	case earlier.name != later.name || earlier.present != later.present:
		return false
	case earlier.equals != "":
		return earlier.equals == later.equals
	default:
		return strings.Contains(later.equals, earlier.contains) || strings.Contains(later.contains, earlier.contains)
	}
}

func coversField(earlier, later *fieldRule) bool {
	return earlier.place == later.place && isPart(later.in, earlier.in)
}

// coversTypes compares the types that two rules ask for. A bare name stands for every type whose name ends so; a
// qualified one for itself and for a reported bare one, which each of the two would match.
func (c *coverage) coversTypes(earlier, later []int32) bool {
	if earlier == nil {
		return true
	}
	names := c.asked.types.names
	uncovered := func(id int32) bool {
		return !slices.ContainsFunc(earlier, func(other int32) bool {
			name := names[other]
			return other == id || name.full == name.last && name.last == names[id].last
		})
	}
	return later != nil && !slices.ContainsFunc(later, uncovered)
}

// any reports whether one of the wanted needles is sure to stand in a text that holds one of anyOf and all of
// allOf.
func (c *coverage) any(wanted, anyOf, allOf []int32) bool {
	if len(wanted) == 0 || slices.ContainsFunc(allOf, func(needle int32) bool { return c.holdsAny(needle, wanted) }) {
		return true
	}
	return len(anyOf) > 0 && !slices.ContainsFunc(anyOf, func(needle int32) bool { return !c.holdsAny(needle, wanted) })
}

// all reports whether each of the wanted needles is.
func (c *coverage) all(wanted, anyOf, allOf []int32) bool {
	for i := range wanted {
		if !c.any(wanted[i:i+1], anyOf, allOf) {
			return false
		}
	}
	return true
}

// holdsAny reports whether one of the wanted needles stands in a needle. Where no work is left it is false, which
// claims nothing.
func (c *coverage) holdsAny(needle int32, wanted []int32) bool {
	text, pairs := c.asked.needles.texts[needle], c.pairs[needle]
	for _, want := range wanted {
		if c.work--; c.work < 0 {
			return false
		}
		if want == needle {
			return true
		}
		if c.pairs[want]&^pairs != 0 {
			continue
		}
		c.work -= len(text) / 16
		if strings.Contains(text, c.asked.needles.texts[want]) {
			return true
		}
	}
	return false
}
