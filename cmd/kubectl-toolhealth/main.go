// Command kubectl-toolhealth is the kubectl plugin of Agrajag: on a developer's machine and in a pipeline, without a
// cluster, it checks, tests and tries the rules that classify tool errors, and it shows those that a cluster uses.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The exit codes, which a pipeline acts on.
const (
	exitFine     = 0 // Everything is as it should be.
	exitFindings = 1 // There are findings, or failed cases.
	exitUnusable = 2 // The usage is wrong, or an input cannot be read.
)

// errFindings ends a command that did its work and found something, which it has told already.
var errFindings = errors.New("there are findings")

func main() {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	buffered := bufio.NewWriter(out)
	command := newRoot(&streams{in: in, out: buffered, err: errOut, terminal: isTerminal(out)})
	command.SetArgs(append([]string{}, args...)) // Nil would be the arguments of the process.
	command.SetIn(in)
	command.SetOut(buffered)
	command.SetErr(errOut)
	ran, err := command.ExecuteContextC(ctx)
	if flushed := buffered.Flush(); err == nil || errors.Is(err, errFindings) {
		err = errors.Join(flushed, err)
		if flushed == nil && err != nil {
			return exitFindings
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "error:", plain(err.Error(), maxError)+refused(ran, err))
		return exitUnusable
	}
	return exitFine
}

// isTerminal reports whether a person reads the output as it is written.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
