package main

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// The story that the demo tells, with the built-in diagnostician.
func TestFromReportedErrorToDiagnosedHealth(t *testing.T) {
	startManager(t, testOptions())

	t.Run("a 403 cools down for that user alone and leaves the tool's health", func(t *testing.T) {
		p := newProject(t)
		alice, bob := p.user("alice"), p.user("bob")
		got := p.answer(alice, p.job("search", "alice", status(403)))
		if got.Code != 422 || got.Reason != "ToolErrorClassified" || cause(got, "Classification") != "USER_PERMISSION" || cause(got, "RuleID") != "http-403" {
			t.Errorf("refused with %+v", got)
		}
		row := p.row(v1alpha1.ScopeUser, "alice", "search")
		if row == nil || row.Status.State != "" || !meta.IsStatusConditionTrue(row.Status.Conditions, "cooldown.tools.agrajag.dev/http-403") {
			t.Fatalf("alice's row is %+v", row)
		}
		if p.row(v1alpha1.ScopeProject, p.namespace, "search") != nil {
			t.Error("one user's 403 wrote a row for everybody")
		}
		if again := p.answer(alice, p.job("search", "alice", status(403))); cause(again, "Outcome") != "CoolingDown" {
			t.Errorf("alice's second 403: %+v", again)
		}
		if other := p.answer(bob, p.job("search", "bob", status(403))); cause(other, "Outcome") != "Classified" {
			t.Errorf("bob's first 403: %+v", other)
		}
	})

	t.Run("a refused connection is DOWN at once", func(t *testing.T) {
		p := newProject(t)
		got := p.answer(p.user("carol"), p.job("orders", "", v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"java.net.ConnectException"}}))
		if cause(got, "Classification") != "TECHNICALLY_BROKEN" {
			t.Errorf("refused with %+v", got)
		}
		row := p.row(v1alpha1.ScopeProject, p.namespace, "orders")
		if row == nil || row.Status.State != v1alpha1.StateDown || !meta.IsStatusConditionFalse(row.Status.Conditions, "Available") {
			t.Fatalf("the row is %+v", row)
		}
		if row.Status.LastDiagnosis.By != "agrajag-checker/connect-refused" || row.Status.ExpectedRecoveryAt == nil {
			t.Errorf("last diagnosis %+v, recovery %v", row.Status.LastDiagnosis, row.Status.ExpectedRecoveryAt)
		}
	})

	t.Run("a 503 of an MCP tool is probed and found DOWN, then healed", func(t *testing.T) {
		p := newProject(t)
		server := sampletools.NewMCPServer()
		p.mcpTool("mcp_search", serveTool(t, server), "search")
		server.FailHTTP(sampletools.Answer{Status: http.StatusServiceUnavailable})
		dave := p.user("dave")
		job := p.job("mcp_search", "", status(503))
		p.must(dave.Create(t.Context(), job))
		job = p.closed(job)
		if job.Status.Diagnosis == nil || job.Status.Diagnosis.Classification != v1alpha1.TechnicallyBroken || job.Status.ProbeCount == 0 {
			t.Fatalf("the job ended as %+v", job.Status)
		}
		if row := p.row(v1alpha1.ScopeProject, p.namespace, "mcp_search"); row == nil || row.Status.State != v1alpha1.StateDown {
			t.Fatalf("the row is %+v", row)
		}
		if got := p.answer(dave, p.job("mcp_search", "", status(503))); cause(got, "Outcome") == "Classified" {
			t.Errorf("the same error again: %+v", got)
		}

		server.Heal()
		recheck := p.job("mcp_search", "", status(503))
		recheck.Spec.Trigger, recheck.Spec.Error = v1alpha1.TriggerUserRequest, nil
		p.must(dave.Create(t.Context(), recheck))
		if recheck = p.closed(recheck); recheck.Status.Diagnosis.Classification != v1alpha1.Working {
			t.Fatalf("the recheck ended as %+v", recheck.Status)
		}
		row := p.row(v1alpha1.ScopeProject, p.namespace, "mcp_search")
		if row.Status.State != v1alpha1.StateOK || len(row.Status.Cooldowns) != 0 {
			t.Errorf("after the recheck the row is %+v", row.Status)
		}
		if server.Tickets() != 0 {
			t.Errorf("probes wrote %d tickets", server.Tickets())
		}
	})
}
