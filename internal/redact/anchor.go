package redact

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// unbounded is a length without bound.
const unbounded = -1

// anchor is what every match of an expression contains: one of some texts, at a bounded distance from the beginning of
// the match. It tells where in a text the expression has to be tried, so that the rest is not searched.
type anchor struct {
	// texts are in lower case.
	texts []string
	// before is how many bytes of a match may stand before the text, after how many from its beginning on.
	before, after int
	// boundary says that the text begins the match, at the boundary of a word.
	boundary bool
}

const (
	// maxTexts bounds the texts of an anchor.
	maxTexts = 64
	// enough is the length from which on texts are not made longer if that makes more of them.
	enough = 5
	// maxClass bounds the characters of a class that count as so many texts.
	maxClass = 8
)

// anchorOf returns the best anchor of an expression: the one whose shortest text is longest, the first of equals.
func anchorOf(expression string) (anchor, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return anchor{}, fmt.Errorf("parse expression: %w", err)
	}
	parts := flat(parsed)
	best := anchor{}
	for i := range parts {
		before := lengthOf(parts[:i]...)
		if before == unbounded {
			break
		}
		texts, _ := startsOf(parts[i:])
		if shortest(texts) > shortest(best.texts) {
			best = anchor{texts: texts, before: before, after: lengthOf(parts[i:]...), boundary: before == 0 && parts[0].Op == syntax.OpWordBoundary}
		}
	}
	best.texts = withoutLonger(best.texts)
	return best, nil
}

// withoutLonger leaves out the texts that begin with another one.
func withoutLonger(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(texts, func(other string) bool { return other != text && strings.HasPrefix(text, other) })
	})
}

// flat returns what follows one another in an expression.
func flat(re *syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture:
		return flat(re.Sub[0])
	case syntax.OpConcat:
		var parts []*syntax.Regexp
		for _, sub := range re.Sub {
			parts = append(parts, flat(sub)...)
		}
		return parts
	default:
		return []*syntax.Regexp{re}
	}
}

// startsOf returns texts of which one begins whatever the parts match one after the other, as long as can be had from a
// short list, and whether they are all that the parts can match.
func startsOf(parts []*syntax.Regexp) (texts []string, whole bool) {
	texts = []string{""}
	for _, part := range parts {
		next, all := starts(part)
		if len(next) == 0 || len(next)*len(texts) > maxTexts || len(next) > 1 && shortest(texts) >= enough {
			return texts, false
		}
		texts = product(texts, next)
		if !all {
			return texts, false
		}
	}
	return texts, true
}

// starts returns texts, in lower case, of which one begins whatever an expression matches, and whether they are all
// that it can match. None: that is no short list.
func starts(re *syntax.Regexp) (texts []string, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}, true
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginText, syntax.OpBeginLine:
		return []string{""}, true
	case syntax.OpCharClass:
		texts := classTexts(re.Rune)
		return texts, texts != nil
	case syntax.OpCapture:
		return starts(re.Sub[0])
	case syntax.OpPlus:
		texts, _ := starts(re.Sub[0])
		return texts, false
	case syntax.OpQuest:
		if texts, whole := starts(re.Sub[0]); whole {
			return union(texts, []string{""}), true
		}
	case syntax.OpConcat:
		return startsOf(re.Sub)
	case syntax.OpAlternate:
		return alternatives(re.Sub)
	}
	return nil, false
}

func alternatives(subs []*syntax.Regexp) (texts []string, whole bool) {
	whole = true
	for _, sub := range subs {
		next, all := starts(sub)
		if len(next) == 0 || len(texts)+len(next) > maxTexts {
			return nil, false
		}
		texts, whole = union(texts, next), whole && all
	}
	return texts, whole
}

// classTexts returns the characters of a small class.
func classTexts(ranges []rune) []string {
	var texts []string
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i+1]-ranges[i] >= maxClass {
			return nil
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			texts = union(texts, []string{strings.ToLower(string(r))})
		}
	}
	if len(texts) > maxClass {
		return nil
	}
	return texts
}

func product(a, b []string) []string {
	var out []string
	for _, x := range a {
		for _, y := range b {
			out = union(out, []string{x + y})
		}
	}
	return out
}

// union returns a and what of b is not in it.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, text := range b {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

// lengthOf returns how many bytes the expressions match together at most.
func lengthOf(parts ...*syntax.Regexp) int {
	total := 0
	for _, part := range parts {
		n := longest(part)
		if n == unbounded {
			return unbounded
		}
		total += n
	}
	return total
}

// maxRune is how many bytes a character takes at most.
const maxRune = 4

func longest(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return maxRune * len(re.Rune) // Where case is ignored, the Kelvin sign is a k.
	case syntax.OpCharClass:
		if n := len(re.Rune); n > 0 && re.Rune[n-1] < 0x80 {
			return 1
		}
		return maxRune
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return maxRune
	case syntax.OpCapture, syntax.OpQuest:
		return longest(re.Sub[0])
	case syntax.OpConcat:
		return lengthOf(re.Sub...)
	case syntax.OpAlternate:
		lengths := make([]int, 0, len(re.Sub))
		for _, sub := range re.Sub {
			lengths = append(lengths, longest(sub))
		}
		if slices.Contains(lengths, unbounded) {
			return unbounded
		}
		return slices.Max(lengths)
	case syntax.OpRepeat:
		if n := longest(re.Sub[0]); re.Max >= 0 && n != unbounded {
			return re.Max * n
		}
		return unbounded
	case syntax.OpStar, syntax.OpPlus:
		return unbounded
	default:
		return 0
	}
}
