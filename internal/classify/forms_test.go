package classify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// forms are other ways in which the same failure may be reported. Each says whether it applies to a failure.
var forms = map[string]func(f failure) (failure, bool){
	"without an error code": func(f failure) (failure, bool) {
		f.ErrorCode = ""
		return f, true
	},
	"headers in capitals": func(f failure) (failure, bool) {
		f.Headers = renamed(f.Headers, strings.ToUpper)
		return f, len(f.Headers) > 0
	},
	"headers in small letters": func(f failure) (failure, bool) {
		f.Headers = renamed(f.Headers, strings.ToLower)
		return f, len(f.Headers) > 0
	},
	"body indented": func(f failure) (failure, bool) {
		var out bytes.Buffer
		ok := json.Indent(&out, []byte(f.Body), "", "  ") == nil
		f.Body = out.String()
		return f, ok
	},
	"body compact": func(f failure) (failure, bool) {
		var out bytes.Buffer
		ok := json.Compact(&out, []byte(f.Body)) == nil
		f.Body = out.String()
		return f, ok
	},
	"wrapped into the result of a tool": func(f failure) (failure, bool) {
		text := strings.TrimSpace("Error: " + f.Message + " " + f.Body)
		if f.HTTPStatus != nil {
			text = fmt.Sprintf("Error: %d %s", *f.HTTPStatus, f.Body)
		}
		ok := int32(200)
		wrapped := failure{ID: f.ID, Want: f.Want, HTTPStatus: &ok}
		wrapped.Body = `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":` + quoted(text) + `}]}}`
		return wrapped, f.Body != "" && (f.HTTPStatus == nil || *f.HTTPStatus >= 400)
	},
	"message and body swapped": func(f failure) (failure, bool) {
		f.Message, f.Body = f.Body, f.Message
		return f, f.Body != f.Message
	},
}

func renamed(headers map[string]string, rename func(string) string) map[string]string {
	out := map[string]string{}
	for name, value := range headers {
		out[rename(name)] = value
	}
	return out
}

// TestNoFormOfAReportMakesAVerdictWrong: what is lost when the same failure is reported otherwise may send it to the
// model, and never decides it wrongly.
func TestNoFormOfAReportMakesAVerdictWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/failures*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	rules := compiled(t, Bundled())
	for form, change := range forms {
		t.Run(form, func(t *testing.T) {
			changed := 0
			for _, file := range files {
				for _, f := range readCorpus(t, file) {
					other, ok := change(f)
					if !ok {
						continue
					}
					before, after := verdictOn(rules, f), verdictOn(rules, other)
					if before.Class != after.Class {
						changed++
					}
					if after.Class != v1alpha1.Unclear && after.Class != f.Want {
						t.Errorf("%s: %s by %s, want %s or UNCLEAR", f.ID, after.Class, after.RuleID, f.Want)
					}
				}
			}
			t.Logf("%d verdicts differ from those on the report as it was", changed)
		})
	}
}

func verdictOn(rules *Rules, f failure) Verdict {
	call, e := f.report()
	return rules.Classify(call, &e, testNow)
}

// TestNoTextOfAResultTakesAToolDown: what a tool writes may be written by whoever wrote what it read, so no text by
// which a rule marks tools unavailable does so in the result of a tool.
func TestNoTextOfAResultTakesAToolDown(t *testing.T) {
	rules := compiled(t, Bundled())
	checked := 0
	for _, entry := range rules.Entries() {
		p := entry.Pattern
		if p.HealthAction != v1alpha1.HealthActionMarkUnavailable {
			continue
		}
		for _, word := range slices.Concat(p.Match.BodyContains, p.Match.MessageContains) {
			text := strings.Join(append([]string{string(word)}, stringsOf(p.Match.BodyContainsAll)...), " token ")
			for _, name := range []string{"a tool's result", "a bare result"} {
				checked++
				e := envelopes[name](v1alpha1.ToolError{}, text)
				got := rules.Classify(Call{Tool: "tool"}, &e, testNow)
				if got.Action == v1alpha1.HealthActionMarkUnavailable {
					t.Errorf("%q of %s, in %s, takes the tool down by %s", word, p.ID, name, got.RuleID)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d texts were tried", checked)
	}
}

func stringsOf(texts []v1alpha1.Substring) (out []string) {
	for _, text := range texts {
		out = append(out, string(text))
	}
	return out
}
