package classify

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestParseReadsEveryField(t *testing.T) {
	entries, problems := Parse([]byte(`
# a comment
patterns:
  - id: all
    match:
      toolName: [search]
      httpStatus: 400
      httpStatusRange: [400, 499]
      httpStatusIn: [400, 409]
      host: foreign
      exceptionType: ["*net.OpError"]
      bodyContains:
        - 'Manual not found: '
        - "4040"
      bodyContainsAll: [both, that]
      messageContains: [some]
      messageContainsAll: [many]
      errorCode: "-32603"
      errorCodeIn: ["-32603", E1]
      header:
        - { name: Retry-After, present: false }
        - { name: a, equals: b }
        - { name: c, contains: d }
      jsonField:
        - { pointer: /error/code, in: ["", "404"] }
    signature: sig
    classification: INTERMITTENT
    cooldown: header:retry-after
    healthAction: markDegraded
    locked: true
    note: |
      Two
      lines.
    before: http-403
  - { id: least, match: {}, signature: sig, classification: UNCLEAR, locked: false }
`))
	want := []Entry{
		{Path: "patterns[0]", Pattern: v1alpha1.ErrorPattern{
			ID: "all", Signature: "sig", Classification: v1alpha1.Intermittent, Cooldown: "header:retry-after",
			HealthAction: v1alpha1.HealthActionMarkDegraded, Locked: true, Note: "Two\nlines.\n", Before: "http-403",
			Match: v1alpha1.ErrorMatch{ToolName: []v1alpha1.MatchToolName{"search"}, HTTPStatus: ptr[int32](400),
				HTTPStatusRange: []int32{400, 499}, HTTPStatusIn: []int32{400, 409}, Host: v1alpha1.HostForeign,
				ExceptionType: texts("*net.OpError"), ErrorCode: "-32603", ErrorCodeIn: []string{"-32603", "E1"},
				BodyContains: subs("Manual not found: ", "4040"), BodyContainsAll: subs("both", "that"),
				MessageContains: subs("some"), MessageContainsAll: subs("many"),
				Header:    []v1alpha1.HeaderMatch{{Name: "Retry-After", Present: ptr(false)}, {Name: "a", Equals: "b"}, {Name: "c", Contains: "d"}},
				JSONField: []v1alpha1.JSONFieldMatch{{Pointer: "/error/code", In: []string{"", "404"}}}},
		}},
		{Path: "patterns[1]", Pattern: v1alpha1.ErrorPattern{ID: "least", Signature: "sig", Classification: v1alpha1.Unclear}},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
}

// TestParseRefuses: each faulty entry is left out with the reason, the path and the line; its neighbours stay.
func TestParseRefuses(t *testing.T) {
	const (
		text      = `must be text, in "quotes" where it looks like something else`
		selectors = "toolName, httpStatus, httpStatusRange, httpStatusIn, host, exceptionType, errorCode, errorCodeIn, header, jsonField, " +
			"bodyContains, bodyContainsAll, messageContains, messageContainsAll"
		known = "known are id, match, signature, classification, cooldown, healthAction, locked, fingerprint, note, before"
	)
	for _, tc := range []struct {
		name  string
		entry string // on line 3, its fields from there
		want  string
	}{
		{"an unknown field", "{id: x, match: {}, signature: s, classification: UNCLEAR, coolDown: PT5M}", `patterns[1] ("x"): line 3: has the unknown field "coolDown"; did you mean cooldown?`},
		{"an unknown selector", "{id: x, match: {status: 400}, signature: s, classification: UNCLEAR}", `patterns[1].match ("x"): line 3: has the unknown field "status"; known are ` + selectors},
		{"a field twice", "{id: x, id: y, match: {}, signature: s, classification: UNCLEAR}", `patterns[1].id ("x"): line 3: stands here a second time; keep one`},
		{"no match", "{id: x, signature: s, classification: UNCLEAR}", `patterns[1].match ("x"): line 3: is required; write {} to match every error`},
		{"a match of nothing", "{id: x, match: , signature: s, classification: UNCLEAR}", `patterns[1].match ("x"): line 3: must be a mapping; {} is the empty one`},
		{"an entry that is text", "x", `patterns[1]: line 3: must be a mapping; {} is the empty one`},
		{"an entry that is nothing", "", `patterns[1]: line 3: must be a mapping; {} is the empty one`},
		{"a status in quotes", `{id: x, match: {httpStatus: "400"}, signature: s, classification: UNCLEAR}`, `patterns[1].match.httpStatus ("x"): line 3: must be a whole number without quotes, not "400"`},
		{"a status in hex", `{id: x, match: {httpStatus: 0x190}, signature: s, classification: UNCLEAR}`, `patterns[1].match.httpStatus ("x"): line 3: must be a whole number without quotes, not "0x190"`},
		{"a status too large", `{id: x, match: {httpStatus: 4294967696}, signature: s, classification: UNCLEAR}`, `patterns[1].match.httpStatus ("x"): line 3: must be a whole number without quotes, not "4294967696"`},
		{"a status of nothing", `{id: x, match: {httpStatus: }, signature: s, classification: UNCLEAR}`, `patterns[1].match.httpStatus ("x"): line 3: must be a whole number without quotes, not ""`},
		{"one type", "{id: x, match: {exceptionType: A}, signature: s, classification: UNCLEAR}", `patterns[1].match.exceptionType ("x"): line 3: must be a list, as in [one, two]`},
		{"a list of no texts", "{id: x, match: {bodyContains: []}, signature: s, classification: UNCLEAR}", `patterns[1].match.bodyContains ("x"): line 3: is empty; leave it out if it is to select nothing`},
		{"a number as text", "{id: x, match: {bodyContains: [a, 404]}, signature: s, classification: UNCLEAR}", `patterns[1].match.bodyContains[1] ("x"): line 3: ` + text + `, not "404"`},
		{"a number as code", "{id: x, match: {errorCode: 53300}, signature: s, classification: UNCLEAR}", `patterns[1].match.errorCode ("x"): line 3: ` + text + `, not "53300"`},
		{"an empty code", `{id: x, match: {errorCode: ""}, signature: s, classification: UNCLEAR}`, `patterns[1].match.errorCode ("x"): line 3: is empty; write some text or leave it out`},
		{"an unknown field of a header", "{id: x, match: {header: [{name: a, matches: b}]}, signature: s, classification: UNCLEAR}", `patterns[1].match.header[0] ("x"): line 3: has the unknown field "matches"; known are name, equals, contains, present`},
		{"an unknown field of a JSON field", "{id: x, match: {jsonField: [{path: /a, in: [b]}]}, signature: s, classification: UNCLEAR}", `patterns[1].match.jsonField[0] ("x"): line 3: has the unknown field "path"; known are pointer, in`},
		{"a header that is text", "{id: x, match: {header: [retry-after]}, signature: s, classification: UNCLEAR}", `patterns[1].match.header[0] ("x"): line 3: must be a mapping; {} is the empty one`},
		{"a number among the values", "{id: x, match: {jsonField: [{pointer: /a, in: [1]}]}, signature: s, classification: UNCLEAR}", `patterns[1].match.jsonField[0].in[0] ("x"): line 3: ` + text + `, not "1"`},
		{"a header without a condition, with the field's line", "id: x\n    match:\n      header:\n      - name: a\n    signature: s\n    classification: UNCLEAR", `patterns[1].match.header[0] ("x"): line 5: has 0 of equals, contains and present; write exactly one`},
		{"yes for true", "{id: x, match: {}, signature: s, classification: UNCLEAR, locked: yes}", `patterns[1].locked ("x"): line 3: must be true or false without quotes, not "yes"`},
		{"a date as signature", "{id: x, match: {}, signature: 2026-06-17, classification: UNCLEAR}", `patterns[1].signature ("x"): line 3: ` + text + `, not "2026-06-17"`},
		{"an anchor", "{id: &a x, match: {}, signature: s, classification: UNCLEAR}", `patterns[1].id ("x"): line 3: uses a YAML anchor or alias; write the value itself`},
		{"an alias", "{id: x, match: {}, signature: s, classification: UNCLEAR, note: *n}", `patterns[1].note ("x"): line 3: uses a YAML anchor or alias; write the value itself`},
		{"a value that Validate refuses, with its own line", "id: x\n    match:\n      bodyContains:\n      - abcd\n    signature: s\n    classification: BROKEN", `patterns[1].classification ("x"): line 8: "BROKEN" is not known; use one of TECHNICALLY_BROKEN, USER_SPECIFIC_TECHNICAL, USER_PERMISSION, USER_INPUT, INTERMITTENT, WORKING, UNCLEAR`},
		{"an element that Validate refuses, with the field's line", "id: x\n    match:\n      exceptionType:\n      - 'a.'\n    signature: s\n    classification: UNCLEAR", `patterns[1].match.exceptionType[0] ("x"): line 5: "a." names no type; write for example java.net.ConnectException`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := "patterns:\n  - {id: before, match: {}, signature: s, classification: UNCLEAR}\n  - " + tc.entry +
				"\n  - {id: after, match: {}, signature: s, classification: UNCLEAR}\n"
			if strings.Contains(tc.entry, "*n") {
				file = strings.Replace(file, "id: before", "id: before, note: &n text", 1)
			}
			entries, problems := Parse([]byte(file))
			var got []string
			for _, p := range problems {
				if !strings.HasPrefix(p.Path, "patterns[0]") {
					got = append(got, p.String())
				}
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for _, e := range entries {
				if e.Path == "patterns[1]" {
					t.Errorf("the faulty entry is in force: %+v", e)
				}
			}
			if last := len(entries) - 1; last < 0 || entries[last].Pattern.ID != "after" {
				t.Errorf("the entry behind the faulty one is lost: %v", entries)
			}
		})
	}
}

func TestParseRefusesFiles(t *testing.T) {
	const entry = "- {id: x, match: {}, signature: s, classification: UNCLEAR}\n"
	for _, tc := range []struct {
		name, file  string
		want        string
		wantEntries int
	}{
		{"an empty one", "", "patterns: is required; the file is empty", 0},
		{"only a comment", "# nothing\n", "patterns: is required; the file is empty", 0},
		{"no rules", "{}", "patterns: line 1: is required; list the rules there", 0},
		{"a list", entry, "line 1: must be a mapping; {} is the empty one", 0},
		{"rules that are no list", "patterns: {}", "patterns: line 1: must be a list of rules", 0},
		{"another field, which costs no rule", "version: 1\npatterns:\n" + entry, `line 1: has the unknown field "version"; known are patterns`, 1},
		{"a second document, which costs no rule", "patterns:\n" + entry + "---\npatterns: []\n", "line 3: begins another document; a rule file has only one", 1},
		{"a syntax error", "patterns: [", "line 1: is no YAML: did not find expected node content", 0},
		{"no UTF-8", "patterns: \xff\xfe", "is no YAML: invalid leading UTF-8 octet", 0},
		{"too large", strings.Repeat("#", maxFile+1), "has 1048577 bytes, at most 1048576 are allowed", 0},
		{"an unknown anchor with a long name", "patterns: *" + strings.Repeat("a", 5000), "is no YAML: unknown anchor '" + strings.Repeat("a", 184) + "…", 0},
		{"too many rules", "patterns:\n" + strings.Repeat(entry, 1002), "patterns[1000]: line 1002: is one entry too many; at most 1000 are allowed, the rest is left out", 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entries, problems := Parse([]byte(tc.file))
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(entries) != tc.wantEntries {
				t.Errorf("%d entries, want %d", len(entries), tc.wantEntries)
			}
		})
	}
}

