// Package canary makes secrets that never were any, for tests: one for each family that redact recognises, in the kind of
// text in which such a secret stands. They are made and not written down, so that no scanner mistakes them for a leak.
package canary

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/redact/rules"
)

// Canary is a secret in a text.
type Canary struct {
	// Family is the ID of the rule that knows it.
	Family string
	// Text holds the secret as a tool would show it.
	Text string
	// Secret is what must not be shown.
	Secret string
}

// All returns a canary for each family, others for other seeds. A family without one is an error.
func All(seed uint64) ([]Canary, error) {
	var all []Canary
	for i, rule := range rules.All() {
		canary, err := of(rule, rand.New(rand.NewPCG(seed, uint64(i)))) //nolint:gosec // The same in every run.
		if err != nil {
			return nil, err
		}
		all = append(all, canary)
	}
	return all, nil
}

// tries is how many texts are made until one has the entropy that the rule demands.
const tries = 200

// minShown is the length of the shortest secret that is looked for: a shorter one could stand anywhere by chance.
const minShown = 6

// minBits keeps secrets from being one letter many times.
const minBits = 2

func of(rule rules.Rule, random *rand.Rand) (Canary, error) {
	expression, err := regexp.Compile(rule.Expression)
	if err != nil {
		return Canary{}, fmt.Errorf("rule %s: %w", rule.ID, err)
	}
	parsed, err := syntax.Parse(rule.Expression, syntax.Perl)
	if err != nil {
		return Canary{}, fmt.Errorf("rule %s: %w", rule.ID, err)
	}
	maker := maker{random}
	for range tries {
		text := "call failed: " + maker.text(parsed) + " , giving up"
		if len(rule.Keywords) > 0 {
			text += " on " + rule.Keywords[0]
		}
		match := expression.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		secret := secretIn(match, rule.Group)
		if len(secret) >= minShown && rules.BitsPerCharacter(secret) > max(rule.Entropy, minBits) && (!rule.Made || strings.ContainsAny(secret, "0123456789")) {
			return Canary{Family: rule.ID, Text: text, Secret: secret}, nil
		}
	}
	return Canary{}, fmt.Errorf("rule %s: no secret could be made from its expression", rule.ID)
}

func secretIn(match []string, group int) string {
	if group > 0 {
		return match[group]
	}
	if i := slices.IndexFunc(match[1:], func(s string) bool { return s != "" }); i >= 0 {
		return match[i+1]
	}
	return match[0]
}

// maker makes texts that an expression matches.
type maker struct{ *rand.Rand }

func (m maker) text(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return m.char(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return string(rune('a' + m.IntN(26)))
	case syntax.OpCapture:
		return m.text(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return m.repeated(re)
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(m.text(sub))
		}
		return b.String()
	case syntax.OpAlternate:
		return m.text(re.Sub[m.IntN(len(re.Sub))])
	default:
		return ""
	}
}

// repeated makes as few repetitions as are allowed where spaces or separators may stand, and some more of the others.
func (m maker) repeated(re *syntax.Regexp) string {
	least, most := re.Min, re.Max
	switch re.Op {
	case syntax.OpStar:
		least, most = 0, -1
	case syntax.OpPlus:
		least, most = 1, -1
	case syntax.OpQuest:
		least, most = 0, 1
	}
	if most < 0 {
		most = least + 8
	}
	n := least
	if !isGap(re.Sub[0]) {
		n += m.IntN(min(most-least, 24) + 1)
	}
	var b strings.Builder
	for range n {
		b.WriteString(m.text(re.Sub[0]))
	}
	return b.String()
}

// isGap reports whether an expression matches white space or quotes: what stands between a name and its value.
func isGap(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		return len(re.Rune) == 1 && strings.ContainsRune(" \t\\\"'[=", re.Rune[0])
	}
	return re.Op == syntax.OpCharClass && (contains(re.Rune, ' ') || contains(re.Rune, '"') || contains(re.Rune, '\t'))
}

func contains(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}

// char makes a character of a class, a letter or a digit where there is one.
func (m maker) char(ranges []rune) string {
	var plain, others []rune
	for r := rune(' '); r < 0x7f; r++ {
		switch {
		case !contains(ranges, r):
		case '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			plain = append(plain, r)
		default:
			others = append(others, r)
		}
	}
	switch {
	case len(plain) > 0 && (len(others) == 0 || m.IntN(12) > 0 || contains(ranges, ' ')):
		return string(plain[m.IntN(len(plain))])
	case contains(ranges, ' '):
		return " "
	case len(others) > 0:
		return string(others[m.IntN(len(others))])
	default:
		return "\n"
	}
}
