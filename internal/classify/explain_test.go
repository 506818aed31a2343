package classify

import (
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// TestExplainAgreesWithTheVerdict: on every failure of the corpora the last step, and no other, matches, and it is
// the rule that decides.
func TestExplainAgreesWithTheVerdict(t *testing.T) {
	rules := compiled(t, Bundled())
	for _, f := range readCorpus(t, "testdata/failures.yaml") {
		call, e := f.report()
		steps := rules.Explain(call, e, testNow)
		for i, step := range steps {
			if last := i == len(steps)-1; step.Matched != last || (step.Failed == "") != last {
				t.Errorf("%s, step %d of %d: matched %v, %q", f.ID, i, len(steps), step.Matched, step.Failed)
			}
		}
		got := string(steps[len(steps)-1].Entry.Pattern.ID)
		if want := rules.Classify(call, &e, testNow).RuleID; got != want {
			t.Errorf("%s: %s matches, but %s decides", f.ID, got, want)
		}
	}
}

// TestExplainNamesTheFirstSelectorThatFailed: each with what the report says instead.
func TestExplainNamesTheFirstSelectorThatFailed(t *testing.T) {
	const json = `{"error":{"code":"E1","n":7}}`
	for _, tc := range []struct {
		name, match string
		report      v1alpha1.ToolError
		want        string
	}{
		{"a tool", "toolName: [search]", v1alpha1.ToolError{}, `match.toolName: the tool is "shop"`},
		{"a status", "httpStatus: 401", v1alpha1.ToolError{HTTPStatus: ptr[int32](403)}, "match.httpStatus: the status is 403"},
		{"no status", "httpStatusRange: [500, 599]", v1alpha1.ToolError{}, "match.httpStatusRange: the report states no HTTP status"},
		{"a list of statuses, whose range would do", "httpStatusIn: [500, 503]", v1alpha1.ToolError{HTTPStatus: ptr[int32](502)}, "match.httpStatusIn: the status is 502"},
		{"a host", "host: foreign", v1alpha1.ToolError{Host: "shop.example"}, `match.host: the host "shop.example" is endpoint for a tool at "shop.example"`},
		{"no type", "exceptionType: [TypeError]", v1alpha1.ToolError{}, "match.exceptionType: the report states no exception type"},
		{"a type", "exceptionType: [TypeError]", v1alpha1.ToolError{ExceptionTypes: texts("Error")}, `match.exceptionType: the type is "Error"`},
		{"a chain", "exceptionType: [TypeError]", v1alpha1.ToolError{ExceptionTypes: texts("Error", "x.Y", "Z")}, `match.exceptionType: the type is "Error" with 2 causes`},
		{"no code", "errorCode: E2", v1alpha1.ToolError{}, "match.errorCode: the report states no error code"},
		{"a code", "errorCodeIn: [E2, E3]", v1alpha1.ToolError{ErrorCode: "E9"}, `match.errorCodeIn: the code is "E9"`},
		{"a code in the body", "errorCode: E2", v1alpha1.ToolError{Body: json}, `match.errorCode: the code in the body is "E1"`},
		{"no header", "header: [{name: a, present: false}, {name: b, present: true}]", v1alpha1.ToolError{}, "match.header[1]: there is no header b"},
		{"a header", "header: [{name: a, equals: x}]", v1alpha1.ToolError{Headers: map[string]v1alpha1.HeaderValue{"A": "y"}}, `match.header[0]: the header a is "y"`},
		{"no field", "jsonField: [{pointer: /a, in: [x]}]", v1alpha1.ToolError{Body: json}, "match.jsonField[0]: nothing stands at /a of the body"},
		{"a field", "jsonField: [{pointer: /error/n, in: ['7']}, {pointer: /error/code, in: [x]}]", v1alpha1.ToolError{Body: json}, `match.jsonField[1]: "E1" stands at /error/code of the body`},
		{"a text in the body", "bodyContains: [abcd, efgh]", v1alpha1.ToolError{Body: "none"}, "match.bodyContains: none of its 2 texts stands in the body"},
		{"a text in the message for want of a body", "bodyContainsAll: [this, that]", v1alpha1.ToolError{Message: "THIS"}, `match.bodyContainsAll[1]: "that" does not stand in the message, which stands for the missing body`},
		{"a text in the message", "messageContains: [abcd]", v1alpha1.ToolError{Body: "abcd"}, "match.messageContains: none of its 1 texts stands in the message"},
		{"all texts in the message", "messageContainsAll: [abcd]", v1alpha1.ToolError{}, `match.messageContainsAll[0]: "abcd" does not stand in the message`},
		{"the first of two that fail", "httpStatus: 401\n    bodyContains: [abcd]", v1alpha1.ToolError{}, "match.httpStatus: the report states no HTTP status"},
		{"hostile text is short and printable", "errorCode: E2", v1alpha1.ToolError{ErrorCode: "\x1b[2J" + strings.Repeat("x", 500)},
			`match.errorCode: the code is "\x1b[2J` + strings.Repeat("x", maxQuoted-4) + `"…`},
		{"nothing fails", "httpStatus: 401", v1alpha1.ToolError{HTTPStatus: ptr[int32](401)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entries, problems := Parse([]byte("patterns:\n- id: x\n  match:\n    " + tc.match + "\n  signature: s\n  classification: USER_INPUT\n"))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			call := Call{Tool: "shop", EndpointHost: "shop.example"}
			steps := compiled(t, Layer{Name: "file", Entries: entries}).Explain(call, tc.report, testNow)
			if len(steps) != 1 || steps[0].Failed != tc.want || steps[0].Matched != (tc.want == "") || steps[0].Entry.Layer != "file" {
				t.Errorf("steps: %+v, want %q", steps, tc.want)
			}
		})
	}
}