// TestParseIsBounded: files that are made to cost much. That they cost little shows by the test's ending at all.
func TestParseIsBounded(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	for tc, file := range map[string]string{
		"aliases of aliases": bomb + "patterns: *a29\n",
		"deep flow":          strings.Repeat("[", maxFile),
		"deep blocks":        strings.Repeat("- ", maxFile/2),
		"deep keys":          strings.Repeat("? ", maxFile/2),
		"many bad entries":   "patterns:\n" + strings.Repeat("-\n", 500_000),
		"many texts":         "patterns:\n- match: {bodyContains: [" + strings.Repeat(",a", 500_000) + "]}",
		"many fields":        "patterns:\n- {" + strings.Repeat("a,", 500_000) + "}",
		"long text":          "patterns:\n- id: " + strings.Repeat("x", maxFile-100),
	} {
		t.Run(tc, func(t *testing.T) {
			entries, problems := Parse([]byte(file))
			if len(entries) > 0 || len(problems) == 0 || len(problems) > maxProblems {
				t.Errorf("%d entries, %d problems", len(entries), len(problems))
			}
			for _, p := range problems {
				if n := len(p.String()); n > 2048 {
					t.Errorf("a problem of %d bytes", n)
				}
			}
		})
	}
}

// TestSampleOfTheSpecification: the file that §4.2 prints is read as it stands there.
func TestSampleOfTheSpecification(t *testing.T) {
	file, err := os.ReadFile("testdata/specification-sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, problems := Parse(file)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	rules := compiled(t, Bundled(), Layer{Name: "tenant", Entries: entries})
	if got, want := len(rules.Entries()), len(Bundled().Entries); got != want {
		t.Errorf("%d rules in force, want %d: each of the sample's replaces a bundled one", got, want)
	}
}
