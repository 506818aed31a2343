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
	}
	for i, chapter := range chapters {
		fmt.Printf("\n%d. %s\n\n", i+1, chapter.title)
		if err := chapter.play(ctx); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	say("\nWhat is known in the end:")
	return s.kubectl(ctx, you, "", "get", "toolhealths,diagnosisjobs")
}

// report writes a report as an agent runtime sends it: YAML with what the failed call answered.
func report(tool, user string, fields ...string) string {
	manifest := "apiVersion: tools.agrajag.dev/v1alpha1\nkind: DiagnosisJob\nmetadata: {generateName: report-}\nspec:\n  toolName: " + tool + "\n"
	if user != "" {
		manifest += "  originatingUserId: " + user + "\n"
	}
	return manifest + "  " + strings.Join(fields, "\n  ") + "\n"
}

// send reports an error, shows what the runtime sends and what it is told.
func (s *stage) send(ctx context.Context, manifest string, wants ...string) error {
	spec := manifest[strings.Index(manifest, "spec:"):]
	for line := range strings.Lines(spec) {
		fmt.Printf("  | %s", line)
	}
	return s.expect(ctx, agent, manifest, wants, "create", "-f", "-")
}

func (s *stage) forbidden(ctx context.Context) error {
	if err := s.send(ctx, report("search", "alice", "error: {httpStatus: 403, body: Forbidden}"), "ToolErrorClassified", "USER_PERMISSION"); err != nil {
		return err
	}
	say("\n  Alice's row exists for the cooldown alone: it has no state, the tool counts as it did before.")
	return s.expect(ctx, you, "", []string{"USER"}, "get", "toolhealth", "-o", "wide")
}

func (s *stage) refused(ctx context.Context) error {
	if err := s.send(ctx, report("inventory", "alice", "error:",
		"  message: 'dial tcp 10.0.0.20:8080: connect: connection refused'", "  exceptionTypes: [syscall.ECONNREFUSED]"),
		"TECHNICALLY_BROKEN", "connect-refused"); err != nil {
		return err
	}
	return s.expect(ctx, you, "", []string{"DOWN"}, "get", "toolhealth", "inventory")
}

func (s *stage) unavailable(ctx context.Context) error {
	s.tools.mcp.FailHTTP(sampletools.Answer{Status: http.StatusServiceUnavailable, Body: "upstream is away"})
	say("  (the MCP server now answers 503)")
	if err := s.send(ctx, report("mcp_search", "", "error: {httpStatus: 503, body: upstream is away}"), "Diagnosis pending", "created"); err != nil {
		return err
	}
	if err := s.diagnosed(ctx, "mcp_search", "TECHNICALLY_BROKEN"); err != nil {
		return err
	}
	return s.expect(ctx, you, "", []string{"DOWN", "TECHNICALLY_BROKEN"}, "get", "toolhealth", "--field-selector", "metadata.namespace="+namespace)
}

// diagnosed waits until a tool's newest job is closed and shows it.
func (s *stage) diagnosed(ctx context.Context, tool, class string) error {
	err := s.await(ctx, "the diagnosis of "+tool, func() error {
		out, err := s.quiet(ctx, you, "", "get", "diagnosisjob", "-o",
			"jsonpath={range .items[*]}{.spec.toolName} {.status.phase} {.status.diagnosis.classification}{\"\\n\"}{end}")
		if err == nil && !strings.Contains(out, tool+" CLOSED "+class) {
			err = fmt.Errorf("jobs so far:\n%s", out)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, you, "", "get", "diagnosisjob"); err != nil {
		return err
	}
	say("\n  What the probes found:")
	return s.kubectl(ctx, you, "", "get", "diagnosisjob", "-o",
		"jsonpath={range .items[?(@.spec.toolName==\""+tool+"\")]}{range .status.probes[*]}as {.as}: success {.success}, status {.statusCode}{\"\\n\"}{end}{.status.diagnosis.humanNote}{\"\\n\"}{end}")
}

func (s *stage) oneToken(ctx context.Context) error {
	s.tools.api.RefuseToken(aliceToken)
	say("  (the API now answers a plain 401 to Alice's token)")
	if err := s.send(ctx, report("search", "alice", "error: {httpStatus: 401, body: Unauthorized}"), "Diagnosis pending", "created"); err != nil {
		return err
	}
	if err := s.diagnosed(ctx, "search", "USER_SPECIFIC_TECHNICAL"); err != nil {
		return err
	}
	say("\n  What Alice can do about it, from her own row. Bob and the others have no such row: for them the tool works.")
	return s.expect(ctx, you, "", []string{"search", "DOWN"}, "get", "toolhealth", "-o",
		"jsonpath={range .items[?(@.spec.scope==\"USER\")]}{.spec.toolName} for {.spec.scopeId}: {.status.state}. {.status.lastDiagnosis.userActionHint}{\"\\n\"}{end}")
}

func (s *stage) hundred(ctx context.Context) error {
	s.tools.api.Fail(sampletools.Answer{Status: http.StatusBadGateway, Body: "bad gateway"})
	say("  (the API now answers 502 to everybody)")
	created, refused := 0, map[string]int{}
	before := time.Now()
	for range 100 {
		reason, err := s.reportOnce(ctx, "search", http.StatusBadGateway)
		if err != nil {
			return err
		}
		if reason == "" {
			created++
		} else {
			refused[reason]++
		}
	}
	say("  100 reports in %s: %d became a job, the others were answered at once: %v", time.Since(before).Round(time.Millisecond), created, refused)
	if created != 1 {
		return fmt.Errorf("%d jobs were created, not one", created)
	}
	return s.diagnosed(ctx, "search", "TECHNICALLY_BROKEN")
}

func (s *stage) heal(ctx context.Context) error {
	s.tools.mcp.Heal()
	s.tools.api.Heal()
	say("  (both tools work again)")
	if err := s.send(ctx, report("mcp_search", "", "trigger: user_request"), "created"); err != nil {
		return err
	}
	if err := s.diagnosed(ctx, "mcp_search", "WORKING"); err != nil {
		return err
	}
	return s.expect(ctx, you, "", []string{"mcp_search: OK"}, "get", "toolhealth", "-o",
		"jsonpath={range .items[?(@.spec.toolName==\"mcp_search\")]}{.spec.toolName}: {.status.state} since {.status.since}. {.status.lastDiagnosis.note}{\"\\n\"}{end}")
}
