package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// However many errors a tool has and however many people ask, its row is diagnosed four times within the hour, of which
// errors leave one to people; a manager that takes over knows.
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
	diagnose := func(job *v1alpha1.DiagnosisJob) {
		t.Helper()
		p.must(alice.Create(t.Context(), job))
		diagnosed[job.Name] = true
		if end := complete(p.closed(job)); end.Reason != v1alpha1.ReasonDiagnosed {
			t.Fatalf("job %s closed as %+v", job.Name, end)
		}
	}
	refused := func(job *v1alpha1.DiagnosisJob, says ...string) {
		t.Helper()
		got := p.answer(alice, job)
		for _, want := range says {
			if got.Reason != "ToolErrorCoalesced" || !diagnosed[cause(got, "Job")] || !strings.Contains(got.Message, want) {
				t.Errorf("want %q, answered %+v", want, got)
			}
		}
	}
	for i := range 3 {
		diagnose(report(i))
	}
	refused(report(3), "3 times within the hour", "kept for people")
	recheck := p.recheck("search")
	diagnose(recheck)
	refused(report(3), "4 times within the hour")
	p.endedBefore(recheck, time.Minute)
	refused(p.recheck("search"), "Not looked at again", "4 times within the hour", "ask again in ")
	stop()
	startManager(t, o)
	refused(report(4), "4 times within the hour")
	refused(p.recheck("search"), "Not looked at again", "ask again in ")
	if said := p.plugin("alice", "recheck", "search"); !strings.Contains(said, "Not looked at again: search was diagnosed 4 times within the hour") ||
		!strings.Contains(said, "ask again in ") || !strings.Contains(said, "UNCLEAR for scope PROJECT") {
		t.Errorf("kubectl toolhealth recheck says:\n%s", said)
	}
	if len(model.Requests()) != 4 {
		t.Errorf("the model was asked %d times", len(model.Requests()))
	}
}

// The projects of a tenant share its rows, and what they start: a manager that takes over knows that as well.
func TestARowOfATenantIsDiagnosedFourTimesAnHourForAllItsProjects(t *testing.T) {
	model := instant()
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	stop := startManager(t, o)
	tenant := newProject(t)
	tenant.user("alice")
	report := func(p project, i int) *v1alpha1.DiagnosisJob {
		job := p.job("search", "", v1alpha1.ToolError{Message: manyErrors[i]})
		job.Spec.Scope = v1alpha1.ScopeTenant
		tenant.must(p.user("alice").Create(t.Context(), job))
		return job
	}
	one, other := newProjectOf(t, tenant), newProjectOf(t, tenant)
	for i := range 3 {
		if end := complete(one.closed(report(one, i))); end.Reason != v1alpha1.ReasonDiagnosed {
			t.Fatalf("job %d closed as %+v", i, end)
		}
	}
	stop()
	startManager(t, o)
	end := complete(other.closed(report(other, 3)))
	if end.Reason != v1alpha1.ReasonCoalesced || !strings.Contains(end.Message, "search was diagnosed 3 times within the hour for scope TENANT") || !strings.Contains(end.Message, ": for other projects; ") {
		t.Errorf("the other project's job closed as %+v", end)
	}
	if len(model.Requests()) != 3 {
		t.Errorf("the model was asked %d times", len(model.Requests()))
	}
}

// recheck builds a person's request to look at a tool.
func (p project) recheck(tool string) *v1alpha1.DiagnosisJob {
	job := p.job(tool, "", v1alpha1.ToolError{})
	job.Spec.Trigger, job.Spec.Error = v1alpha1.TriggerUserRequest, nil
	return job
}

// endedBefore puts the end of a job back in time, and waits until that is known.
func (p project) endedBefore(job *v1alpha1.DiagnosisJob, ago time.Duration) {
	p.t.Helper()
	ended := p.closed(job)
	ended.Status.ClosedAt = &metav1.Time{Time: ended.Status.ClosedAt.Add(-ago)}
	p.must(env.Admin.Status().Update(p.t.Context(), ended))
	eventually(p.t, "the manager to know", func() error {
		dry := client.NewDryRunClient(p.user("alice"))
		if err := dry.Create(p.t.Context(), p.recheck(string(job.Spec.ToolName))); err == nil || strings.Contains(err.Error(), "a moment ago") {
			return fmt.Errorf("answered %w", err)
		}
		return nil
	})
}

// plugin runs kubectl toolhealth as a person and returns what it prints, whatever its exit code.
func (p project) plugin(person string, args ...string) string {
	p.t.Helper()
	config := filepath.Join(p.t.TempDir(), person)
	p.must(env.KubeConfig(person, p.namespace, config))
	command := exec.CommandContext(p.t.Context(), "go", append([]string{"run", "../kubectl-toolhealth"}, append(args, "--kubeconfig", config)...)...)
	out, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
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
	if len(model.Requests()) != 3 || len(by[v1alpha1.ReasonDiagnosed]) != 3 || len(by[v1alpha1.ReasonCoalesced]) != len(manyErrors)-3 {
		t.Errorf("the model was asked %d times; %d diagnosed, %d joined", len(model.Requests()), len(by[v1alpha1.ReasonDiagnosed]), len(by[v1alpha1.ReasonCoalesced]))
	}
	for _, job := range by[v1alpha1.ReasonCoalesced] {
		if end := complete(&job); job.Status.CloseReason != v1alpha1.CloseStale || job.Status.Attempts != 0 || !strings.Contains(end.Message, "within the hour for scope PROJECT") || !strings.Contains(end.Message, "job report-") {
			t.Errorf("a job that joined ended as %+v", job.Status)
		}
	}
}
