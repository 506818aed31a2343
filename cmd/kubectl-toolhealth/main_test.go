package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files anew")

// examples is where the files are that help texts and documentation speak of.
const examples = "../../docs/examples"

// result is what a command line does.
type result struct {
	Code     int
	Out, Err string
}

// plugin runs a command line as kubectl would.
func plugin(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// patterns runs a command line of patterns.
func patterns(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return plugin(t, stdin, append([]string{"patterns"}, args...)...)
}

// file writes a file of the test and returns its name.
func file(t *testing.T, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestGolden: what each verb prints on the example files.
func TestGolden(t *testing.T) {
	golden, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(examples)
	for name, tc := range map[string]struct {
		args string
		code int
	}{
		"lint-text":         {"lint shop-draft.yaml shop-rules.yaml", 1},
		"lint-json":         {"lint -o json shop-draft.yaml", 1},
		"lint-json-fine":    {"lint -o json shop-rules.yaml", 0},
		"lint-other-kinds":  {"lint ../../config/samples/tool.yaml ../../config/samples/errorpatternset.yaml", 0},
		"test-failed":       {"test shop-tests.yaml", 1},
		"test-passed":       {"test shop-tests.yaml --patterns shop-rules.yaml", 0},
		"classify-table":    {"classify -f shop-reports.yaml --patterns shop-rules.yaml", 0},
		"classify-json":     {"classify -f shop-reports.yaml --patterns shop-rules.yaml -o json", 0},
		"classify-yaml":     {"classify -f shop-reports.yaml --patterns shop-rules.yaml -o yaml", 0},
		"classify-a-job":    {"classify -f ../../config/samples/diagnosisjob.yaml", 0},
		"patterns-bad":      {"classify -f shop-reports.yaml --patterns shop-draft.yaml", 2},
		"explain-no-report": {"explain -f shop-reports.yaml --id nobody", 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := patterns(t, "", strings.Fields(tc.args)...)
			if r.Code != tc.code {
				t.Errorf("exit code %d, want %d", r.Code, tc.code)
			}
			got := "$ kubectl toolhealth patterns " + tc.args + "\n" + r.Out
			if r.Err != "" {
				got += "-- on the standard error:\n" + r.Err
			}
			path := filepath.Join(golden, name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExamplesOfHelpTextsRun: every example of an offline command, in the directory of the example files.
func TestExamplesOfHelpTextsRun(t *testing.T) {
	t.Chdir(examples)
	var lines []string
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if _, asksACluster := sub.Annotations[clusterAnnotation]; !asksACluster {
				lines = append(lines, strings.Split(sub.Example, "\n")...)
			}
			collect(sub)
		}
	}
	collect(newRoot(&streams{}))
	ran := 0
	for _, line := range lines {
		line = strings.TrimSpace(line)
		stdin := ""
		if _, after, piped := strings.Cut(line, " | "); piped {
			data, err := os.ReadFile("shop-rules.yaml")
			if err != nil {
				t.Fatal(err)
			}
			line, stdin = after, string(data)
		}
		args, ok := strings.CutPrefix(line, "kubectl toolhealth ")
		if !ok {
			continue
		}
		ran++
		if r := plugin(t, stdin, strings.Fields(args)...); r.Code != 0 || r.Err != "" {
			t.Errorf("%s: exit code %d, %s", line, r.Code, r.Err)
		}
	}
	if ran < 8 {
		t.Errorf("%d examples were found", ran)
	}
}

// TestEveryCommandHasHelp: with the exit codes, and with an example where it does something.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, verb := range []string{"lint", "test", "classify", "explain", "effective"} {
		r := patterns(t, "", verb, "--help")
		for _, want := range []string{exitCodes, "Examples:", "kubectl toolhealth patterns " + verb} {
			if !strings.Contains(r.Out, want) {
				t.Errorf("the help of %s lacks %q", verb, want)
			}
		}
		if r.Code != 0 || r.Err != "" {
			t.Errorf("the help of %s: exit code %d, %s", verb, r.Code, r.Err)
		}
	}
	for _, args := range [][]string{nil, {"patterns"}} {
		if r := plugin(t, "", args...); r.Code != 0 || !strings.Contains(r.Out, "Available Commands:") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := plugin(t, "", "completion", shell); r.Code != 0 || len(r.Out) < 1000 {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, r.Code, len(r.Out), r.Err)
		}
	}
	if r := plugin(t, "", cobra.ShellCompRequestCmd, "patterns", "classify", "-o", ""); !strings.HasPrefix(r.Out, "table\njson\nyaml\n") {
		t.Errorf("formats are completed by %q", r.Out)
	}
}

// TestWrongUsage: exit code 2, a message, and nothing on the standard output.
func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ args, want string }{
		{"bogus", `unknown command "bogus"`},
		{"patterns bogus", `unknown command "bogus"`},
		{"patterns lint", "name at least one file"},
		{"patterns test", "name at least one file"},
		{"patterns classify", "name the file of reports"},
		{"patterns explain", "name the file of reports"},
		{"patterns classify x", "unexpected argument x"},
		{"patterns lint --bogus x", "unknown flag: --bogus; see 'kubectl toolhealth patterns lint --help'"},
		{"patterns lint -o yaml x", "-o yaml is not known; use text, json"},
		{"patterns classify -o xml -f x", "-o xml is not known; use table, json, yaml"},
		{"patterns effective x", `unknown command "x"`},
		{"patterns lint " + dir + "/none", "no such file"},
		{"patterns lint " + dir, "is a directory"},
		{"patterns test " + dir + "/none", "no such file"},
		{"patterns classify -f " + dir + "/none", "no such file"},
		{"patterns classify -f - --patterns " + dir + "/none", "no such file"},
		{"patterns classify -f - --now yesterday", "--now yesterday is no time"},
		{"patterns classify -f - --patterns -", "the standard input can be named only once"},
		{"patterns effective --kubeconfig " + dir + "/none", "no such file"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			r := plugin(t, "patterns: [{id: x, match: {}, signature: s, classification: UNCLEAR}]", strings.Fields(tc.args)...)
			if r.Code != exitUnusable || r.Out != "" || !strings.HasPrefix(r.Err, "error: ") || !strings.Contains(r.Err, tc.want) {
				t.Errorf("%+v, want exit code 2 and %q", r, tc.want)
			}
		})
	}
}

