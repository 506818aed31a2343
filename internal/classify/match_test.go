package classify

import (
	"slices"
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
	type headers = map[string]v1alpha1.HeaderValue
	status := ptr[int32]
	manySelectors := match{HTTPStatus: status(400), HTTPStatusRange: []int32{400, 499}, ErrorCode: "E1",
		ExceptionType: texts("A", "B"), BodyContains: subs("one of", "two of")}
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
		{"the error code in the body", match{ErrorCode: "E1"}, report{Body: `{"error":{"code":"E1"}}`}, true},
		{"a number as error code in the body", match{ErrorCode: "-32603"}, report{Body: `{"error":{"code":-32603}}`}, true},
		{"not the body's code where the report states one", match{ErrorCode: "E1"}, report{ErrorCode: "E2", Body: `{"error":{"code":"E1"}}`}, false},
		{"an error code that is neither text nor number", match{ErrorCode: "true"}, report{Body: `{"error":{"code":true}}`}, false},
		{"an error code elsewhere in the body", match{ErrorCode: "E1"}, report{Body: `{"code":"E1"}`}, false},
		{"no error code", match{ErrorCode: "E1"}, report{Message: `{"error":{"code":"E1"}}`}, false},

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

		{"text in the body", match{BodyContains: subs("limit")}, report{Body: "over the limit"}, true},
		{"any of the texts", match{BodyContains: subs("none", "limit")}, report{Body: "over the limit"}, true},
		{"text that is not there", match{BodyContains: subs("limits")}, report{Body: "over the limit"}, false},
		{"text in another case", match{BodyContains: subs("over THE")}, report{Body: "Over the limit"}, true},
		{"text in another case, not ASCII", match{BodyContains: subs("ungültig")}, report{Body: "TOKEN UNGÜLTIG"}, true},
		{"a body that is not UTF-8", match{BodyContains: subs("limit")}, report{Body: "\xff\xfeLIMIT\xc3"}, true},
		{"the message where there is no body", match{BodyContains: subs("limit")}, report{Message: "over the limit"}, true},
		{"not the message where there is a body", match{BodyContains: subs("limit")}, report{Body: "{}", Message: "over the limit"}, false},

		{"one of the statuses", match{HTTPStatusIn: []int32{401, 403}}, report{HTTPStatus: status(403)}, true},
		{"between the statuses", match{HTTPStatusIn: []int32{401, 403}}, report{HTTPStatus: status(402)}, false},
		{"no status is none of them", match{HTTPStatusIn: []int32{401, 403}}, report{}, false},
		{"one of the statuses and in the range", match{HTTPStatusIn: []int32{401, 503}, HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(503)}, true},
		{"one of the statuses, not in the range", match{HTTPStatusIn: []int32{401, 503}, HTTPStatusRange: []int32{500, 599}}, report{HTTPStatus: status(401)}, false},
		{"a negative status matches no range", match{HTTPStatusRange: []int32{100, 999}}, report{HTTPStatus: status(-1)}, false},
		{"a negative status is no obstacle elsewhere", match{ErrorCode: "E1"}, report{HTTPStatus: status(-1), ErrorCode: "E1"}, true},

		{"one of the codes", match{ErrorCodeIn: []string{"E1", "E2"}}, report{ErrorCode: "E2"}, true},
		{"none of the codes", match{ErrorCodeIn: []string{"E1", "E2"}}, report{ErrorCode: "E3"}, false},
		{"a code that both selectors name", match{ErrorCode: "E2", ErrorCodeIn: []string{"E1", "E2"}}, report{ErrorCode: "E2"}, true},
		{"a code that only the list names", match{ErrorCode: "E2", ErrorCodeIn: []string{"E1", "E2"}}, report{ErrorCode: "E1"}, false},
		{"codes that contradict each other", match{ErrorCode: "E3", ErrorCodeIn: []string{"E1"}}, report{ErrorCode: "E3"}, false},
		{"codes that contradict each other and no code", match{ErrorCode: "E3", ErrorCodeIn: []string{"E1"}}, report{}, false},

		{"the tool", match{ToolName: []v1alpha1.MatchToolName{"other", "tool"}}, report{}, true},
		{"another tool", match{ToolName: []v1alpha1.MatchToolName{"Tool", "tools"}}, report{}, false},

		{"all texts", match{BodyContainsAll: subs("over", "limit")}, report{Body: "OVER the limit"}, true},
		{"all texts but one", match{BodyContainsAll: subs("over", "limits")}, report{Body: "over the limit"}, false},
		{"all texts in the message where there is no body", match{BodyContainsAll: subs("over", "limit")}, report{Message: "over the limit"}, true},
		{"all of these and any of those", match{BodyContainsAll: subs("over"), BodyContains: subs("none", "limit")}, report{Body: "over the limit"}, true},
		{"all of these and none of those", match{BodyContainsAll: subs("over"), BodyContains: subs("none")}, report{Body: "over the limit"}, false},
		{"text in the message", match{MessageContains: subs("none", "LIMIT")}, report{Body: "{}", Message: "over the limit"}, true},
		{"not the body", match{MessageContains: subs("limit")}, report{Body: "over the limit"}, false},
		{"all texts in the message", match{MessageContainsAll: subs("over", "limit")}, report{Message: "over the limit"}, true},
		{"not all texts in the message", match{MessageContainsAll: subs("over", "none")}, report{Message: "over the limit"}, false},
		{"one in the message, one in the body", match{MessageContains: subs("over"), BodyContains: subs("limit")}, report{Message: "over", Body: "limit"}, true},

		{"a header equals", match{Header: []v1alpha1.HeaderMatch{{Name: "x-a", Equals: "b c"}}}, report{Headers: headers{"X-A": " b c "}}, true},
		{"a header equals only in part", match{Header: []v1alpha1.HeaderMatch{{Name: "x-a", Equals: "b"}}}, report{Headers: headers{"x-a": "b c"}}, false},
		{"a header's value in another case", match{Header: []v1alpha1.HeaderMatch{{Name: "x-a", Equals: "B c"}}}, report{Headers: headers{"x-a": "b C"}}, true},
		{"a header's value in another case beyond ASCII", match{Header: []v1alpha1.HeaderMatch{{Name: "x-a", Equals: "Ä"}}}, report{Headers: headers{"x-a": "ä"}}, false},
		{"a sign that only Unicode takes for a letter of ASCII", match{Header: []v1alpha1.HeaderMatch{{Name: "x-a", Equals: "k"}}}, report{Headers: headers{"x-a": "\u212a"}}, false},
		{"a header contains in another case", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Contains: "application/JSON"}}}, report{Headers: headers{"x-a": "Application/json; a"}}, true},
		{"a header contains", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Contains: "html"}}}, report{Headers: headers{"x-a": "text/html; a"}}, true},
		{"a header does not contain", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Contains: "json"}}}, report{Headers: headers{"x-a": "text/html"}}, false},
		{"no header to contain it", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Contains: "json"}}}, report{}, false},
		{"a header is there", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Present: ptr(true)}}}, report{Headers: headers{"x-a": ""}}, true},
		{"a header is not there", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Present: ptr(true)}}}, report{Headers: headers{"x-b": ""}}, false},
		{"a header must not be there", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Present: ptr(false)}}}, report{}, true},
		{"a header must not be there and is", match{Header: []v1alpha1.HeaderMatch{{Name: "X-A", Present: ptr(false)}}}, report{Headers: headers{"x-a": "b"}}, false},
		{"two headers", match{Header: []v1alpha1.HeaderMatch{{Name: "a", Equals: "1"}, {Name: "b", Equals: "2"}}}, report{Headers: headers{"a": "1", "b": "2"}}, true},
		{"one of two headers", match{Header: []v1alpha1.HeaderMatch{{Name: "a", Equals: "1"}, {Name: "b", Equals: "2"}}}, report{Headers: headers{"a": "1"}}, false},

		{"a field", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/ok", In: []string{"false"}}}}, report{Body: `{"ok":false}`}, true},
		{"a field of another value", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/ok", In: []string{"false"}}}}, report{Body: `{"ok":true}`}, false},
		{"a field in another case", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{"b"}}}}, report{Body: `{"a":"B"}`}, false},
		{"two fields", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{"1"}}, {Pointer: "/b/0", In: []string{"2", "3"}}}}, report{Body: `{"b":[3],"a":"1"}`}, true},
		{"one of two fields", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{"1"}}, {Pointer: "/b", In: []string{"2"}}}}, report{Body: `{"a":1}`}, false},
		{"an empty value is not an absent one", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{""}}}}, report{Body: `{}`}, false},
		{"an empty value", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{""}}}}, report{Body: `{"a":""}`}, true},
		{"a field of the message is none", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{"1"}}}}, report{Message: `{"a":1}`}, false},
		{"a field in a body that ends early", match{JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/a", In: []string{"1"}}}}, report{Body: `{"a":1`}, false},

		{"all selectors hold", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", ExceptionTypes: texts("B"), Body: "two of"}, true},
		{"all but the status", manySelectors, report{HTTPStatus: status(401), ErrorCode: "E1", ExceptionTypes: texts("B"), Body: "two of"}, false},
		{"all but the code", manySelectors, report{HTTPStatus: status(400), ExceptionTypes: texts("B"), Body: "two of"}, false},
		{"all but the type", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", Body: "two of"}, false},
		{"all but the text", manySelectors, report{HTTPStatus: status(400), ErrorCode: "E1", ExceptionTypes: texts("B")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := compiled(t, layer("project", pattern("rule", tc.match)))
			got := rules.Classify(Call{Tool: "tool"}, &tc.report, testNow)
			if matched := got.RuleID == "rule"; matched != tc.want {
				t.Errorf("matched = %v, want %v", matched, tc.want)
			}
		})
	}
}

// TestHost: a host that fails is the tool's own, a foreign one, or unknown, which counts as the tool's own.
func TestHost(t *testing.T) {
	const endpoint, foreign, unknown = v1alpha1.HostEndpoint, v1alpha1.HostForeign, v1alpha1.HostUnknown
	for _, tc := range []struct {
		name, reported, endpoint string
		want                     v1alpha1.HostMatch
	}{
		{"the same", "tool.example.com", "tool.example.com", endpoint},
		{"in another case, with a port and a dot", "Tool.Example.Com.", "tool.example.com:443", endpoint},
		{"as an address with user and path", "https://bob@Tool.example.com:443/mcp?x=1", "tool.example.com", endpoint},
		{"another one", "other.example.com", "tool.example.com", foreign},
		{"another one as an address", "https://other.example.com/tool.example.com", "tool.example.com", foreign},
		{"an address in another spelling", "2001:db8:0:0::1", "2001:db8::1", endpoint},
		{"an IPv4 address in IPv6", "::ffff:10.0.0.20", "10.0.0.20", endpoint},
		{"a domain above", "example.com", "tool.example.com", foreign},
		{"no reported host", "", "tool.example.com", unknown},
		{"no known endpoint", "tool.example.com", "", unknown},
		{"an address of a name", "10.0.0.20", "tool.default.svc", unknown},
		{"the name of an address", "tool.default.svc", "10.0.0.20:8080", unknown},
		{"the same address", "[2001:db8::1]", "2001:db8::1", endpoint},
		{"the same address with a port", "[2001:db8::1]:80", "2001:db8::1", endpoint},
		{"another address", "10.0.0.21", "10.0.0.20", foreign},
		{"a short name in a cluster", "tool", "tool.default.svc", endpoint},
		{"the endpoint's short name", "tool.default.svc.cluster.local", "tool.default", endpoint},
		{"a name completed by the resolver", "tool.default.svc.cluster.local", "tool.default.svc", endpoint},
		{"a name that only begins so", "tool.example.com.evil.example", "tool.example.com", foreign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := whichHost(tc.reported, tc.endpoint); got != tc.want {
				t.Fatalf("host %s, want %s", got, tc.want)
			}
			for _, selector := range []v1alpha1.HostMatch{endpoint, foreign, unknown} {
				rules := compiled(t, layer("project", pattern("rule", v1alpha1.ErrorMatch{Host: selector})))
				got := rules.Classify(Call{EndpointHost: tc.endpoint}, &v1alpha1.ToolError{Host: tc.reported}, testNow).RuleID == "rule"
				if want := selector == tc.want || selector == endpoint && tc.want == unknown; got != want {
					t.Errorf("host: %s matched = %v, want %v", selector, got, want)
				}
			}
		})
	}
}

func TestFirstMatchWins(t *testing.T) {
	rules := compiled(t, layer("project", pattern("first", v1alpha1.ErrorMatch{}), pattern("second", v1alpha1.ErrorMatch{})))
	if got := rules.Classify(Call{Tool: "tool"}, &v1alpha1.ToolError{}, testNow).RuleID; got != "first" {
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
			if diff := cmp.Diff(want, rules.Classify(Call{Tool: ""}, &v1alpha1.ToolError{}, time.Time{})); diff != "" {
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
			if got := rules.Classify(Call{Tool: "tool"}, &e, testNow).RuleID; got != "http-401-expired-token" {
				t.Errorf("rule %s", got)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, e); diff != "" {
		t.Errorf("the report changed (-want +got):\n%s", diff)
	}
}

// twelve are the rules of the specification alone.
func twelve() Layer {
	layer := Bundled()
	layer.Entries = slices.DeleteFunc(layer.Entries, func(e Entry) bool {
		return !slices.Contains(specified, string(e.Pattern.ID))
	})
	return layer
}

// TestTheBodyIsReadAsJSONAtMostOnce, and only if a rule asks whose other selectors hold.
func TestTheBodyIsReadAsJSONAtMostOnce(t *testing.T) {
	field := func(id, pointer string) v1alpha1.ErrorPattern {
		return pattern(id, v1alpha1.ErrorMatch{HTTPStatus: ptr[int32](400),
			JSONField: []v1alpha1.JSONFieldMatch{{Pointer: pointer, In: []string{"x"}}}})
	}
	one := compiled(t, layer("p", field("a", "/a")))
	many := compiled(t, layer("p", field("a", "/a"), field("b", "/b/c"), pattern("c", v1alpha1.ErrorMatch{ErrorCode: "E1"})))
	allocations := func(rules *Rules, status int32) float64 {
		e := v1alpha1.ToolError{HTTPStatus: ptr(status), Body: `{"a":1,"b":{"c":2}}`}
		return testing.AllocsPerRun(100, func() { rules.Classify(Call{Tool: "tool"}, &e, testNow) })
	}
	if got := allocations(one, 404); got != 0 {
		t.Errorf("%v allocations where no rule can ask for a field, want none", got)
	}
	if got, want := allocations(many, 400), allocations(one, 400); got != want || want == 0 {
		t.Errorf("%v allocations for three questions, want %v as for one, and more than none", got, want)
	}
}

func TestNothingIsAllocatedWhereTheBodyIsNotNeeded(t *testing.T) {
	layer := twelve()
	for i := range layer.Entries {
		layer.Entries[i].Pattern.Fingerprint = false // To tell failures apart, their message is read.
	}
	rules := compiled(t, layer)
	for tc, e := range map[string]v1alpha1.ToolError{
		"by status":      {HTTPStatus: ptr[int32](503), Body: strings.Repeat("A", 16384)},
		"by type":        {ExceptionTypes: texts("java.net.ConnectException"), Message: "connection refused"},
		"by cause":       {ExceptionTypes: texts("a.B", "c.D", "e.F", "java.net.ConnectException"), Message: "connection refused"},
		"by a bare name": {ExceptionTypes: texts("com.acme.SchemaViolation")},
		"fallback":       {Message: strings.Repeat("A", 4096)},
	} {
		if n := testing.AllocsPerRun(100, func() { rules.Classify(Call{Tool: "tool"}, &e, testNow) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", tc, n)
		}
	}
}
