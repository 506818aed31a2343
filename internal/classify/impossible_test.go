package classify

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestImpossible(t *testing.T) {
	type match = v1alpha1.ErrorMatch
	headers := func(all ...v1alpha1.HeaderMatch) match { return match{Header: all} }
	field := func(pointer string, in ...string) v1alpha1.JSONFieldMatch {
		return v1alpha1.JSONFieldMatch{Pointer: pointer, In: in}
	}
	status := ptr[int32]
	for _, tc := range []struct {
		name  string
		match match
		want  string // the two selectors
	}{
		{"nothing is asked", match{}, ""},
		{"a status that the list has", match{HTTPStatus: status(401), HTTPStatusIn: []int32{403, 401}, HTTPStatusRange: []int32{400, 499}}, ""},
		{"a status that the list lacks", match{HTTPStatus: status(401), HTTPStatusIn: []int32{403}}, "match.httpStatus and match.httpStatusIn"},
		{"a status below the range", match{HTTPStatus: status(401), HTTPStatusRange: []int32{500, 599}}, "match.httpStatus and match.httpStatusRange"},
		{"a status above the range", match{HTTPStatus: status(600), HTTPStatusRange: []int32{500, 599}}, "match.httpStatus and match.httpStatusRange"},
		{"a list of which some is in the range", match{HTTPStatusIn: []int32{401, 503}, HTTPStatusRange: []int32{500, 599}}, ""},
		{"a list of which nothing is in the range", match{HTTPStatusIn: []int32{401, 403}, HTTPStatusRange: []int32{500, 599}}, "match.httpStatusRange and match.httpStatusIn"},
		{"a code that the list has", match{ErrorCode: "E1", ErrorCodeIn: []string{"E2", "E1"}}, ""},
		{"a code that the list lacks", match{ErrorCode: "E1", ErrorCodeIn: []string{"E2"}}, "match.errorCode and match.errorCodeIn"},
		{"a header that is there and is not", headers(v1alpha1.HeaderMatch{Name: "b", Equals: "x"}, v1alpha1.HeaderMatch{Name: "A", Contains: "x"}, v1alpha1.HeaderMatch{Name: "a", Present: ptr(false)}), "match.header[1] and match.header[2]"},
		{"a header with two values", headers(v1alpha1.HeaderMatch{Name: "a", Equals: "x"}, v1alpha1.HeaderMatch{Name: "a", Equals: "y"}), "match.header[0] and match.header[1]"},
		{"a header whose value lacks what it holds", headers(v1alpha1.HeaderMatch{Name: "a", Contains: "x"}, v1alpha1.HeaderMatch{Name: "a", Equals: "y"}), "match.header[0] and match.header[1]"},
		{"a header whose value has what it holds", headers(v1alpha1.HeaderMatch{Name: "a", Contains: "x"}, v1alpha1.HeaderMatch{Name: "a", Equals: "wXy"}, v1alpha1.HeaderMatch{Name: "a", Present: ptr(true)}), ""},
		{"two headers that are not there", headers(v1alpha1.HeaderMatch{Name: "a", Present: ptr(false)}, v1alpha1.HeaderMatch{Name: "a", Present: ptr(false)}), ""},
		{"a field with two values", match{JSONField: []v1alpha1.JSONFieldMatch{field("/a", "1", "2"), field("/a", "3")}}, "match.jsonField[0] and match.jsonField[1]"},
		{"a field with a common value", match{JSONField: []v1alpha1.JSONFieldMatch{field("/a", "1", "2"), field("/a", "2"), field("/b", "3")}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := compiled(t, layer("shop", pattern("rule", tc.match)))
			var want []Problem
			if tc.want != "" {
				want = []Problem{{Set: "shop/set", Path: "spec.patterns[0]", ID: "rule", Message: "never matches: " + tc.want + " exclude each other"}}
			}
			if diff := cmp.Diff(want, rules.Impossible()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := compiled(t, Bundled()).Impossible(); got != nil {
		t.Errorf("of the bundled rules: %v", got)
	}
}
