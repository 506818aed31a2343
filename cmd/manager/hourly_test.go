package main

import (
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// Errors that have nothing in common, so that each has a signature of its own.
var manyErrors = []string{"disk is full", "lease was lost", "certificate of the mirror", "quorum not reached", "clock skew found", "index is corrupt", "shard moved away", "token bucket empty"}

// instant is a model that knows nothing, as often as it is asked.
func instant() *scripted.Server {
	var steps []scripted.Step
	for range 100 {
		steps = append(steps, concludes(v1alpha1.Unclear, llm.Usage{Prompt: 1500, Completion: 50}))
	}
	return scripted.New(steps...)
}

// However many errors a tool has, its row is diagnosed four times within the hour; a manager that takes over knows.
func TestAToolOfManyErrorsIsDiagnosedFourTimesAnHour(t *testing.T) {
	model := instant()
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	stop := startManager(t, o)
	p := newProject(t)
	alice := p.user("alice")
	report := func(i int) *v1alpha1.DiagnosisJob {
		return p.job("search", "", v1alpha1.ToolError{Message: manyErrors[i]})
	}
	diagnosed := map[string]bool{}
	for i := range 4 {
		job := report(i)
		p.must(alice.Create(t.Context(), job))
		diagnosed[job.Name] = true
		if end := complete(p.closed(job)); end.Reason != v1alpha1.ReasonDiagnosed {
			t.Fatalf("error %d closed as %+v", i, end)
		}
	}
	refused := func(i int) {
		t.Helper()
		got := p.answer(alice, report(i))
		if got.Reason != "ToolErrorCoalesced" || !diagnosed[cause(got, "Job")] || !strings.Contains(got.Message, "4 times within the hour") {
			t.Errorf("error %d is answered %+v", i, got)
		}
	}
	refused(4)
	stop()
	startManager(t, o)
	refused(5)

	// A person who asks is answered all the same.
	recheck := p.job("search", "", v1alpha1.ToolError{})
	recheck.Spec.Trigger, recheck.Spec.Error = v1alpha1.TriggerUserRequest, nil
	p.must(alice.Create(t.Context(), recheck))
	if end := complete(p.closed(recheck)); end.Reason != v1alpha1.ReasonDiagnosed {
		t.Errorf("a person's question closed as %+v", end)
	}
	if len(model.Requests()) != 5 {
		t.Errorf("the model was asked %d times", len(model.Requests()))
	}
}

func TestWithTheWebhooksDownTheRestJoinsTheNewest(t *testing.T) {
	model := instant()
	o := testOptions()
	o.models, o.modelEndpoint, o.webhookPort = "some-model", serveTool(t, model), freePort(t)
	p := newProject(t)
	alice := p.user("alice")
	for _, message := range manyErrors {
		p.must(alice.Create(t.Context(), p.job("search", "", v1alpha1.ToolError{Message: message})))
	}
	startManager(t, o) // All of them are there at once.
	by := p.allClosed()
	if len(model.Requests()) != 4 || len(by[v1alpha1.ReasonDiagnosed]) != 4 || len(by[v1alpha1.ReasonCoalesced]) != len(manyErrors)-4 {
		t.Errorf("the model was asked %d times; %d diagnosed, %d joined", len(model.Requests()), len(by[v1alpha1.ReasonDiagnosed]), len(by[v1alpha1.ReasonCoalesced]))
	}
	for _, job := range by[v1alpha1.ReasonCoalesced] {
		if end := complete(&job); job.Status.CloseReason != v1alpha1.CloseStale || job.Status.Attempts != 0 || !strings.Contains(end.Message, "within the hour for scope PROJECT") || !strings.Contains(end.Message, "job report-") {
			t.Errorf("a job that joined ended as %+v", job.Status)
		}
	}
}
