package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/restapi"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// block is a fenced part of a page, and the one that follows it.
type block struct{ lang, code, prints string }

// blocksOf returns the fenced parts of a page in order. What a program prints stands below it as text.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(testenv.Path("docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for rest := string(data); ; {
		_, fenced, found := strings.Cut(rest, "\n```")
		if !found {
			return blocks
		}
		lang, body, _ := strings.Cut(fenced, "\n")
		code, after, closed := strings.Cut("\n"+body, "\n```")
		if !closed {
			t.Fatalf("a block of %s is not closed", page)
		}
		code, rest = strings.TrimPrefix(code, "\n")+"\n", after
		if lang == "text" {
			blocks[len(blocks)-1].prints = code
			continue
		}
		blocks = append(blocks, block{lang: lang, code: code})
	}
}

// joined returns what the blocks of a language hold, and what they print.
func joined(blocks []block, lang string) (code, prints string) {
	for _, b := range blocks {
		if b.lang == lang {
			code, prints = code+b.code+"\n", prints+b.prints
		}
	}
	return code, prints
}

// page is a project in which the programs of a page run, as the service account that the page makes.
type page struct {
	project
	env []string
}

// newPage makes a project with the page's objects, and what its programs find in their environment.
func newPage(t *testing.T, o options, blocks []block) page {
	t.Helper()
	p := page{project: newProject(t)}
	manifest, _ := joined(blocks, "yaml")
	p.must(env.ApplyYAML(t.Context(), strings.ReplaceAll(manifest, "shop", p.namespace)))
	token, err := env.Token(t.Context(), p.namespace, "agent-runtime", restapi.DefaultAudience)
	p.must(err)
	dir := t.TempDir()
	tokenFile, kubeconfig := filepath.Join(dir, "token"), filepath.Join(dir, "kubeconfig")
	p.must(errors.Join(os.WriteFile(tokenFile, []byte(token), 0o600),
		env.KubeConfig("reader", p.namespace, kubeconfig), env.Bind(t.Context(), p.namespace, "agrajag-reporter", "reader")))
	p.env = append(os.Environ(), "AGRAJAG_URL=https://"+o.apiAddress, "AGRAJAG_PROJECT="+p.namespace, "AGRAJAG_TOKEN_FILE="+tokenFile, "AGRAJAG_CA="+filepath.Join(o.apiCertDir, "ca.crt"),
		"KUBECONFIG="+kubeconfig, "PATH="+env.Assets+string(os.PathListSeparator)+os.Getenv("PATH"))
	for user, verbs := range map[string][]string{testenv.AccountUser(p.namespace, "agent-runtime"): {"create", "report-for-others"}, "reader": {"create"}} {
		for _, verb := range verbs {
			p.allowed(user, verb)
		}
	}
	return p
}

// allowed waits until the API server knows that a user may do something with jobs.
func (p project) allowed(user, verb string) {
	p.t.Helper()
	eventually(p.t, user+" to be allowed to "+verb, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.namespace, Verb: verb, Group: v1alpha1.GroupVersion.Group, Resource: "diagnosisjobs"}}}
		if err := env.Admin.Create(p.t.Context(), review); err != nil || !review.Status.Allowed {
			return fmt.Errorf("allowed %t: %w", review.Status.Allowed, err)
		}
		return nil
	})
}

// prints runs a program of the page, which must print what the page says.
func (p page) prints(want, stdin string, more []string, command ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Dir, program.Env, program.Stdin = testenv.Path(), slices.Concat(p.env, more), strings.NewReader(stdin)
	var out bytes.Buffer
	program.Stdout, program.Stderr = &out, &out
	if err := program.Run(); err != nil {
		p.t.Fatalf("%v: %v\n%s", command, err, out.String())
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		p.t.Errorf("it does not print what the page says (-page +printed):\n%s", diff)
	}
}

// What stands in docs/integrate.md is run as it stands.
func TestIntegratePage(t *testing.T) {
	blocks := blocksOf(t, "integrate.md")
	o := testOptions()
	served(t, &o)
	startManager(t, o)

	t.Run("python", func(t *testing.T) {
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("python3 is not installed: the page's Python is not run")
		}
		code, prints := joined(blocks, "python")
		// The budget is the page's on a machine with nothing else to do: here it must print the same on any.
		newPage(t, o, blocks).prints(prints, code, []string{"AGRAJAG_BUDGET=60"}, python, "-")
	})
	t.Run("kubectl", func(t *testing.T) {
		code, prints := joined(blocks, "sh")
		newPage(t, o, blocks).prints(prints, code, nil, "bash")
	})
	t.Run("go", func(t *testing.T) {
		p, server := newPage(t, o, blocks), sampletools.NewMCPServer()
		server.FailTool("Your token has expired, please log in again")
		mcpURL := "MCP_URL=" + serveTool(t, server)
		for i, b := range blocks {
			if b.lang != "go" {
				continue
			}
			file := filepath.Join(t.TempDir(), "main.go")
			p.must(os.WriteFile(file, []byte(b.code), 0o600))
			t.Logf("block %d", i)
			p.prints(b.prints, "", []string{mcpURL}, "go", "run", file)
		}
	})
}
