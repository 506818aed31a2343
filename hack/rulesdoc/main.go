// Command rulesdoc keeps docs/rules.md true: between its markers it puts the bundled rules, the example files, and what
// the commands of the examples really print.
//
//	<!-- begin bundled -->                  the bundled rules, as tables
//	<!-- begin file shop-rules.yaml -->     a file of docs/examples
//	<!-- begin run kubectl toolhealth … --> a command line, run in docs/examples, and its output
//
// Each block ends with <!-- end -->.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "rulesdoc:", err)
		os.Exit(1)
	}
}

// generate writes docs/rules.md anew, in the repository at root.
func generate(root string) error {
	file := filepath.Join(root, "docs", "rules.md")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := rendered(root, string(before))
	if err != nil || after == string(before) {
		return err
	}
	return os.WriteFile(file, []byte(after), 0o644) //nolint:gosec // Documentation, for everybody to read.
}

// rendered is a text with its blocks filled anew.
func rendered(root, text string) (string, error) {
	dir, err := os.MkdirTemp("", "rulesdoc-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.Command("go", "build", "-o", dir, "./cmd/kubectl-toolhealth") //nolint:gosec // Into a directory of our own.
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	b := blocks{examples: filepath.Join(root, "docs", "examples"), rules: filepath.Join(root, "internal", "classify", "error-patterns.yaml"),
		plugin: filepath.Join(dir, "kubectl-toolhealth")}
	return b.fill(text)
}

const begin, end = "<!-- begin ", "<!-- end -->"

// blocks knows what stands between the markers.
type blocks struct {
	// examples is the directory of the example files, rules the file of the bundled rules, plugin the built command.
	examples, rules, plugin string
}

func (b blocks) fill(text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, begin)
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		what, rest, ok := strings.Cut(rest, " -->\n")
		if !ok {
			return "", fmt.Errorf("a marker without an end: %.60q", rest)
		}
		old, rest, ok := strings.Cut(rest, end)
		if !ok || strings.Contains(old, begin) {
			return "", fmt.Errorf("the block %q has no %s", what, end)
		}
		content, err := b.block(what)
		if err != nil {
			return "", fmt.Errorf("block %q: %w", what, err)
		}
		out.WriteString(begin + what + " -->\n" + content + end)
		text = rest
	}
}

func (b blocks) block(what string) (string, error) {
	kind, argument, _ := strings.Cut(what, " ")
	switch kind {
	case "bundled":
		data, err := os.ReadFile(b.rules)
		if err != nil {
			return "", err
		}
		return tables(data)
	case "file":
		data, err := os.ReadFile(filepath.Join(b.examples, argument)) //nolint:gosec // From our own document.
		return "`" + argument + "`:\n\n```yaml\n" + string(data) + "```\n", err
	case "run":
		out, err := b.run(argument)
		return "```console\n$ " + argument + "\n" + out + "```\n", err
	default:
		return "", errors.New("is neither bundled, file nor run")
	}
}

// run is what a command line prints, and its exit code where that is not 0.
func (b blocks) run(line string) (string, error) {
	// kubectl calls a plugin just so.
	c := exec.Command("bash", "-c", `kubectl() { "$PLUGIN" "${@:2}"; }; `+line) //nolint:gosec // From our own document.
	c.Dir = b.examples
	c.Env = append(os.Environ(), "PLUGIN="+b.plugin)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprintf("%s[exit code %d]\n", out, exit.ExitCode()), nil
	}
	return string(out), err
}
