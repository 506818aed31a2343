package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// reference is the page that lists every command, made from their help texts.
const reference = "../../docs/cli.md"

// TestCommandReference: the page is current. With -args -update it is written anew (make generate).
func TestCommandReference(t *testing.T) {
	var page bytes.Buffer
	page.WriteString("# Commands of `kubectl toolhealth`\n\nMade from the help texts by `make generate`. Install: `go install ./cmd/kubectl-toolhealth`.\n\n")
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		c.DisableAutoGenTag = true
		c.InitDefaultHelpCmd()
		var one bytes.Buffer
		if err := doc.GenMarkdownCustom(c, &one, func(string) string { return "#" }); err != nil {
			t.Fatal(err)
		}
		text, _, _ := bytes.Cut(one.Bytes(), []byte("### SEE ALSO"))
		page.Write(bytes.TrimSpace(text))
		page.WriteString("\n\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
				write(sub)
			}
		}
	}
	write(newRoot(&streams{}))
	got := append(bytes.TrimSpace(page.Bytes()), '\n')
	if *update {
		if err := os.WriteFile(reference, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not current (-have +want):\n%s", reference, diff)
	}
}
