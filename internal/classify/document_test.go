package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told gives documents in lines: what each is, its rules and its problems with their places.
func told(documents []Document) []string {
	var out []string
	for _, d := range documents {
		line := fmt.Sprintf("%d:%d %s %s/%s", d.At.Line, d.At.Column, d.Kind, d.Namespace, d.Name)
		if d.Ignored {
			line += " ignored"
		}
		out = append(out, line)
		for i, e := range d.Entries {
			out = append(out, fmt.Sprintf("  %d:%d %s %s", d.EntriesAt[i].Line, d.EntriesAt[i].Column, e.Path, e.Pattern.ID))
		}
		for _, p := range d.Problems {
			at := p.Line
			p.Line = 0
			out = append(out, fmt.Sprintf("  ! %d:%d %s", at, p.Column, p))
		}
	}
	return out
}

const setHead = "apiVersion: tools.agrajag.dev/v1alpha1\nkind: ErrorPatternSet\nmetadata: {name: a, namespace: shop}\n"

func TestParseDocuments(t *testing.T) {
	const rule = "{id: x, match: {}, signature: s, classification: UNCLEAR}"
	const bad = "{id: z, match: {bodyContain: [abcd]}, signature: s, classification: UNCLEAR}"
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"a rule file", "# rules\npatterns:\n  - " + rule + "\n", []string{"2:1  /", "  3:5 patterns[0] x"}},
		{"a set", setHead + "spec:\n  patterns:\n  - " + rule + "\nstatus: {entries: 1}\n", []string{"1:1 ErrorPatternSet shop/a", "  6:5 spec.patterns[0] x"}},
		{"sets among other kinds, and nothing between separators", "---\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n---\n" + setHead + "spec: {patterns: [" + rule + "]}\n",
			[]string{"3:1 ConfigMap /c ignored", "7:1 ErrorPatternSet shop/a", "  10:19 spec.patterns[0] x"}},
		{"a list, as kubectl get -o yaml prints it", "kind: List\napiVersion: v1\nitems:\n- kind: ErrorPatternSet\n  apiVersion: tools.agrajag.dev/v1alpha1\n  metadata: {name: b}\n  spec:\n    patterns: [" + rule + "]\n- kind: Tool\n  apiVersion: v1\n",
			[]string{"4:3 ErrorPatternSet /b", "  8:16 spec.patterns[0] x", "9:3 Tool / ignored"}},
		{"a list in a list, which nobody prints", "{kind: List, items: [{kind: List, items: [{kind: ErrorPatternSet}]}]}", []string{"1:22 List / ignored"}},
		{"a problem with its column", setHead + "spec:\n  patterns:\n  - " + bad + "\n", []string{"1:1 ErrorPatternSet shop/a",
			`  ! 6:21 spec.patterns[0].match ("z"): has the unknown field "bodyContain"; did you mean bodyContains?`}},
		{"everything that is wrong with an entry, but nothing twice", "patterns:\n- {id: 1, match: {httpStatus: x, toolNam: [a], bodyContains: [abc, '']}, signature: s, classification: BROKEN, cooldown: 15m}\n",
			[]string{"1:1  /", `  ! 2:8 patterns[0].id ("1"): must be text, in "quotes" where it looks like something else, not "1"`,
				`  ! 2:31 patterns[0].match.httpStatus ("1"): must be a whole number without quotes, not "x"`,
				`  ! 2:34 patterns[0].match ("1"): has the unknown field "toolNam"; did you mean toolName?`,
				`  ! 2:68 patterns[0].match.bodyContains[1] ("1"): is empty; write some text or leave it out`,
				`  ! 2:88 patterns[0].classification ("1"): "BROKEN" is not known; use one of TECHNICALLY_BROKEN, USER_SPECIFIC_TECHNICAL, USER_PERMISSION, USER_INPUT, INTERMITTENT, WORKING, UNCLEAR`,
				`  ! 2:112 patterns[0].cooldown ("1"): not an ISO-8601 duration: "15m"; write for example PT30S, PT5M, PT24H or P7D`}},
		{"words that kubectl takes for true or false", setHead + "spec:\n  patterns:\n  - {id: x, match: {jsonField: [{pointer: /ok, in: [no, 'no', \"off\", !!str on, none]}]}, signature: Yes, classification: UNCLEAR}\n",
			[]string{"1:1 ErrorPatternSet shop/a", `  ! 6:53 spec.patterns[0].match.jsonField[0].in[0] ("x"): must be text, but kubectl takes no for true or false; write "no"`,
				`  ! 6:101 spec.patterns[0].signature ("x"): must be text, but kubectl takes Yes for true or false; write "Yes"`}},
		{"which a rule file may say", "patterns: [{id: x, match: {errorCodeIn: [no, yes]}, signature: y, classification: UNCLEAR}]", []string{"1:1  /", "  1:12 patterns[0] x"}},
		{"a set without rules", setHead + "spec: {patterns: []}\n", []string{"1:1 ErrorPatternSet shop/a", "  ! 4:18 spec.patterns: is empty; a set has at least one rule"}},
		{"a set without a spec", setHead, []string{"1:1 ErrorPatternSet shop/a", "  ! 1:1 spec: is required; list the rules in spec.patterns"}},
		{"a field of a set that there is not", setHead + "spec: {pattern: []}\n", []string{"1:1 ErrorPatternSet shop/a",
			`  ! 4:8 spec: has the unknown field "pattern"; did you mean patterns?`, "  ! 4:7 spec.patterns: is required; list the rules there"}},
		{"a set of another version", "apiVersion: tools.agrajag.dev/v1\nkind: ErrorPatternSet\nspec: {patterns: [" + rule + "]}\n",
			[]string{"1:1 ErrorPatternSet /", "  3:19 spec.patterns[0] x", `  ! 1:1 apiVersion: must be tools.agrajag.dev/v1alpha1, not "tools.agrajag.dev/v1"`}},
		{"a manifest without a kind", "apiVersion: v1\n", []string{"1:1 unknown /", "  ! 1:1 kind: is required beside apiVersion"}},
		{"rules beside a manifest", "patterns: [" + rule + "]\n---\nkind: Tool\napiVersion: v1\n", []string{"1:1  /", "  1:12 patterns[0] x",
			"  ! 1:1 is a rule file beside other documents; a rule file is one document, and a manifest has apiVersion and kind", "3:1 Tool / ignored"}},
		{"a fault in a later document costs no earlier one", "kind: Tool\napiVersion: v1\n---\na: [\n", []string{"1:1 Tool / ignored", "0:0  /",
			"  ! 4:0 is no YAML: did not find expected node content"}},
		{"nothing", "# nothing\n", []string{"0:0  /", "  ! 0:0 patterns: is required; the file is empty"}},
		{"text", "hello", []string{"1:1  /", "  ! 1:1 must be a mapping; {} is the empty one"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, told(ParseDocuments([]byte(tc.file)))); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParseDocumentsIsBounded: files that are made to cost much.
func TestParseDocumentsIsBounded(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	for tc, file := range map[string]string{
		"too large":         strings.Repeat("#", MaxManifests+1),
		"many documents":    strings.Repeat("---\nkind: A\n", 100_000),
		"many items":        "kind: List\nitems:\n" + strings.Repeat("- kind: A\n", 100_000),
		"lists in lists":    "kind: List\nitems: [{kind: List, items: [{kind: List, items: []}]}]\n---\nx: *y",
		"deep flow":         "patterns: " + strings.Repeat("[", 1<<20),
		"aliases":           bomb + "patterns: *a29\n",
		"a large rule file": "patterns:\n" + strings.Repeat("#\n", maxFile),
		"binary":            strings.Repeat("\x00\xff", 1000),
	} {
		t.Run(tc, func(t *testing.T) {
			start := time.Now()
			documents := ParseDocuments([]byte(file))
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			problems := 0
			for _, d := range documents {
				problems += len(d.Problems)
			}
			if len(documents) > maxDocuments+1 || problems == 0 {
				t.Errorf("%d documents, %d problems", len(documents), problems)
			}
		})
	}
}

func TestNearestIsNearOrNone(t *testing.T) {
	fields := []field{{name: "bodyContains"}, {name: "bodyContainsAll"}, {name: "note"}, {name: "httpStatus"}}
	for unknown, want := range map[string]string{
		"bodyContain": "bodyContains", "body_contains": "bodyContains", "BODYCONTAINSALL": "bodyContainsAll", "notes": "note",
		"httpSatus": "httpStatus", "regex": "", "": "", "x": "", strings.Repeat("x", 1000): "",
	} {
		if got := nearest(unknown, fields); got != want {
			t.Errorf("for %q: %q, want %q", unknown, got, want)
		}
	}
}

func FuzzParseDocuments(f *testing.F) {
	f.Add([]byte(setHead + "spec: {patterns: [{id: x, match: {}, signature: s, classification: UNCLEAR}]}\n"))
	f.Add([]byte("kind: List\nitems: [{kind: ErrorPatternSet, spec: {patterns: [1]}}]\n---\npatterns: []\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range ParseDocuments(data) {
			if len(d.Entries) != len(d.EntriesAt) {
				t.Fatalf("%d entries, %d places", len(d.Entries), len(d.EntriesAt))
			}
			for _, e := range d.Entries {
				if wrong := Validate(e.Pattern); len(wrong) > 0 {
					t.Fatalf("%s is kept: %v", e.Path, wrong)
				}
			}
		}
	})
}
