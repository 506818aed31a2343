package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// startWith runs a manager whose model answers from a script, with one worker for diagnoses.
func startWith(t *testing.T, endpoint string) (stop func()) {
	t.Helper()
	o := testOptions()
	o.models, o.modelEndpoint, o.diagnosisWorkers = "some-model", endpoint, 1
	return startManager(t, o)
}

// known creates a row with a state that was found before.
func (p project) known(state v1alpha1.State) *v1alpha1.ToolHealth {
	p.t.Helper()
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "search"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, ScopeID: p.namespace}}
	p.must(env.Admin.Create(p.t.Context(), row))
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	row.Status.State, row.Status.Since, row.Status.LastCheckedAt = state, &long, &long
	p.must(env.Admin.Status().Update(p.t.Context(), row))
	eventually(p.t, "the row to be seen", func() error {
		if row = p.row(v1alpha1.ScopeProject, p.namespace, "search"); meta.FindStatusCondition(row.Status.Conditions, "Available") == nil {
			return fmt.Errorf("conditions %+v", row.Status.Conditions)
		}
		return nil
	})
	return row
}

func TestARefusedKeyTouchesNoRow(t *testing.T) {
	for name, state := range map[string]v1alpha1.State{"nothing is known": "", "the tool is down": v1alpha1.StateDown, "the tool works": v1alpha1.StateOK} {
		t.Run(name, func(t *testing.T) {
			refuse := scripted.Step{Status: 401, Text: "no such key"}
			model := scripted.New(refuse, refuse, refuse)
			startWith(t, serveTool(t, model))
			p := newProject(t)
			alice := p.user("alice")
			var before *v1alpha1.ToolHealth
			if state != "" {
				before = p.known(state)
			}
			job := p.job("search", "", status(500))
			p.must(alice.Create(t.Context(), job))
			job = p.closed(job)

			d := job.Status.Decision
			if d == nil || d.Action != v1alpha1.RunTerminate || d.Category != v1alpha1.FailureCredentials || d.Kind != string(llm.KeyRefused) || d.Stage != v1alpha1.StageAsk || d.Attempt != 1 {
				t.Fatalf("decided %+v", d)
			}
			stalled := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionStalled)
			if job.Status.CloseReason != v1alpha1.CloseStale || stalled.Reason != v1alpha1.ReasonModelUnavailable || stalled.Status != metav1.ConditionTrue || job.Status.Diagnosis != nil {
				t.Errorf("the job ended as %+v", job.Status)
			}
			// Another run would end the same: whoever reports next is told what to mend, and costs nothing.
			for range 3 {
				got := p.answer(alice, p.job("search", "", status(500)))
				if outcome := cause(got, "Outcome"); outcome != "Coalesced" && outcome != "AlreadyDiagnosed" || !strings.Contains(got.Message, "the model's key was refused: mend the file of --model-key-file") {
					t.Errorf("the next report: %+v", got)
				}
			}
			if n := len(model.Requests()); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
			after := p.row(v1alpha1.ScopeProject, p.namespace, "search")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the row changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAModelOutOfReachIsTriedOnceMore(t *testing.T) {
	refused, err := sampletools.Refused()
	if err != nil {
		t.Fatal(err)
	}
	startWith(t, refused)
	p := newProject(t)
	alice := p.user("alice")
	job := p.job("search", "", status(500))
	p.must(alice.Create(t.Context(), job))
	d := p.postponed(job)
	if d.Category != v1alpha1.FailureProviderTransient || d.Kind != string(llm.Unreachable) || d.DueAt.Sub(d.DecidedAt.Time) < runfailure.TransientDelay {
		t.Errorf("decided %+v", d)
	}
	if got := p.answer(alice, p.job("search", "", status(500))); cause(got, "Outcome") != "Coalesced" || !strings.Contains(got.Message, "is tried once more at") {
		t.Errorf("the next report: %+v", got)
	}
	if row := p.row(v1alpha1.ScopeProject, p.namespace, "search"); row != nil {
		t.Errorf("a run without verdict wrote %+v", row.Status)
	}
}

// postponed waits until a job waits for its retry, and returns why.
func (p project) postponed(job *v1alpha1.DiagnosisJob) *v1alpha1.RunDecision {
	p.t.Helper()
	now := &v1alpha1.DiagnosisJob{}
	eventually(p.t, "job "+job.Name+" to wait for its retry", func() error {
		if err := env.Admin.Get(p.t.Context(), client.ObjectKeyFromObject(job), now); err != nil {
			return err
		}
		reconciling := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReconciling)
		if now.Status.Phase != v1alpha1.PhaseInit || now.Status.Decision == nil || reconciling == nil || reconciling.Reason != v1alpha1.ReasonRetrying {
			return fmt.Errorf("status %+v", now.Status)
		}
		return nil
	})
	return now.Status.Decision
}

// A retry holds no worker, outlives the manager, never comes early, and is the last.
func TestARetryWaitsInTheJob(t *testing.T) {
	cost := llm.Usage{Prompt: 900, Completion: 10} // As much as can be true of what is sent.
	model := scripted.New(scripted.Step{Status: 429, Text: "slow down", Headers: map[string]string{"Retry-After": "12"}},
		scripted.Step{Text: works, Usage: cost}, scripted.Step{Text: works, Usage: cost}, scripted.Step{Text: works, Usage: cost})
	endpoint := serveTool(t, model)
	stop := startWith(t, endpoint)
	p := newProject(t)
	alice := p.user("alice")
	job := p.job("search", "", status(500))
	p.must(alice.Create(t.Context(), job))
	d := p.postponed(job)

	// The only worker diagnoses another tool meanwhile.
	other := p.job("orders", "", status(500))
	p.must(alice.Create(t.Context(), other))
	if other = p.closed(other); other.Status.Diagnosis == nil {
		t.Errorf("the other job ended as %+v", other.Status)
	}
	if body := model.Requests()[1].Body; !strings.Contains(body, "orders") {
		t.Errorf("the second question is not about the other tool: %s", body)
	}
	stop()
	startWith(t, endpoint)
	job = p.closed(job)
	if job.Status.Attempts != 2 || job.Status.Diagnosis == nil || job.Status.StartedAt.Before(d.DueAt) || len(model.Requests()) != 3 {
		t.Errorf("after %d questions, due at %s: %+v", len(model.Requests()), d.DueAt, job.Status)
	}
	if diff := cmp.Diff(&v1alpha1.Usage{Turns: 2, PromptTokens: 900, CompletionTokens: 10}, job.Status.Usage); diff != "" {
		t.Errorf("both attempts cost (-want +got):\n%s", diff)
	}
	d.DueAt = nil // It is over.
	if complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete); complete.Reason != v1alpha1.ReasonDiagnosed || !cmp.Equal(d, job.Status.Decision) {
		t.Errorf("closed as %s, receipt %+v", complete.Reason, job.Status.Decision)
	}
}

func TestNoJobRunsThreeTimes(t *testing.T) {
	t.Run("two runs fail alike", func(t *testing.T) {
		model := scripted.New(scripted.Step{Raw: "hm"}, scripted.Step{Raw: "hm"}, scripted.Step{Text: works})
		startWith(t, serveTool(t, model))
		p := newProject(t)
		job := p.job("search", "", status(500))
		p.must(p.user("alice").Create(t.Context(), job))
		p.ranTwice(job, model, runfailure.ReasonSameFailureAgain)
	})
	t.Run("two runs fail in two ways", func(t *testing.T) {
		model := scripted.New(scripted.Step{Raw: "hm"}, scripted.Step{Status: 503, Text: "busy"}, scripted.Step{Text: works})
		startWith(t, serveTool(t, model))
		p := newProject(t)
		job := p.job("search", "", status(500))
		p.must(p.user("alice").Create(t.Context(), job))
		p.ranTwice(job, model, runfailure.ReasonRetriedBefore)
	})
	t.Run("a manager is lost, then a run fails", func(t *testing.T) {
		model := scripted.New(scripted.Step{Delay: time.Minute}, scripted.Step{Status: 503, Text: "busy"}, scripted.Step{Text: works})
		endpoint := serveTool(t, model)
		stop := startWith(t, endpoint)
		p := newProject(t)
		job := p.job("search", "", status(500))
		p.must(p.user("alice").Create(t.Context(), job))
		eventually(t, "the model to be asked", func() error {
			if len(model.Requests()) == 0 {
				return fmt.Errorf("it is not asked")
			}
			return nil
		})
		stop()
		startWith(t, endpoint)
		p.ranTwice(job, model, runfailure.ReasonRetriedBefore)
	})
}

// ranTwice waits for a job to close and shows that its second run was the last.
func (p project) ranTwice(job *v1alpha1.DiagnosisJob, model *scripted.Server, reason string) {
	p.t.Helper()
	job = p.closed(job)
	d := job.Status.Decision
	if d == nil || d.Action != v1alpha1.RunTerminate || d.Reason != reason || d.Attempt != 2 || d.DueAt != nil || job.Status.Attempts != 2 || len(model.Requests()) != 2 {
		p.t.Errorf("after %d questions and %d attempts: %+v", len(model.Requests()), job.Status.Attempts, d)
	}
	if stalled := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionStalled); !strings.HasPrefix(stalled.Message, "The run failed twice") {
		p.t.Errorf("told: %s", stalled.Message)
	}
	if row := p.row(v1alpha1.ScopeProject, p.namespace, "search"); row != nil {
		p.t.Errorf("two failed runs wrote %+v", row.Status)
	}
}
