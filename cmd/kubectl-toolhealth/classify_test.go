package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
)

// verdicts runs classify and returns its JSON.
func verdicts(t *testing.T, reports string, args ...string) []map[string]any {
	t.Helper()
	r := patterns(t, reports, append([]string{"classify", "-f", "-", "-o", "json"}, args...)...)
	if r.Code != exitFine || r.Err != "" {
		t.Fatalf("exit code %d, %s", r.Code, r.Err)
	}
	var list []map[string]any
	decoder := json.NewDecoder(strings.NewReader(r.Out))
	if err := decoder.Decode(&list); err != nil || decoder.More() {
		t.Fatalf("not one array: %v in %s", err, r.Out)
	}
	return list
}

// TestClassifyReadsTheCorpusAsItIs: one verdict for each item, in order, with exactly the six keys, and the same as
// package classify gives.
func TestClassifyReadsTheCorpusAsItIs(t *testing.T) {
	data, err := os.ReadFile("../../internal/classify/testdata/failures.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct {
		ID   string
		Want string `yaml:"expectedClassification"`
	}
	if err := yaml.Unmarshal(data, &corpus); err != nil {
		t.Fatal(err)
	}
	list := verdicts(t, string(data))
	if len(list) != len(corpus) {
		t.Fatalf("%d verdicts on %d reports", len(list), len(corpus))
	}
	right := 0
	for i, v := range list {
		var keys []string
		for _, key := range []string{"id", "ruleId", "signature", "classification", "cooldownSeconds", "healthAction"} {
			if _, ok := v[key]; ok {
				keys = append(keys, key)
			}
		}
		if len(keys) != 6 || len(v) != 6 || v["id"] != corpus[i].ID {
			t.Errorf("item %d, %s: %v", i, corpus[i].ID, v)
		}
		if v["classification"] == corpus[i].Want {
			right++
		}
	}
	if right*10 < len(corpus)*9 {
		t.Errorf("%d of %d verdicts are as expected: the reports are not read in full", right, len(corpus))
	}
}

