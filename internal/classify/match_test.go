package classify

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// pattern is a valid entry.
func pattern(id string, match v1alpha1.ErrorMatch) v1alpha1.ErrorPattern {
	return v1alpha1.ErrorPattern{
		ID: v1alpha1.PatternID(id), Match: match, Signature: "some-signature", Classification: v1alpha1.UserInput,
	}
}

// layer is a level of entries with paths.
func layer(name string, patterns ...v1alpha1.ErrorPattern) Layer {
	set := v1alpha1.ErrorPatternSet{}
	set.Namespace, set.Name = name, "set"
	set.Spec.Patterns = patterns
	return LayerOf(name, []v1alpha1.ErrorPatternSet{set})
}

func TestSelectors(t *testing.T) {
	type match = v1alpha1.ErrorMatch
	type report = v1alpha1.ToolError
	status := ptr[int32]
	manySelectors := match{HTTPStatus: status(400), HTTPStatusRange: []int32{400, 499}, ErrorCode: "E1",
		ExceptionType: texts("A", "B"), BodyContains: texts("one", "two")}
	for _, tc := range []struct {
		name   string
		match  match
		report report
		want   bool
	}{
		{"an empty match catches all", match{}, report{}, true},

		{"the status", match{HTTPStatus: status(403)}, report{HTTPStatus: status(403)}, true},
		{"another status", match{HTTPStatus: status(403)}, report{HTTPStatus: status(404)}, false},
		{"no status is no status", match{HTTPStatus: status(403)}, report{Message: "403"}, false},
		{"a status is never read from text", match{HTTPStatusRange: []int32{500, 599}}, report{Message: "took 500 ms"}, false},
		{"below a range", match{HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(499)}, false},
		{"first of a range", match{HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(500)}, true},
		{"last of a range", match{HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(599)}, true},
		{"above a range", match{HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(600)}, false},
		{"a range of one", match{HTTPStatusRange: []int32{418, 418}}, report{HTTPStatus: status(418)}, true},
		{"status inside the range", match{HTTPStatus: status(503), HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(503)}, true},
		{"in the range, not the status", match{HTTPStatus: status(503), HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(504)}, false},
		{"status outside the range matches nothing", match{HTTPStatus: status(400), HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(400)}, false},

		{"the error code", match{ErrorCode: "E1"}, report{ErrorCode: "E1"}, true},
		{"another error code", match{ErrorCode: "E1"}, report{ErrorCode: "E2"}, false},
		{"an error code in another case", match{ErrorCode: "E1"}, report{ErrorCode: "e1"}, false},
		{"no error code", match{ErrorCode: "E1"}, report{Body: `{"error":{"code":"E1"}}`}, false},

		{"the type in full", match{ExceptionType: texts("java.net.ConnectException")}, report{ExceptionTypes: texts("java.net.ConnectException")}, true},
		{"any of the types", match{ExceptionType: texts("A", "B")}, report{ExceptionTypes: texts("B")}, true},
		{"the type of a cause", match{ExceptionType: texts("B")}, report{ExceptionTypes: texts("X", "Y", "a.B")}, true},
		{"the sixteenth cause", match{ExceptionType: texts("Z")}, report{ExceptionTypes: append(texts(strings.Split("abcdefghijklmno", "")...), "Z")}, true},
		{"no type", match{ExceptionType: texts("A")}, report{Message: "A"}, false},
		{"a bare name for a qualified type", match{ExceptionType: texts("ConnectException")}, report{ExceptionTypes: texts("java.net.ConnectException")}, true},
		{"a bare report of a qualified name", match{ExceptionType: texts("java.net.ConnectException")}, report{ExceptionTypes: texts("ConnectException")}, true},
		{"two packages", match{ExceptionType: texts("java.net.ConnectException")}, report{ExceptionTypes: texts("com.acme.ConnectException")}, false},
		{"a part of a segment", match{ExceptionType: texts("Exception")}, report{ExceptionTypes: texts("java.net.ConnectException")}, false},
		{"a middle segment", match{ExceptionType: texts("net")}, report{ExceptionTypes: texts("java.net.ConnectException")}, false},
		{"a type in another case", match{ExceptionType: texts("connectexception")}, report{ExceptionTypes: texts("ConnectException")}, false},
		{"Go's pointer star", match{ExceptionType: texts("net.OpError")}, report{ExceptionTypes: texts("*net.OpError")}, true},
		{"Go's pointer star in the rule", match{ExceptionType: texts("*net.OpError")}, report{ExceptionTypes: texts("net.OpError")}, true},
		{"Go's import path", match{ExceptionType: texts("Error")}, report{ExceptionTypes: texts("*example.com/pkg/Error")}, true},
		{"Java's inner class", match{ExceptionType: texts("Timeout")}, report{ExceptionTypes: texts("com.acme.Client$Timeout")}, true},
		{"Ruby's module", match{ExceptionType: texts("ECONNREFUSED")}, report{ExceptionTypes: texts("Errno::ECONNREFUSED")}, true},
		{"PHP's namespace", match{ExceptionType: texts("Timeout")}, report{ExceptionTypes: texts(`Acme\Http\Timeout`)}, true},
		{"a report of separators", match{ExceptionType: texts("A")}, report{ExceptionTypes: texts("", "*", "...", "A.")}, false},

		{"text in the body", match{BodyContains: texts("limit")}, report{Body: "over the limit"}, true},
		{"any of the texts", match{BodyContains: texts("no", "limit")}, report{Body: "over the limit"}, true},
		{"text that is not there", match{BodyContains: texts("limits")}, report{Body: "over the limit"}, false},
		{"text in another case", match{BodyContains: texts("over THE")}, report{Body: "Over the limit"}, true},
		{"text in another case, not ASCII", match{BodyContains: texts("ungültig")}, report{Body: "TOKEN UNGÜLTIG"}, true},
		{"a body that is not UTF-8", match{BodyContains: texts("limit")}, report{Body: "\xff\xfeLIMIT\xc3"}, true},
		{"the message where there is no body", match{BodyContains: texts("limit")}, report{Message: "over the limit"}, true},
		{"not the message where there is a body", match{BodyContains: texts("limit")}, report{Body: "{}", Message: "over the limit"}, false},

		{"all selectors hold", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", ExceptionTypes: texts("B"), Body: "two"}, true},
		{"all but the status", manySelectors, report{HTTPStatus: status(401), ErrorCode: "E1", ExceptionTypes: texts("B"), Body: "two"}, false},
		{"all but the code", manySelectors, report{HTTPStatus: status(400), ExceptionTypes: texts("B"), Body: "two"}, false},
		{"all but the type", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", Body: "two"}, false},
		{"all but the text", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", ExceptionTypes: texts("B")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := compiled(t, layer("project", pattern("rule", tc.match)))
			got := rules.Classify("tool", tc.report, testNow)
			if matched := got.RuleID == "rule"; matched != tc.want {
				t.Errorf("matched = %v, want %v", matched, tc.want)
			}
		})
	}
}

func TestFirstMatchWins(t *testing.T) {
	rules := compiled(t, layer("project", pattern("first", v1alpha1.ErrorMatch{}), pattern("second", v1alpha1.ErrorMatch{})))
	if got := rules.Classify("tool", v1alpha1.ToolError{}, testNow).RuleID; got != "first" {
		t.Errorf("rule %s, want first", got)
	}
}

// TestClassifyIsTotal: whatever the rules, an error that nothing matches is UNCLEAR, so that it is diagnosed.
func TestClassifyIsTotal(t *testing.T) {
	narrow := pattern("fallback", v1alpha1.ErrorMatch{HTTPStatus: ptr[int32](418)})
	for tc, rules := range map[string]*Rules{
		"no rules":                          nil,
		"the zero rules":                    {},
		"no layers":                         compiled(t),
		"an empty layer":                    compiled(t, Layer{}),
		"a fallback that does not catch it": compiled(t, Bundled(), layer("project", narrow)),
	} {
		t.Run(tc, func(t *testing.T) {
			want := Verdict{RuleID: "fallback", Signature: "unclassified", Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionNone}
			if diff := cmp.Diff(want, rules.Classify("", v1alpha1.ToolError{}, time.Time{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	var none *Rules
	if got := none.Entries(); got != nil {
		t.Errorf("entries of no rules: %v", got)
	}
}

// TestClassifyChangesNothing runs under the race detector.
func TestClassifyChangesNothing(t *testing.T) {
	rules := compiled(t, Bundled())
	e := v1alpha1.ToolError{HTTPStatus: ptr[int32](401), Body: "TOKEN_EXPIRED", Headers: map[string]v1alpha1.HeaderValue{"a": "b"}}
	before := *e.DeepCopy()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := rules.Classify("tool", e, testNow).RuleID; got != "http-401-expired-token" {
				t.Errorf("rule %s", got)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, e); diff != "" {
		t.Errorf("the report changed (-want +got):\n%s", diff)
	}
}

func TestNothingIsAllocatedWhereTheBodyIsNotNeeded(t *testing.T) {
	rules := compiled(t, Bundled())
	for tc, e := range map[string]v1alpha1.ToolError{
		"by status": {HTTPStatus: ptr[int32](503), Body: strings.Repeat("A", 16384)},
		"by type":   {ExceptionTypes: texts("java.net.ConnectException"), Message: "connection refused"},
		"fallback":  {Message: strings.Repeat("A", 4096)},
	} {
		if n := testing.AllocsPerRun(100, func() { rules.Classify("tool", e, testNow) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", tc, n)
		}
	}
}
