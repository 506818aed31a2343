package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const setHead = "apiVersion: tools.agrajag.dev/v1alpha1\nkind: ErrorPatternSet\nmetadata: {name: NAME, namespace: SPACE}\nspec:\n  patterns:\n"

// set is a manifest with rules, each of which stands on a line of its own, from the sixth.
func set(namespace, name string, rules ...string) string {
	head := strings.NewReplacer("NAME", name, "SPACE", namespace).Replace(setHead)
	return head + "  - " + strings.Join(rules, "\n  - ") + "\n"
}

// rule is a rule for an error code, with what else there is to say.
func rule(id, code, more string) string {
	return "{id: " + id + ", match: {errorCode: " + code + "}, signature: s, classification: UNCLEAR" + more + "}"
}

// TestTheBundledTableHasNoFindings: nor have the samples.
func TestTheBundledTableHasNoFindings(t *testing.T) {
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, args := range [][]string{
		{"../../internal/classify/error-patterns.yaml"}, {"--no-bundled", "../../internal/classify/error-patterns.yaml"}, samples,
	} {
		r := patterns(t, "", append([]string{"lint"}, args...)...)
		if r.Code != exitFine || strings.Contains(r.Out, "warning:") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestLint(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string // called a.yaml, b.yaml, ...
		args  []string
		want  []string
		code  int
	}{
		{name: "a set with nothing wrong", files: []string{set("shop", "s", rule("x", "X", ""))}},
		{name: "an id twice in a file", files: []string{"patterns:\n- " + rule("x", "X", "") + "\n- " + rule("x", "Z", "") + "\n"}, code: 1,
			want: []string{"a.yaml:3:3: error: x: id: stands earlier too, at a.yaml:2:3, and the first counts; use an id of its own"}},
		{name: "an id twice in the sets of a namespace, where the set that comes first by name counts", code: 1,
			files: []string{set("shop", "second", rule("x", "X", "")), set("shop", "first", rule("x", "Z", ""))},
			want:  []string{"a.yaml:6:5: error: x: id: stands earlier too, at b.yaml:6:5, and the first counts; use an id of its own"}},
		{name: "an id twice in two namespaces, or in two files of rules", files: []string{set("shop", "s", rule("x", "X", "")), set("acme", "s", rule("x", "X", "")),
			"patterns: [" + rule("x", "X", "") + "]", "patterns: [" + rule("x", "X", "") + "]"}},
		{name: "a before that leads nowhere", files: []string{set("shop", "s", rule("x", "X", ", before: nowhere"))}, code: 1,
			want: []string{`a.yaml:6:5: warning: x: before: "nowhere" leads to no entry; the entry is in force, before fallback`}},
		{name: "a before that leads to a bundled rule", files: []string{set("shop", "s", rule("x", "X", ", before: http-403"))}},
		{name: "which is not there without the bundled ones", files: []string{set("shop", "s", rule("x", "X", ", before: http-403"))}, args: []string{"--no-bundled"}, code: 1,
			want: []string{`a.yaml:6:5: warning: x: before: "http-403" leads to no entry; the entry is in force, before fallback`}},
		{name: "a rule that is never reached because of another of the file", code: 1,
			files: []string{set("shop", "s", rule("x", "X", ""), "{id: late, match: {errorCode: X, toolName: [a]}, signature: s, classification: UNCLEAR}")},
			want:  []string{"a.yaml:7:5: warning: late: is never reached: x at a.yaml:6:5, which is tried before, takes all it would match"}},
		{name: "a rule that is never reached because of a bundled one", code: 1,
			files: []string{set("shop", "s", "{id: late, match: {httpStatus: 401, bodyContains: [some text]}, signature: s, classification: UNCLEAR}")},
			want:  []string{"a.yaml:6:5: warning: late: is never reached: http-401-generic of the bundled rules, which is tried before, takes all it would match"}},
		{name: "but is without the bundled ones", args: []string{"--no-bundled"},
			files: []string{set("shop", "s", "{id: late, match: {httpStatus: 401, bodyContains: [some text]}, signature: s, classification: UNCLEAR}")}},
		{name: "rules that contradict themselves", code: 1,
			files: []string{set("shop", "s", "{id: x, match: {httpStatus: 401, httpStatusIn: [403]}, signature: s, classification: UNCLEAR}", rule("k", "K", ""),
				"{id: z, match: {httpStatusIn: [401, 403], httpStatusRange: [500, 599]}, signature: s, classification: UNCLEAR}")},
			want: []string{"a.yaml:6:5: warning: x: never matches: match.httpStatus and match.httpStatusIn exclude each other",
				"a.yaml:8:5: warning: z: never matches: match.httpStatusRange and match.httpStatusIn exclude each other"}},
		{name: "a rule that hides a bundled one", code: 1,
			files: []string{set("shop", "s", "{id: late, match: {httpStatus: 401}, signature: s, classification: UNCLEAR, before: http-401-generic}")},
			want:  []string{"a.yaml:6:5: warning: late: takes all that http-401-generic of the bundled rules would match, which is never reached"}},
		{name: "several problems, in the order of the lines", code: 1,
			files: []string{"patterns:\n- " + rule("x", "X", ", before: nowhere, notes: n") + "\n- " + rule("y", "X", ", cooldown: 5m") + "\n- " + rule("z", "X", ", before: nowhere") + "\n"},
			want: []string{
				`a.yaml:2:90: error: patterns[0] (x): has the unknown field "notes"; did you mean note?`,
				`a.yaml:3:73: error: patterns[1].cooldown (y): not an ISO-8601 duration: "5m"; write for example PT30S, PT5M, PT24H or P7D`,
				`a.yaml:4:3: warning: z: before: "nowhere" leads to no entry; the entry is in force, before fallback`}},
		{name: "no YAML", files: []string{"a: b\n c: [\n"}, code: 1, want: []string{"a.yaml:2:1: error: is no YAML: mapping values are not allowed in this context"}},
		{name: "another kind", files: []string{"kind: Tool\napiVersion: v1\nmetadata: {name: t}\n"}, want: []string{"a.yaml:1:1: note: Tool t holds no rules and is not looked at"}},
		{name: "nothing", files: []string{""}, code: 1, want: []string{"a.yaml:1:1: error: patterns: is required; the file is empty"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := append([]string{"lint"}, tc.args...)
			for i, content := range tc.files {
				name := string(rune('a'+i)) + ".yaml"
				write(t, name, content)
				args = append(args, name)
			}
			r := patterns(t, "", args...)
			want := ""
			for _, line := range tc.want {
				want += line + "\n"
			}
			if diff := cmp.Diff(result{Code: tc.code, Out: want}, r); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			var found []finding
			asJSON := patterns(t, "", append(args, "-o", "json")...)
			if err := json.Unmarshal([]byte(asJSON.Out), &found); err != nil || len(found) != len(tc.want) || asJSON.Code != tc.code {
				t.Errorf("as JSON: %v, %d findings, exit code %d", err, len(found), asJSON.Code)
			}
		})
	}
}

func TestAFileNamedTwiceIsCheckedOnce(t *testing.T) {
	name := file(t, "rules.yaml", "patterns: ["+rule("x", "X", "")+"]")
	if r := patterns(t, "", "lint", name, name); r.Code != exitFine {
		t.Errorf("%+v", r)
	}
}

func TestLintOfTheStandardInput(t *testing.T) {
	r := patterns(t, set("shop", "s", "{id: x}"), "lint", "-")
	if r.Code != exitFindings || !strings.HasPrefix(r.Out, "<stdin>:6:5: error: spec.patterns[0].match (x): is required") {
		t.Errorf("%+v", r)
	}
}