// TestCooldownSeconds: the wait that is stated, else the rule's, else the default of the class; null where none is.
func TestCooldownSeconds(t *testing.T) {
	rules := file(t, "rules.yaml", `patterns:
- {id: own, match: {errorCode: OWN}, signature: own, classification: USER_INPUT, cooldown: PT7M}
- {id: default, match: {errorCode: DEFAULT}, signature: default, classification: INTERMITTENT}
- {id: header, match: {errorCode: HEADER}, signature: header, classification: INTERMITTENT, cooldown: "header:retry-after"}
- {id: unclear, match: {errorCode: UNCLEAR}, signature: unclear, classification: UNCLEAR}
- {id: unclear-header, match: {errorCode: UNCLEAR_HEADER}, signature: unclear, classification: UNCLEAR, cooldown: "header:retry-after"}
- {id: working, match: {errorCode: WORKING}, signature: working, classification: WORKING, cooldown: PT7M}
`)
	for _, tc := range []struct {
		name, report string
		want         any
	}{
		{"the rule's own", "{errorCode: OWN}", 420.0},
		{"the default of the class", "{errorCode: DEFAULT}", 30.0},
		{"stated in seconds", "{errorCode: HEADER, headers: {Retry-After: 60}}", 60.0},
		{"not stated: the default", "{errorCode: HEADER}", 30.0},
		{"a fraction", "{errorCode: HEADER, message: please try again in 33.5s}", 33.5},
		{"below a second", "{errorCode: HEADER, message: please try again in 174ms}", 1.0},
		{"a date, from the report's Date header", "{errorCode: HEADER, headers: {Date: 'Mon, 16 Jan 2017 10:00:00 GMT', Retry-After: 'Mon, 16 Jan 2017 10:05:00 GMT'}}", 300.0},
		{"a date, from the report's date", "{errorCode: HEADER, date: 2017-01-16T10:04:00Z, headers: {Retry-After: 'Mon, 16 Jan 2017 10:05:00 GMT'}}", 60.0},
		{"a date, from --now", "{errorCode: HEADER, headers: {Retry-After: 'Wed, 17 Jun 2026 08:02:00 GMT'}}", 120.0},
		{"a date that is past: the default", "{errorCode: HEADER, headers: {Retry-After: 'Wed, 17 Jun 2026 07:00:00 GMT'}}", 30.0},
		{"longer than a day", "{errorCode: HEADER, headers: {Retry-After: 999999}}", 86400.0},
		{"unclear", "{errorCode: UNCLEAR, headers: {Retry-After: 60}}", nil},
		{"unclear with a stated wait", "{errorCode: UNCLEAR_HEADER, headers: {Retry-After: 60}}", 60.0},
		{"unclear without the wait it may state", "{errorCode: UNCLEAR_HEADER}", nil},
		{"working", "{errorCode: WORKING}", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := verdicts(t, tc.report, "--patterns", rules, "--now", "2026-06-17T08:00:00Z")
			if got := list[0]["cooldownSeconds"]; len(list) != 1 || got != tc.want {
				t.Errorf("cooldownSeconds %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReportFormats: what a file of reports may look like.
func TestReportFormats(t *testing.T) {
	status := int32(401)
	full := report{id: "a", call: classify.Call{Tool: "search", EndpointHost: "tool.example"}, err: v1alpha1.ToolError{HTTPStatus: &status,
		Headers: map[string]v1alpha1.HeaderValue{"A": "1.50", "B": "x, y"}, Body: "b", Message: "m",
		ExceptionTypes: []v1alpha1.MatchText{"E", "F"}, ErrorCode: "0x10", Host: "other.example"}}
	const fields = "httpStatus: 401, headers: {A: 1.50, B: [x, y]}, body: b, message: m, exceptionType: [E, F], errorCode: 0x10, host: other.example, "
	only := func(ids ...string) []report {
		var list []report
		for _, id := range ids {
			list = append(list, report{id: id, err: v1alpha1.ToolError{Message: "m"}})
		}
		return list
	}
	for _, tc := range []struct {
		name, file string
		want       []report
	}{
		{"a list with every field, and fields for people", "- {id: a, toolName: search, endpointHost: tool.example, why: because, source: [x], " + fields + "}", []report{full}},
		{"one report", "{id: a, message: m}", only("a")},
		{"several documents, some without ids", "message: m\n---\n- message: m\n- {id: c, message: m}\n- {message: m}\n", only("#1", "#2", "c", "#4")},
		{"one exception type", "{id: a, exceptionType: E}", []report{{id: "a", err: v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"E"}}}}},
		{"an outer type and its causes", "{id: a, exceptionType: E, exceptionTypes: [F]}", []report{{id: "a", err: v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"E", "F"}}}}},
		{"JSON", `[{"id": "a", "message": "m"}]`, only("a")},
		{"a DiagnosisJob", "{kind: DiagnosisJob, metadata: {name: a}, spec: {toolName: search, error: {message: m}}}",
			[]report{{id: "a", call: classify.Call{Tool: "search"}, err: v1alpha1.ToolError{Message: "m"}}}},
		{"a list of DiagnosisJobs", "{kind: List, items: [{kind: DiagnosisJob, metadata: {name: a}, spec: {error: {message: m}}}]}", only("a")},
		{"the cases of a test file", "cases: [{name: a, report: {message: m}, want: {rule: x}}]", only("a")},
		{"an empty list", "[]", nil},
		{"nothing known about an item that has a name", "- {id: a}", []report{{id: "a"}}},
		{"a header without a value", "{id: a, message: m, headers: {X: }}", []report{{id: "a", err: v1alpha1.ToolError{Message: "m", Headers: map[string]v1alpha1.HeaderValue{"X": ""}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &streams{in: strings.NewReader(tc.file)}
			got, err := s.reports(stdin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(report{})); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportsThatCannotBeRead(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"nothing", "", "<stdin>: holds no report"},
		{"no YAML", "a: [", "is no YAML"},
		{"text", "hello", "line 1: must be a report, or a list of reports"},
		{"no report", "\n- {bodi: x}", "line 2: is no report: it has none of httpStatus"},
		{"another kind", "{kind: Tool, metadata: {name: x}}", "line 1: is a Tool; reports are DiagnosisJobs or plain"},
		{"a request to look again", "{kind: DiagnosisJob, spec: {trigger: user_request}}", "line 1: is a DiagnosisJob without spec.error"},
		{"a wrong type", "- {id: a, httpStatus: many}", "line 1: cannot unmarshal !!str `many` into int32"},
		{"a type that is a mapping", "- {id: a, exceptionType: {a: b}}", "line 1: must be text or a list of texts"},
		{"a type that is a list", "- {id: a, exceptionType: [[b]]}", "line 1: must be text"},
		{"an alias", "- &x {id: a, message: b}\n- *x\n", "line 2: uses a YAML alias; write the value itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := patterns(t, tc.file, "classify", "-f", "-")
			if r.Code != exitUnusable || !strings.Contains(r.Err, tc.want) || r.Out != "" {
				t.Errorf("%+v, want %q", r, tc.want)
			}
		})
	}
}

// TestPatternFilesAreLevels: a later file replaces what an earlier one says, however the files are named.
func TestPatternFilesAreLevels(t *testing.T) {
	const rule = "patterns: [{id: x, match: {errorCode: X}, signature: SIG, classification: USER_INPUT, before: BEFORE}]"
	first := file(t, "first.yaml", strings.NewReplacer("SIG", "first", "BEFORE", "fallback").Replace(rule))
	second := file(t, "second.yaml", strings.NewReplacer("SIG", "second", "BEFORE", "fallback").Replace(rule))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--patterns", first}, "first"},
		{[]string{"--patterns", first, "--patterns", second}, "second"},
		{[]string{"--patterns", second, "--patterns", first}, "first"},
		{[]string{"--patterns", first, second}, "second"},
		{nil, "unclassified"},
	} {
		got := verdicts(t, "{errorCode: X}", tc.args...)[0]["signature"].(string)
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%v: %s, want %s", tc.args, got, tc.want)
		}
	}
	lost := file(t, "lost.yaml", strings.NewReplacer("SIG", "lost", "BEFORE", "nowhere").Replace(rule))
	r := patterns(t, "{errorCode: X}", "classify", "-f", "-", "--patterns", lost)
	if r.Code != exitFine || !strings.Contains(r.Err, `lost.yaml:1:12: warning: x: before: "nowhere" leads to no entry`) {
		t.Errorf("a lost before: %+v", r)
	}
}

// TestExplain: the rules of all levels in order, until one matches.
func TestExplain(t *testing.T) {
	r := patterns(t, "", "explain", "-f", examples+"/shop-reports.yaml", "--patterns", examples+"/shop-rules.yaml", "--id", "unknown-article")
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	n := len(lines)
	if r.Code != exitFine || n < 10 || lines[0] != "Report unknown-article" || !strings.HasPrefix(lines[1], "#") {
		t.Fatalf("%+v", r)
	}
	var got []string
	for _, line := range lines[n-4:] {
		got = append(got, strings.Join(strings.Fields(line)[1:], " "))
	}
	want := []string{
		examples + `/shop-rules.yaml shop-session-expired match.jsonField[1]: "no_such_article" stands at /error/kind of the body`,
		examples + `/shop-rules.yaml shop-no-such-article MATCHED`,
		"USER_INPUT by rule shop-no-such-article, signature shop-no-such-article, cooldown 5m, healthAction none",
		"The article does not exist; another search may find one.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	if strings.Count(r.Out, "MATCHED") != 1 {
		t.Errorf("%d rules matched", strings.Count(r.Out, "MATCHED"))
	}
	capped := patterns(t, "{httpStatus: 429, headers: {Retry-After: 999999}}", "explain", "-f", "-")
	if want := "Note: the header retry-after asks for a wait of 277h46m39s"; !strings.Contains(capped.Out, want) {
		t.Errorf("a wait that is cut: the end is %q", capped.Out[max(0, len(capped.Out)-300):])
	}
	all := patterns(t, "", "explain", "-f", examples+"/shop-reports.yaml")
	if got := strings.Count(all.Out, "Verdict: "); got != 3 {
		t.Errorf("without an id %d reports are explained, want 3", got)
	}
}

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{"24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "15m": 15 * time.Minute, "10m": 10 * time.Minute,
		"33.5s": 33500 * time.Millisecond, "1s": time.Second, "1h0m5s": time.Hour + 5*time.Second, "20s": 20 * time.Second} {
		if got := short(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
}

func FuzzReports(f *testing.F) {
	for _, seed := range []string{"- {id: a, httpStatus: 401, headers: {A: [b]}}", "{kind: DiagnosisJob, spec: {error: {message: m}}}", "cases: [{name: a, report: {body: b}}]"} {
		f.Add([]byte(seed))
	}
	rules, _ := classify.Compile(classify.Bundled())
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &streams{in: bytes.NewReader(data)}
		list, err := s.reports(stdin)
		if err != nil {
			return
		}
		for _, r := range list[:min(len(list), 10)] {
			if j := judge(rules, r, time.Unix(0, 0)); j.RuleID == "" || j.CooldownSeconds != nil && *j.CooldownSeconds < 1 {
				t.Errorf("%+v", j)
			}
		}
	})
}
