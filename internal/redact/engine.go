package redact

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agrajag-dev/agrajag/internal/redact/rules"
)

// engine holds the rules, ready for use. It does not change.
//
// An expression is tried only at the places where one of the texts stands that each of its matches contains. These are
// found in one pass for all rules, so that a text without any costs little. Where places are few, each is tried for
// itself; where they are many, what is tried is searched as a whole, so that the time stays linear in the length.
type engine struct {
	rules []*rule
	// finder finds texts, and wanted tells for each which rules ask for it.
	finder *finder
	wanted [][]int
}

type rule struct {
	rules.Rule
	anchor
	// anywhere and here find a match anywhere in a text, and at its beginning. They are made when they are first
	// needed: most never are.
	anywhere, here func() *regexp.Regexp
}

// sparse is how much more than the whole text may be looked at by trying places one by one.
const sparse = 4

// span is a part of a text.
type span struct{ from, to int }

// standard is the engine of all rules.
var standard = sync.OnceValue(func() *engine {
	e, err := newEngine(rules.All())
	if err != nil {
		panic(err) // The rules are static: one test shows it.
	}
	return e
})

func newEngine(all []rules.Rule) (*engine, error) {
	e := &engine{}
	ids := map[string]int{}
	var texts []string
	for i, r := range all {
		anchor, err := anchorOf(r.Expression)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		if len(r.Keywords) > 0 { // All of the text is searched where one of them stands.
			anchor.texts, anchor.before, anchor.after, anchor.boundary = r.Keywords, unbounded, unbounded, false
		}
		if shortest(anchor.texts) < minText {
			return nil, fmt.Errorf("rule %s: its matches have no text in common, so it needs keywords", r.ID)
		}
		e.rules = append(e.rules, &rule{
			Rule: r, anchor: anchor,
			anywhere: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Expression) }),
			here:     sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + r.Expression + `)`) }),
		})
		for _, text := range anchor.texts {
			id, known := ids[text]
			if !known {
				id = len(texts)
				ids[text], texts, e.wanted = id, append(texts, text), append(e.wanted, nil)
			}
			e.wanted[id] = append(e.wanted[id], i)
		}
	}
	e.finder = newFinder(texts)
	return e, nil
}

// secrets returns where secrets stand in a text, in order, without overlaps.
func (e *engine) secrets(s string) []span {
	var found []span
	for i, places := range e.places(s) {
		found = e.rules[i].appendFound(found, s, places)
	}
	return merged(found)
}

// places returns for each rule, in ascending order, where in a text the texts of its anchor stand.
func (e *engine) places(s string) map[int][]int {
	places := map[int][]int{}
	e.finder.find(s, func(id, at int) {
		for _, i := range e.wanted[id] {
			if r := e.rules[i]; !r.boundary || at == 0 || isWordByte(s[at-1]) != isWordByte(s[at]) {
				places[i] = append(places[i], at)
			}
		}
	})
	return places
}

// appendFound adds what a rule finds at its places in a text.
func (r *rule) appendFound(found []span, s string, places []int) []span {
	if r.before == 0 && r.reach(len(s))*len(places) <= sparse*len(s) {
		return r.appendEach(found, s, places)
	}
	var windows []span
	for _, at := range places {
		w := r.window(s, at)
		if n := len(windows); n > 0 && w.from <= windows[n-1].to {
			windows[n-1].to = max(windows[n-1].to, w.to)
			continue
		}
		windows = append(windows, w)
	}
	for _, w := range windows {
		found = r.appendSecrets(found, s, w)
	}
	return found
}

// reach is how far from a place a match is looked for at first, at most limit.
func (r *rule) reach(limit int) int {
	switch {
	case r.after != unbounded:
		return min(r.after+maxRune, limit)
	case r.Reach > 0:
		return min(r.Reach, limit)
	default:
		return limit
	}
}

// window returns the part of a text in which a match stands whose text stands at a place. On both sides it is larger
// than any match by a character, so that its ends are taken for no ends of words or lines.
func (r *rule) window(s string, at int) span {
	w := span{0, min(len(s), at+r.reach(len(s)))}
	if r.before != unbounded {
		w.from = max(0, at-r.before-maxRune)
	}
	return w
}

// appendEach adds what a rule finds that begins at one of the places.
func (r *rule) appendEach(found []span, s string, places []int) []span {
	end := 0
	for _, at := range places {
		w := r.window(s, at)
		if w.from = at; at < end || !r.mayMatch(s[at:w.to]) {
			continue
		}
		match := r.here().FindStringSubmatchIndex(s[at:w.to])
		if r.isCutOff(match, s, w) {
			match = r.here().FindStringSubmatchIndex(s[at:])
		}
		if secret, ok := r.secret(s, at, match); ok {
			found, end = append(found, secret), secret.to
		}
	}
	return found
}

// appendSecrets adds what a rule finds in a window.
func (r *rule) appendSecrets(found []span, s string, w span) []span {
	if !r.mayMatch(s[w.from:w.to]) {
		return found
	}
	matches := r.anywhere().FindAllStringSubmatchIndex(s[w.from:w.to], -1)
	if n := len(matches); n > 0 && r.isCutOff(matches[n-1], s, w) {
		return r.appendSecrets(found, s, span{w.from, len(s)})
	}
	for _, match := range matches {
		if secret, ok := r.secret(s, w.from, match); ok {
			found = append(found, secret)
		}
	}
	return found
}

func (r *rule) mayMatch(part string) bool { return r.Must == "" || strings.Contains(part, r.Must) }

// isCutOff reports whether a match in a window might be longer if the window were.
func (r *rule) isCutOff(match []int, s string, w span) bool {
	return match != nil && r.after == unbounded && match[1] == w.to-w.from && w.to < len(s)
}

// secret returns the secret in a match, which was made in the part of a text that begins at offset.
func (r *rule) secret(s string, offset int, match []int) (span, bool) {
	if match == nil {
		return span{}, false
	}
	group := r.group(match)
	secret := span{offset + match[2*group], offset + match[2*group+1]}
	if secret.from > 0 && isPlaceholder(s[secret.from-1:secret.to]) { // Its bracket counts as part of a list.
		return span{}, false
	}
	return secret, r.accepts(s[offset+match[0]:secret.from], s[secret.from:secret.to])
}

// group returns which group of a match is the secret.
func (r *rule) group(match []int) int {
	if r.Group > 0 && match[2*r.Group] >= 0 {
		return r.Group
	}
	for group := 1; 2*group < len(match); group++ {
		if match[2*group+1] > match[2*group] {
			return group
		}
	}
	return 0
}

// accepts reports whether what an expression found is a secret.
func (r *rule) accepts(before, secret string) bool {
	switch {
	case isPlaceholder(secret), r.Entropy > 0 && rules.BitsPerCharacter(secret) <= r.Entropy:
		return false
	case r.Made && (!isMade(secret) || namesAnID.MatchString(before)):
		return false
	default:
		return !r.Named || !isFault(secret)
	}
}

// merged sorts spans and joins those that overlap.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}
