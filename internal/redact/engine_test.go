package redact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/internal/redact/canary"
	"github.com/agrajag-dev/agrajag/internal/redact/rules"
)

// plainly is what the engine has to find: every expression over all of the text.
func plainly(e *engine, s string) []span {
	var found []span
	for _, r := range e.rules {
		if len(r.Keywords) > 0 && !strings.Contains(strings.ToLower(s), r.Keywords[0]) {
			continue
		}
		found = r.appendSecrets(found, s, span{0, len(s)})
	}
	return merged(found)
}

func canaries(t testing.TB, seed uint64) []canary.Canary {
	t.Helper()
	all, err := canary.All(seed)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEachFamilyIsRecognised(t *testing.T) {
	covered := map[string]bool{}
	for seed := range uint64(6) {
		for _, c := range canaries(t, seed) {
			covered[c.Family] = true
			for _, s := range []string{c.Text, "\n" + c.Text + "\n", `{"a":"` + c.Text + `"}`} {
				got := Text(s)
				if strings.Contains(got, c.Secret) {
					t.Errorf("%s: %q is still in %q", c.Family, c.Secret, got)
				}
				if again := Text(got); again != got {
					t.Errorf("%s: a second time changes %q to %q", c.Family, got, again)
				}
			}
		}
	}
	for _, rule := range rules.All() {
		if !covered[rule.ID] {
			t.Errorf("%s has no canary", rule.ID)
		}
		delete(covered, rule.ID)
	}
	t.Logf("%d families", len(rules.All()))
}

// TestWindowsMissNothing compares the engine with the plain loop.
func TestWindowsMissNothing(t *testing.T) {
	e := standard()
	random := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(3) {
		all := canaries(t, seed)
		var b strings.Builder
		for range 60 {
			c := all[random.IntN(len(all))]
			b.WriteString(c.Text[random.IntN(4):])
			b.WriteString(strings.Repeat(" token key secret ghp_ x", random.IntN(30)))
			if random.IntN(2) == 0 {
				b.WriteString("\n")
			}
		}
		s := b.String()
		found := e.secrets(s)
		for _, want := range plainly(e, s) {
			if !slices.ContainsFunc(found, func(got span) bool { return got.from <= want.from && want.to <= got.to }) {
				t.Errorf("the plain loop finds %q in %q", s[want.from:want.to], s[max(0, want.from-40):min(len(s), want.to+40)])
			}
		}
	}
}
