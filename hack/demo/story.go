package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// tell plays the chapters in order. Each fails if what kubectl shows is not what it should be.
func (s *stage) tell(ctx context.Context) error {
	chapters := []struct {
		title string
		play  func(context.Context) error
	}{
		{"A 403 blames nobody but the user who got it", s.forbidden},
		{"A refused connection is an outage at once, without a model", s.refused},
		{"A 503 of an MCP tool is unclear, so the tool is probed", s.unavailable},
		{"One user's token is refused, the others' are not", s.oneToken},
		{"The same error a hundred times is one job", s.hundred},
		{"The tool heals, and somebody asks", s.heal},
		{"An agent runtime asks over HTTP, with a token of its own", s.overHTTP},
	}
	for i, chapter := range chapters {
		fmt.Printf("\n%d. %s\n\n", i+1, chapter.title)
		if err := chapter.play(ctx); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	say("\nWhat is known in the end:")
	if err := s.get(ctx, nil, "toolhealths,diagnosisjobs"); err != nil {
		return err
	}
	say("\nThe same for one user, who has something to do, with the plugin:")
	_, err := s.expect(ctx, you, "", []string{"Renew"}, "toolhealth", "list", "--user", "alice")
	return err
}

// report writes a report as an agent runtime sends it: YAML with what the failed call answered.
func report(tool, user string, fields ...string) string {
	manifest := "apiVersion: tools.agrajag.dev/v1alpha1\nkind: DiagnosisJob\nmetadata: {generateName: report-}\nspec:\n  toolName: " + tool + "\n"
	if user != "" {
		manifest += "  originatingUserId: " + user + "\n"
	}
	return manifest + "  " + strings.Join(fields, "\n  ") + "\n"
}

// send reports an error, shows what the runtime sends and what it is told, and returns the job that was created.
func (s *stage) send(ctx context.Context, manifest string, wants ...string) (job string, err error) {
	_, spec, _ := strings.Cut(manifest, "spec:\n")
	for line := range strings.Lines(spec) {
		fmt.Printf("  | %s", line)
	}
	out, err := s.expect(ctx, agent, manifest, wants, "create", "-f", "-")
	if _, after, ok := strings.Cut(out, "diagnosisjob.tools.agrajag.dev/"); ok {
		job, _, _ = strings.Cut(after, " ")
	}
	return job, err
}

// get shows what kubectl get shows, and fails unless it holds all that is wanted.
func (s *stage) get(ctx context.Context, wants []string, args ...string) error {
	_, err := s.expect(ctx, you, "", wants, append([]string{"get"}, args...)...)
	return err
}

// diagnosed waits until a job is complete, and shows what it found.
func (s *stage) diagnosed(ctx context.Context, job, class string) error {
	if _, err := s.expect(ctx, you, "", []string{"condition met"}, "wait", "diagnosisjob", job, "--for=condition=Complete", "--timeout=60s"); err != nil {
		return err
	}
	if err := s.get(ctx, []string{class}, "diagnosisjob", job); err != nil {
		return err
	}
	return s.get(ctx, nil, "diagnosisjob", job, "-o",
		`jsonpath={range .status.probes[*]}probed as {.as}: success {.success}, HTTP {.statusCode}{"\n"}{end}{.status.diagnosis.humanNote}{"\n"}`)
}

func (s *stage) forbidden(ctx context.Context) error {
	if _, err := s.send(ctx, report("search", "alice", "error: {httpStatus: 403, body: Forbidden}"), "ToolErrorClassified", "USER_PERMISSION"); err != nil {
		return err
	}
	say("\n  Alice's row exists for the cooldown alone. It has no state: the tool counts as it did before.")
	return s.get(ctx, []string{"USER"}, "toolhealth", "-o", "wide")
}

func (s *stage) refused(ctx context.Context) error {
	_, err := s.send(ctx, report("inventory", "alice", "error:",
		"  message: 'dial tcp 10.0.0.20:8080: connect: connection refused'", "  exceptionTypes: [syscall.ECONNREFUSED]"),
		"TECHNICALLY_BROKEN", "connect-refused")
	if err != nil {
		return err
	}
	return s.get(ctx, []string{"DOWN"}, "toolhealth", "inventory")
}

func (s *stage) unavailable(ctx context.Context) error {
	s.tools.mcp.FailHTTP(sampletools.Answer{Status: http.StatusServiceUnavailable, Body: "upstream is away"})
	say("  (the MCP server now answers 503)")
	job, err := s.send(ctx, report("mcp_search", "", "error: {httpStatus: 503, body: upstream is away}"), "Diagnosis pending", "created")
	if err != nil {
		return err
	}
	if err := s.diagnosed(ctx, job, "TECHNICALLY_BROKEN"); err != nil {
		return err
	}
	return s.get(ctx, []string{"DOWN", "TECHNICALLY_BROKEN"}, "toolhealth")
}

func (s *stage) oneToken(ctx context.Context) error {
	s.tools.api.RefuseToken(aliceToken)
	say("  (the API now answers a plain 401 to Alice's token)")
	job, err := s.send(ctx, report("search", "alice", "error: {httpStatus: 401, body: Unauthorized}"), "Diagnosis pending", "created")
	if err != nil {
		return err
	}
	if err := s.diagnosed(ctx, job, "USER_SPECIFIC_TECHNICAL"); err != nil {
		return err
	}
	say("\n  What Alice can do about it stands on her own row. There is no row for the others: for them the tool works.")
	return s.get(ctx, []string{"search for USER alice is DOWN. Renew"}, "toolhealth", "-o",
		`jsonpath={range .items[?(@.spec.toolName=="search")]}{.spec.toolName} for {.spec.scope} {.spec.scopeId} is {.status.state}. {.status.lastDiagnosis.userActionHint}{"\n"}{end}`)
}

func (s *stage) hundred(ctx context.Context) error {
	s.tools.api.Fail(sampletools.Answer{Status: http.StatusBadGateway, Body: "bad gateway"})
	say("  (the API now answers 502 to everybody, and the agent runtime reports it a hundred times)")
	job, answered := "", map[string]int{}
	before := time.Now()
	for range 100 {
		created, outcome, err := s.reportOnce(ctx, "search", http.StatusBadGateway)
		if err != nil {
			return err
		}
		if created != "" && job != "" {
			return fmt.Errorf("a second job was created, %s after %s", created, job)
		}
		if created != "" {
			job = created
			continue
		}
		answered[outcome]++
	}
	say("  100 reports in %s: one became job %s, the others were answered at once: %v", time.Since(before).Round(time.Millisecond), job, answered)
	return s.diagnosed(ctx, job, "TECHNICALLY_BROKEN")
}

func (s *stage) heal(ctx context.Context) error {
	s.tools.mcp.Heal()
	s.tools.api.Heal()
	say("  (both tools work again)")
	job, err := s.send(ctx, report("mcp_search", "", "trigger: user_request"), "created")
	if err != nil {
		return err
	}
	if err := s.diagnosed(ctx, job, "WORKING"); err != nil {
		return err
	}
	return s.get(ctx, []string{"OK", "WORKING"}, "toolhealth")
}
