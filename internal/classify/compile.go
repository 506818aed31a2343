package classify

import (
	"fmt"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// LayerOf makes a level of the cascade of sets, in the order in which they are given.
func LayerOf(name string, sets []v1alpha1.ErrorPatternSet) Layer {
	layer := Layer{Name: name}
	for i := range sets {
		set := sets[i].Namespace + "/" + sets[i].Name
		for j := range sets[i].Spec.Patterns {
			layer.Entries = append(layer.Entries, Entry{
				Pattern: sets[i].Spec.Patterns[j],
				Set:     set,
				Path:    entryPath(j),
			})
		}
	}
	return layer
}

// Compile merges the levels of the cascade, from the bundled rules to the project's, into the list of rules in
// force. An entry with the id of a deeper level replaces that entry whole and in its place; its `before` then
// says nothing. A new one is placed before the entry that `before` names, by default before `fallback`; several
// new ones keep their order. Of two entries with one id in a level the first counts. A level has at most 1000
// entries in force, whose selectors have at most 1 MiB; the first ones count.
//
// An entry that cannot be in force is skipped, alone, and reported. A `before` that leads to no entry is
// reported too, but the entry is in force, before `fallback`.
func Compile(layers ...Layer) (*Rules, []Problem) {
	var entries []EffectiveEntry
	var problems []Problem
	for _, layer := range layers {
		valid, bad := acceptable(layer)
		merged, lost := merge(entries, valid)
		entries = merged
		problems = append(append(problems, bad...), lost...)
	}
	rules := &Rules{entries: entries, rules: make([]rule, len(entries))}
	rules.asked.code = rules.asked.places.add("/error/code")
	for i := range entries {
		rules.rules[i] = rules.asked.newRule(&entries[i].Pattern)
	}
	rules.asked.needles.compile()
	rules.index = newIndex(rules.rules, entries, &rules.asked.types)
	return rules, problems
}

// acceptable is a level without the entries that cannot be in force.
func acceptable(layer Layer) ([]EffectiveEntry, []Problem) {
	var valid []EffectiveEntry
	var problems []Problem
	first := map[v1alpha1.PatternID]Entry{}
	size := 0
	for _, entry := range layer.Entries {
		if wrong := Validate(entry.Pattern); len(wrong) > 0 {
			problems = append(problems, entry.problem(strings.Join(wrong, "; ")))
			continue
		}
		if earlier, ok := first[entry.Pattern.ID]; ok {
			problems = append(problems, entry.problem("id: stands earlier too, at "+earlier.place()+
				", and the first counts; use an id of its own"))
			continue
		}
		if len(valid) == maxEntries {
			problems = append(problems, entry.problem(fmt.Sprintf(
				"is one entry too many; at most %d are in force in one layer", maxEntries)))
			continue
		}
		more := sizeOf(&entry.Pattern.Match)
		if size+more > maxSize {
			problems = append(problems, entry.problem(fmt.Sprintf(
				"match: makes the layer's selectors larger than %d bytes; ask for less", maxSize)))
			continue
		}
		size += more
		first[entry.Pattern.ID] = entry
		valid = append(valid, EffectiveEntry{Entry: entry, Layer: layer.Name})
	}
	return valid, problems
}

// sizeOf is how many bytes the texts of an entry's selectors have.
func sizeOf(m *v1alpha1.ErrorMatch) int {
	size := len(m.ErrorCode) + sizeOfAll(m.ToolName) + sizeOfAll(m.ExceptionType) + sizeOfAll(m.ErrorCodeIn) +
		sizeOfAll(m.BodyContains) + sizeOfAll(m.BodyContainsAll) + sizeOfAll(m.MessageContains) + sizeOfAll(m.MessageContainsAll)
	for _, h := range m.Header {
		size += len(h.Name) + len(h.Equals) + len(h.Contains)
	}
	for _, f := range m.JSONField {
		size += len(f.Pointer) + sizeOfAll(f.In)
	}
	return size
}

func sizeOfAll[T ~string](texts []T) int {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	return size
}

func (e Entry) place() string {
	if e.Set == "" {
		return e.Path
	}
	return e.Set + " " + e.Path
}

func (e Entry) problem(message string) Problem {
	return Problem{Set: e.Set, Path: e.Path, ID: clip(string(e.Pattern.ID)), Message: message}
}

// clip bounds the id that a Problem carries.
func clip(id string) string {
	if len(id) > maxName {
		id = strings.ToValidUTF8(id[:maxName], "")
	}
	return id
}

// atEnd stands for the place behind every entry. It is no valid id.
const atEnd v1alpha1.PatternID = ""

// merge puts the valid entries of a level over those of the levels below. Both lists have unique ids.
func merge(below, level []EffectiveEntry) ([]EffectiveEntry, []Problem) {
	merged := append([]EffectiveEntry(nil), below...)
	index := make(map[v1alpha1.PatternID]int, len(merged))
	p := placement{
		settled: map[v1alpha1.PatternID]bool{atEnd: true},
		target:  map[v1alpha1.PatternID]v1alpha1.PatternID{},
		lost:    map[v1alpha1.PatternID]bool{},
	}
	for i := range merged {
		index[merged[i].Pattern.ID] = i
		p.settled[merged[i].Pattern.ID] = true
	}
	var added []EffectiveEntry
	for _, entry := range level {
		if i, ok := index[entry.Pattern.ID]; ok {
			merged[i] = entry
			continue
		}
		added = append(added, entry)
		p.target[entry.Pattern.ID] = targetOf(&entry.Pattern)
	}
	return p.place(merged, added)
}

// targetOf is the id of the entry before which a new one asks to stand.
func targetOf(p *v1alpha1.ErrorPattern) v1alpha1.PatternID {
	switch {
	case p.ID == fallbackID:
		return atEnd
	case p.Before != "":
		return p.Before
	default:
		return fallbackID
	}
}

// placement finds the places of a level's new entries.
type placement struct {
	// settled are the ids that are known to have a place: those of the levels below and atEnd, then the new
	// ones whose chain of targets leads there.
	settled map[v1alpha1.PatternID]bool
	// target is, for each new entry, the id before which it stands.
	target map[v1alpha1.PatternID]v1alpha1.PatternID
	// lost are the new entries whose own target does not exist, or stands, in a circle, before themselves.
	lost map[v1alpha1.PatternID]bool
}

// place puts each new entry before its target, which may be a new entry too. The entries before one target
// keep their order. One pass over the entries is enough, however they name one another.
func (p *placement) place(below, added []EffectiveEntry) ([]EffectiveEntry, []Problem) {
	var problems []Problem
	for i := range added {
		p.settle(added[i].Pattern.ID)
	}
	before := map[v1alpha1.PatternID][]EffectiveEntry{}
	for _, entry := range added {
		pattern := &entry.Pattern
		if p.lost[pattern.ID] && targetOf(pattern) != fallbackID {
			problems = append(problems, entry.problem(fmt.Sprintf(
				"before: %s leads to no entry; the entry is in force, before %s",
				quote(string(pattern.Before)), fallbackID)))
		}
		target := p.target[pattern.ID]
		before[target] = append(before[target], entry)
	}
	out := make([]EffectiveEntry, 0, len(below)+len(added))
	var emit func(entries []EffectiveEntry)
	emit = func(entries []EffectiveEntry) {
		for _, entry := range entries {
			emit(before[entry.Pattern.ID])
			out = append(out, entry)
		}
	}
	emit(below)
	emit(before[atEnd])
	return out, problems
}

// settle follows the targets from a new entry to one that has a place, and gives the entry at which they lead
// nowhere the default place.
func (p *placement) settle(id v1alpha1.PatternID) {
	onChain := map[v1alpha1.PatternID]bool{}
	for !p.settled[id] && !onChain[id] {
		onChain[id] = true
		next := p.target[id]
		if _, isNew := p.target[next]; onChain[next] || !isNew && !p.settled[next] {
			p.lost[id] = true
			p.target[id] = p.defaultTarget()
		}
		id = p.target[id]
	}
	for id := range onChain {
		p.settled[id] = true
	}
}

// defaultTarget is `fallback` where there is one.
func (p *placement) defaultTarget() v1alpha1.PatternID {
	if _, isNew := p.target[fallbackID]; isNew || p.settled[fallbackID] {
		return fallbackID
	}
	return atEnd
}
