package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const header403 = "cases:\n- name: a\n  report: {httpStatus: 429, headers: {Retry-After: 'Wed, 17 Jun 2026 08:02:00 GMT'}}\n"

// TestTest: what a case wants, and what is told where it does not get it.
func TestTest(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		args       []string
		want       result
	}{
		{name: "everything it can want", file: "cases: [{name: a, report: {httpStatus: 403, body: '{}'}, want: {rule: http-403, signature: http-403, " +
			"classification: USER_PERMISSION, cooldown: P1D, healthAction: none}}]", want: result{Out: "1 cases: 1 passed, 0 failed\n"}},
		{name: "nothing as it wants", file: "cases: [{name: a, report: {httpStatus: 403, body: '{}'}, want: {rule: x, signature: x, " +
			"classification: UNCLEAR, cooldown: none, healthAction: markDegraded}}]",
			want: result{Code: 1, Out: "<stdin>:1: FAIL: a\n    rule: want x, got http-403\n    signature: want x, got http-403\n    classification: want UNCLEAR, got USER_PERMISSION\n" +
				"    cooldown: want none, got 24h\n    healthAction: want markDegraded, got none\n1 cases: 0 passed, 1 failed\n"}},
		{name: "the case's time", file: header403 + "  now: 2026-06-17T08:01:00Z\n  want: {cooldown: PT1M}\n", want: result{Out: "1 cases: 1 passed, 0 failed\n"}},
		{name: "else --now", file: header403 + "  want: {cooldown: PT2M}\n", args: []string{"--now", "2026-06-17T08:00:00Z"}, want: result{Out: "1 cases: 1 passed, 0 failed\n"}},
		{name: "a cooldown wanted where there is none", file: "cases:\n- {name: a, report: {message: what}, want: {cooldown: PT1S}}\n",
			want: result{Code: 1, Out: "<stdin>:2: FAIL: a\n    cooldown: want 1s, got none\n1 cases: 0 passed, 1 failed\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, patterns(t, tc.file, append([]string{"test", "-"}, tc.args...)...)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCasesAreReadStrictly: a case that is misspelt is no case that passes.
func TestCasesAreReadStrictly(t *testing.T) {
	const report = "report: {message: m}, "
	for _, tc := range []struct{ name, file, want string }{
		{"no cases", "{}", "line 1: must have a list of cases"},
		{"an empty list", "cases: []", "holds no case"},
		{"nothing", "", "holds no case"},
		{"another field", "cases: []\ntests: []", `line 2: "tests" is not known here; known are cases`},
		{"a case that is text", "cases: [x]", "line 1: must be a mapping of name, report, want, now"},
		{"a misspelt field", "cases: [{name: a, " + report + "wants: {rule: x}}]", `"wants" is not known here`},
		{"a field twice", "cases: [{name: a, name: b}]", "name stands here a second time"},
		{"no name", "cases: [{" + report + "want: {rule: x}}]", "has no name"},
		{"no report", "cases: [{name: a, want: {rule: x}}]", "has no report"},
		{"no wish", "cases: [{name: a, " + report + "}]", "wants nothing"},
		{"an empty wish", "cases: [{name: a, " + report + "want: {}}]", "wants nothing"},
		{"a misspelt wish", "cases: [{name: a, " + report + "want: {class: UNCLEAR}}]", `"class" is not known here; known are rule, signature, classification, cooldown, healthAction`},
		{"a wish for nothing", "cases: [{name: a, " + report + "want: {rule: }}]", "rule must be text"},
		{"a wish for a list", "cases: [{name: a, " + report + "want: {rule: [x]}}]", "rule must be text"},
		{"a cooldown that is none", "cases: [{name: a, " + report + "want: {cooldown: 5m}}]", "cooldown: not an ISO-8601 duration"},
		{"a time that is none", "cases: [{name: a, now: noon, " + report + "want: {rule: x}}]", "noon"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := patterns(t, tc.file, "test", "-")
			if r.Code != exitUnusable || r.Out != "" || !strings.Contains(r.Err, tc.want) {
				t.Errorf("%+v, want %q", r, tc.want)
			}
		})
	}
}