// failing is a reader and a writer that fails.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, os.ErrClosed }
func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// endless is an input that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestAnInputThatNeverEnds(t *testing.T) {
	for _, args := range [][]string{{"lint", "-"}, {"test", "-"}, {"classify", "-f", "-"}, {"explain", "-f", "-"}} {
		var errOut bytes.Buffer
		code := run(t.Context(), append([]string{"patterns"}, args...), endless{}, &bytes.Buffer{}, &errOut)
		if want := "<stdin> has more than 16777216 bytes; split it"; code != exitUnusable || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, errOut.String())
		}
	}
}

func TestStreamsThatFail(t *testing.T) {
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"patterns", "lint", "-"}, failing{}, &bytes.Buffer{}, &errOut); code != exitUnusable {
		t.Errorf("an input that fails: exit code %d, %s", code, errOut.String())
	}
	for _, args := range [][]string{{"lint", "shop-draft.yaml"}, {"classify", "-f", "shop-reports.yaml"}} {
		args[len(args)-1] = filepath.Join(examples, args[len(args)-1])
		if code := run(t.Context(), append([]string{"patterns"}, args...), strings.NewReader(""), failing{}, &errOut); code != exitUnusable {
			t.Errorf("%v to an output that fails: exit code %d", args, code)
		}
	}
}

// escape is what a terminal would act on.
var escape = regexp.MustCompile(`[^\P{Cc}\n]`)

// TestHostileInput: every verb answers soon, does not crash, and shows a terminal nothing that it would act on.
func TestHostileInput(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for i := 1; i < 30; i++ {
		n := string(rune('a' + i%26))
		bomb += n + ": &" + n + " [" + strings.Repeat("*a0, ", 9) + "*a0]\n"
	}
	inputs := map[string]string{
		"nothing":         "",
		"null":            "null\n---\n~\n",
		"text":            "hello",
		"binary":          strings.Repeat("\x00\x01\xfe\xff", 10_000),
		"no UTF-8":        "- body: \"\xff\xfe\"\n",
		"escapes":         "- id: \"\\e[2J\\x07\"\n  bo\\e[31mdy: \"\\e]0;x\\x07\"\n  message: x\n",
		"escapes as rule": "patterns: [{id: \"\\e[2J\", \"\\e[31m\": 1}]\n",
		"escapes as kind": "{kind: \"\\e[2J\", apiVersion: v1, metadata: {name: \"\\e[31m\"}}\n",
		"aliases":         bomb + "patterns: *a0\ncases: *a0\nitems: *b\n",
		"an alias":        "- &x {id: a, message: b}\n- *x\n",
		"merge":           "- {<<: {id: a}, message: b}\n",
		"deep":            strings.Repeat("[", 200_000),
		"deep but closed": strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"deep reports":    strings.Repeat("{items: [", 3000) + strings.Repeat("]}", 3000),
		"wide":            "patterns: [" + strings.Repeat("1,", 100_000) + "]",
		"many reports":    strings.Repeat("- {id: a, body: b}\n", 2000),
		"huge":            strings.Repeat("# nothing but a comment\n", 800_000),
		"huge body":       "- {id: a, body: " + strings.Repeat("x", 2<<20) + "}\n",
		"JSON":            `[{"id": "a", "httpStatus": 401}]`,
		"XML":             "<?xml version=\"1.0\"?><a/>",
		"a tag":           "- !!python/object:os.system {message: x}\n",
		"a wrong type":    "- {httpStatus: many, headers: [], body: {a: 1}}\n",
		"huge numbers":    "- {id: a, httpStatus: 99999999999999999999}\n- {httpStatus: -5}\n",
		"binary scalars":  "- {id: !!binary AP8=, body: !!binary AP8=}\n",
	}
	verbs := map[string][]string{"lint": {"lint", "-"}, "test": {"test", "-"}, "classify": {"classify", "-f", "-"}, "explain": {"explain", "-f", "-"}}
	for name, input := range inputs {
		for verb, args := range verbs {
			if verb == "explain" && name == "many reports" {
				continue // Explains every one, at length.
			}
			t.Run(verb+" of "+name, func(t *testing.T) {
				start := time.Now()
				r := patterns(t, input, args...)
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("took %s", took)
				}
				if r.Code < exitFine || r.Code > exitUnusable || (r.Code == exitUnusable) != (r.Err != "") {
					t.Errorf("exit code %d, %s", r.Code, r.Err)
				}
				if found := escape.FindString(r.Out + r.Err); found != "" {
					t.Errorf("the output has %q", found)
				}
				if len(r.Err) > 2*maxError {
					t.Errorf("%d bytes of messages", len(r.Err))
				}
			})
		}
	}
}

// lockedBuffer is an output that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits until a text was written.
func (b *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(b.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %q: %s", text, b)
		}
	}
}
