package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// TestTheDocumentIsCurrent: what docs/rules.md shows is what the rules are and what the commands print.
func TestTheDocumentIsCurrent(t *testing.T) {
	root := testenv.Path()
	text, err := os.ReadFile(filepath.Join(root, "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := rendered(root, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/rules.md is not current: run 'make generate' (-want +got):\n%s", diff)
	}
}

func TestBlocksThatCannotBeFilled(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no end of the marker": {"<!-- begin bundled", "a marker without an end"},
		"no end of the block":  {"<!-- begin bundled -->\n", "has no <!-- end -->"},
		"a block in a block":   {"<!-- begin bundled -->\n<!-- begin bundled -->\n<!-- end -->", "has no <!-- end -->"},
		"an unknown block":     {"<!-- begin poem -->\n<!-- end -->", "is neither bundled, file nor run"},
		"a file that is gone":  {"<!-- begin file nowhere.yaml -->\n<!-- end -->", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := (blocks{}).fill(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(dir, "plugin")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\necho called with \"$@\"\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := blocks{examples: dir, plugin: plugin}.fill("one\n<!-- begin file a.yaml -->\nold\n<!-- end -->\n" +
		"<!-- begin run kubectl toolhealth x; cat a.yaml -->\n<!-- end -->\n<!-- begin run kubectl toolhealth y -->\n<!-- end -->\nlast\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "one\n<!-- begin file a.yaml -->\n`a.yaml`:\n\n```yaml\na: 1\n```\n<!-- end -->\n" +
		"<!-- begin run kubectl toolhealth x; cat a.yaml -->\n```console\n$ kubectl toolhealth x; cat a.yaml\ncalled with x\na: 1\n```\n<!-- end -->\n" +
		"<!-- begin run kubectl toolhealth y -->\n```console\n$ kubectl toolhealth y\ncalled with y\n[exit code 3]\n```\n<!-- end -->\nlast\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	got, err := tables([]byte(`patterns:
  # ---- 1. First things ----
  - id: a
    match: {httpStatus: 200, header: [{name: X, present: false}, {name: Y, equals: "1"}], bodyContains: ["a|b` + "`" + `c", "<br>"]}
    signature: s
    classification: USER_INPUT
    cooldown: PT5M
    healthAction: none
    note: See <RFC> 1 | *2*.
  # ---- 2. The rest ------
  - id: b
    match: {}
    signature: b
    fingerprint: true
    classification: UNCLEAR
`))
	if err != nil {
		t.Fatal(err)
	}
	const head = "\n| Rule | Matches | Means | Cooldown | Health | Why |\n|---|---|---|---|---|---|\n"
	want := "2 rules, in the order in which they are tried.\n\n#### 1. First things\n" + head +
		"| `a`<br>`s` | httpStatus `200`<br>header `X present: false`<br>header `Y = 1`<br>bodyContains ``a\\|b`c``, `<br>` | USER_INPUT | PT5M | none | See &lt;RFC> 1 \\| \\*2\\*. |\n" +
		"\n#### 2. The rest\n" + head + "| `b`<br>`b-<fingerprint>` | every error | UNCLEAR |  |  |  |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if _, err := tables([]byte("patterns: 1")); err == nil {
		t.Error("a file with a fault makes tables")
	}
}
