package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubectl runs kubectl as a user, with a manifest on its standard input, and returns all that it prints.
func (s *stage) kubectl(ctx context.Context, user, manifest string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(s.env.Assets, "kubectl"), args...) //nolint:gosec // G204: our own arguments.
	command.Stdin = strings.NewReader(manifest)
	// No flag before the name of a plugin.
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig(user), "PATH="+s.path()+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

// show prints a command and its output as a terminal does.
func show(user string, args []string, out string) {
	fmt.Printf("  %s$ kubectl %s\n", user, quoted(args))
	for line := range strings.Lines(out) {
		fmt.Printf("    %s\n", strings.TrimRight(line, " \n"))
	}
}

// quoted joins arguments as a shell would need them.
func quoted(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if strings.ContainsAny(arg, " {}[]*$'\"|?@") {
			arg = "'" + arg + "'"
		}
		b.WriteString(arg)
	}
	return b.String()
}

// expect runs kubectl, shows command and output, and fails unless the output holds all that is wanted.
func (s *stage) expect(ctx context.Context, user, manifest string, wants []string, args ...string) (string, error) {
	out, err := s.kubectl(ctx, user, manifest, args...)
	show(user, args, out)
	if err != nil && len(wants) == 0 { // A refused report is an error for kubectl, and what is wanted.
		return out, fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			return out, fmt.Errorf("kubectl %s should show %q", strings.Join(args, " "), want)
		}
	}
	return out, nil
}
