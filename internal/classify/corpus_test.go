package classify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

// failure is one item of a corpus: what a runtime reports for a failed call, and the verdict that its evidence
// allows.
type failure struct {
	ID             string                  `yaml:"id"`
	Rule           string                  `yaml:"rule"`
	HTTPStatus     *int32                  `yaml:"httpStatus"`
	Headers        map[string]string       `yaml:"headers"`
	Body           string                  `yaml:"body"`
	Message        string                  `yaml:"message"`
	ErrorCode      string                  `yaml:"errorCode"`
	ExceptionType  string                  `yaml:"exceptionType"`
	ExceptionTypes []string                `yaml:"exceptionTypes"`
	Host           string                  `yaml:"host"`
	EndpointHost   string                  `yaml:"endpointHost"`
	Want           v1alpha1.Classification `yaml:"expectedClassification"`
}

func (f failure) report() (Call, v1alpha1.ToolError) {
	e := v1alpha1.ToolError{HTTPStatus: f.HTTPStatus, Body: f.Body, Message: f.Message, ErrorCode: f.ErrorCode, Host: f.Host,
		ExceptionTypes: texts(f.ExceptionTypes...)}
	if f.ExceptionType != "" {
		e.ExceptionTypes = append(texts(f.ExceptionType), e.ExceptionTypes...)
	}
	for name, value := range f.Headers {
		if e.Headers == nil {
			e.Headers = map[string]v1alpha1.HeaderValue{}
		}
		e.Headers[name] = v1alpha1.HeaderValue(value)
	}
	return Call{Tool: "tool", EndpointHost: f.EndpointHost}, e
}

// TestEachBundledRuleHasACase: a small report hits each rule, so none is shadowed by those before it.
func TestEachBundledRuleHasACase(t *testing.T) {
	data, err := os.ReadFile("testdata/rules_cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []failure
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	rules := compiled(t, Bundled())
	hit := map[string]bool{}
	for _, tc := range cases {
		call, e := tc.report()
		if got := rules.Classify(call, &e, testNow).RuleID; got != tc.Rule {
			t.Errorf("the case of %s hits %s", tc.Rule, got)
		}
		hit[tc.Rule] = true
	}
	for _, entry := range rules.Entries() {
		if !hit[string(entry.Pattern.ID)] {
			t.Errorf("%s has no case in testdata/rules_cases.yaml", entry.Pattern.ID)
		}
	}
}

// kind groups failures by channel: http and its status, mcp, or the library's language.
func (f failure) kind() string {
	parts := strings.SplitN(f.ID, "-", 3)
	if parts[0] == "http" {
		return "http " + parts[1]
	}
	return parts[0]
}

// score counts the verdicts on one kind of failure.
type score struct{ items, decidable, right, wrong, sent int }

func readCorpus(t *testing.T, path string) []failure {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var corpus []failure
	if err := yaml.Unmarshal(data, &corpus); err != nil {
		t.Fatal(err)
	}
	return corpus
}

// TestCorpus: on failures from public bug reports no definite verdict is wrong, also where no report states an
// error code, and at least 90 % of what the evidence decides is decided.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/failures*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		corpus := readCorpus(t, file)
		t.Run(filepath.Base(file), func(t *testing.T) {
			total := judge(t, corpus)
			if total.right*10 < total.decidable*9 {
				t.Errorf("%d of %d decidable failures are decided, want at least 90 %%", total.right, total.decidable)
			}
		})
		t.Run(filepath.Base(file)+" without error codes", func(t *testing.T) {
			for i := range corpus {
				corpus[i].ErrorCode = ""
			}
			judge(t, corpus)
		})
	}
}

// TestRedactionChangesNoVerdict: a report loses its secrets before it is classified, and nothing that rules look for. No
// report of the corpora holds a secret, so nothing is to go at all but the values of headers that always are secret.
func TestRedactionChangesNoVerdict(t *testing.T) {
	files, err := filepath.Glob("testdata/*s*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := compiled(t, Bundled())
	reports := 0
	for _, file := range files {
		if filepath.Base(file) == "specification-sample.yaml" {
			continue
		}
		for _, f := range readCorpus(t, file) {
			reports++
			call, e := f.report()
			want, before := rules.Classify(call, &e, testNow), e.DeepCopy()
			changed := redact.Error(&e)
			if got := rules.Classify(call, &e, testNow); got.RuleID != want.RuleID || got.Wait != want.Wait || got.Signature != want.Signature {
				t.Errorf("%s: %s of %s, and %s of %s without secrets: %+v", f.ID+f.Rule, want.RuleID, want.Wait, got.RuleID, got.Wait, e)
			}
			if changed {
				t.Errorf("%s holds no secret, and was changed (-before +after):\n%s", f.ID+f.Rule, cmp.Diff(before, &e))
			}
		}
	}
	t.Logf("%d reports", reports)
}

// judge classifies a corpus, logs the figures by kind, and fails for each definite verdict that is wrong.
func judge(t *testing.T, corpus []failure) score {
	t.Helper()
	rules := compiled(t, Bundled())
	kinds := map[string]*score{"total": {}}
	for _, f := range corpus {
		if kinds[f.kind()] == nil {
			kinds[f.kind()] = &score{}
		}
		call, e := f.report()
		got := rules.Classify(call, &e, testNow)
		for _, s := range []*score{kinds[f.kind()], kinds["total"]} {
			s.count(f.Want, got.Class)
		}
		switch got.Class {
		case f.Want:
		case v1alpha1.Unclear:
			t.Logf("sent to the model: %s is %s, and %s does not say so", f.ID, f.Want, got.RuleID)
		default:
			t.Errorf("%s: %s by %s, want %s", f.ID, got.Class, got.RuleID, f.Want)
		}
	}
	t.Log("\n" + tableOf(kinds))
	return *kinds["total"]
}

func (s *score) count(want, got v1alpha1.Classification) {
	s.items++
	decidable := want != v1alpha1.Unclear
	switch {
	case decidable && got == want:
		s.right++
	case got != want && got != v1alpha1.Unclear:
		s.wrong++
	case decidable:
		s.sent++
	}
	if decidable {
		s.decidable++
	}
}

func tableOf(kinds map[string]*score) string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	out := fmt.Sprintf("%-10s %5s %9s %5s %5s %13s\n", "kind", "items", "decidable", "right", "wrong", "sent to model")
	for _, name := range names {
		s := kinds[name]
		out += fmt.Sprintf("%-10s %5d %9d %5d %5d %13d\n", name, s.items, s.decidable, s.right, s.wrong, s.sent)
	}
	return out
}
