package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestValidateListNamesEachFieldOfEachEntry(t *testing.T) {
	twice := pattern("bad", v1alpha1.ErrorMatch{HTTPStatus: ptr[int32](99), BodyContains: subs("long enough", "ab")})
	many := make([]v1alpha1.ErrorPattern, maxEntries+1)
	for i := range many {
		many[i] = named(fmt.Sprintf("e%d", i))
	}
	large := slices.Clone(many[:70])
	for i := range large {
		large[i].Match.BodyContains = slices.Repeat(subs(strings.Repeat("x", 255)), 64)
	}
	for _, tc := range []struct {
		name     string
		patterns []v1alpha1.ErrorPattern
		want     []string
	}{
		{"nothing is wrong", []v1alpha1.ErrorPattern{named("a"), placed("b", "nowhere that it knows"[:7])}, nil},
		{"two fields of the second entry", []v1alpha1.ErrorPattern{named("a"), twice}, []string{
			`spec.patterns[1].match.httpStatus ("bad"): 99 is no HTTP status; use 100 to 999`,
			`spec.patterns[1].match.bodyContains[1] ("bad"): has 2 bytes, at least 4 are needed to mean something`,
		}},
		{"one id three times", []v1alpha1.ErrorPattern{named("a"), named("b"), named("a"), named("a")}, []string{
			`spec.patterns[2].id ("a"): stands at spec.patterns[0] too; use an id of its own`,
			`spec.patterns[3].id ("a"): stands at spec.patterns[0] too; use an id of its own`,
		}},
		{"a missing id is no duplicate", []v1alpha1.ErrorPattern{named(""), named("")}, []string{
			`spec.patterns[0].id: is required`, `spec.patterns[1].id: is required`,
		}},
		{"too many", many, []string{`spec.patterns: has 1001 entries, at most 1000 are allowed`}},
		{"too large, told once", large, []string{
			`spec.patterns[64].match ("e64"): makes the set's selectors larger than 1048576 bytes; ask for less`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, p := range ValidateList(tc.patterns) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
