package survival

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Whole days on which everything goes wrong: one call in twelve is disturbed, by whatever can happen to it. Then a job
// may end without a verdict, because managers died twice over it, but it ends, says why, costs two runs at most, and
// what was written is what was found, once.
func TestManyCallsFail(t *testing.T) {
	const days = 40
	for _, s := range scenarios() {
		if s.freshRules {
			continue // Said twice.
		}
		t.Run(s.name, func(t *testing.T) {
			seeds := make([]uint64, days)
			for i := range seeds {
				seeds[i] = uint64(i)
			}
			inParallel(seeds, func(seed uint64) {
				random := rand.New(rand.NewPCG(seed, 42))
				day := s
				day.want, day.wantClosed = nil, slices.Repeat([]string{""}, len(s.jobs))
				w, problems := tell(t, day, func(_ int, v verb) kind {
					if random.IntN(12) > 0 {
						return ""
					}
					possible := kinds(v)
					return possible[random.IntN(len(possible))]
				}, 2*len(s.jobs))
				for _, row := range w.rows() {
					if !slices.Contains(s.mayLeave(), row) {
						problems = append(problems, "a row is "+row)
					}
				}
				if len(problems) > 0 {
					t.Errorf("seed %d: %s\nerrors met: %v", seed, strings.Join(problems, "\n"), w.errors)
				}
			})
		})
	}
}

// mayLeave lists what rows may hold after such a day: what they did before, nothing yet, or the verdict. A user's
// Secret that cannot be read several times over leaves less evidence, and so a lesser verdict.
func (s scenario) mayLeave() []string {
	rows := append([]string{"PROJECT survival   history 0", "USER alice   history 0", "PROJECT survival DEGRADED INTERMITTENT history 1"}, slices.Concat(s.want, s.either)...)
	for _, row := range s.rows {
		rows = append(rows, describe(row))
	}
	return rows
}
