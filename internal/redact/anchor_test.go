package redact

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/internal/redact/rules"
)

func TestAnchors(t *testing.T) {
	for _, tc := range []struct {
		name, expression string
		want             anchor
	}{
		{"a prefix", `ghp_[0-9]{4}`, anchor{texts: []string{"ghp_"}, after: 4*4 + 4}},
		{"a prefix at the boundary of a word", `\b(SK[0-9]{2})`, anchor{texts: []string{"sk"}, after: 2*4 + 2, boundary: true}},
		{"prefixes that begin alike", `(?:fo1_\d|fm1[ar]_\d|fm2_\d)`, anchor{texts: []string{"fo1_", "fm1a_", "fm1r_", "fm2_"}, after: -2}},
		{"the longest text counts, not the first", `a[0-9]{3}secret`, anchor{texts: []string{"secret"}, before: 4 + 3, after: 6 * 4}},
		{"what may be absent gives no text", `(?:abc)?x\d`, anchor{texts: []string{"abcx", "x"}, after: -2}},
		{"what follows part of an alternative is not joined to it", `(?:a[0-9]+|b)cde`, anchor{texts: []string{"a", "b"}, after: unbounded}},
		{"no text behind what has no bound", `\d+abcdef`, anchor{}},
		{"no text at all", `\d{3}\w{4}`, anchor{}},
		{"a longer text is covered by one that begins it", `(?:ab|abc)\d`, anchor{texts: []string{"ab"}, after: -2}},
	} {
		got, err := anchorOf(tc.expression)
		if err != nil {
			t.Fatal(err)
		}
		if tc.want.after == -2 { // Not what this is about.
			got.after = -2
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(anchor{}), cmp.Transformer("none", func(s []string) string { return strings.Join(s, "|") })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestRulesThatWouldBeTriedEverywhereAreRefused(t *testing.T) {
	for _, expression := range []string{`\d{16}`, `x\d+`, `(`} {
		if _, err := newEngine([]rules.Rule{{ID: "x", Expression: expression}}); err == nil {
			t.Errorf("%s is accepted", expression)
		}
	}
}

func TestFinder(t *testing.T) {
	f := newFinder([]string{"ab", "abc", "token", "é!"})
	var got []string
	f.find("xABCab TOKENab É! é!a", func(id, at int) { got = append(got, f.texts[id]+"@"+string(rune('a'+at))) })
	want := []string{"ab@b", "abc@b", "ab@e", "token@h", "ab@m", "é!@t"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, s := range []string{"", "a", "to"} {
		f.find(s, func(id, _ int) { t.Errorf("%q is found in %q", f.texts[id], s) })
	}
}

// The table names its origin, and the notice gives the licence of the same version.
func TestNoticeBelongsToTheTable(t *testing.T) {
	table, err := os.ReadFile("rules/gitleaks.go")
	if err != nil {
		t.Fatal(err)
	}
	notice, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	origin := regexp.MustCompile(`github\.com/zricethezav/gitleaks/v8 v[0-9.]+[0-9]`).FindString(string(table))
	if origin == "" || !strings.Contains(string(notice), origin) || !strings.Contains(string(notice), "Permission is hereby granted") {
		t.Errorf("the notice does not fit the table from %q", origin)
	}
}
