package controller

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

func TestEndingOf(t *testing.T) {
	verdict := diagnose.Applied{Diagnosis: v1alpha1.Diagnosis{Classification: v1alpha1.Working, Scope: v1alpha1.ScopeProject, HumanNote: "works"}}
	in := diagnose.Input{Job: jobOf("j", 0, running(1))}
	for _, tc := range []struct {
		name         string
		outcome      diagnose.Outcome
		want         ending
		wantCategory v1alpha1.RunFailureCategory
	}{
		{name: "a verdict", want: ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonDiagnosed, message: "WORKING for scope PROJECT: works"}},
		{name: "no usable verdict", outcome: diagnose.Outcome{Fallback: "no JSON"},
			want: ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonFallback, message: "WORKING for scope PROJECT: works"}},
		{name: "a budget that is used up", outcome: diagnose.Outcome{Fallback: "used up", Exhausted: true, Unpaid: true},
			want: ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonBudgetExhausted, message: "WORKING for scope PROJECT: works"}},
		{name: "an account that cannot be asked", outcome: diagnose.Outcome{Fallback: "etcd is gone", NotKept: true, Unpaid: true},
			want: ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonBudgetNotKept, message: "WORKING for scope PROJECT: works"}},
		{name: "a ceiling that pays for no verdict", outcome: diagnose.Outcome{Fallback: "raise it", Ceiling: true},
			want: ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonTokenCeilingReached, message: "WORKING for scope PROJECT: works"}},
		{name: "no answer", outcome: diagnose.Outcome{Err: &llm.Failure{Kind: llm.KeyRefused}}, wantCategory: v1alpha1.FailureCredentials,
			want: ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonModelUnavailable}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := endingOf(in, tc.outcome, verdict)
			if failure := got.failure; failure != nil {
				if failure.Category != tc.wantCategory || failure.Attempt != 1 || got.message != failure.Message {
					t.Errorf("failure %+v, told %q", failure, got.message)
				}
				got.failure, got.message = nil, ""
			} else if tc.wantCategory != "" {
				t.Error("nothing failed")
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func running(attempts int32) func(*v1alpha1.DiagnosisJobStatus) {
	return func(s *v1alpha1.DiagnosisJobStatus) {
		s.Phase, s.Attempts, s.Holder = v1alpha1.PhaseRunning, attempts, "me"
	}
}

// settled settles jobs, one failure after the other.
type settled struct {
	t        *testing.T
	client   client.Client
	recorder *events.FakeRecorder
	job      *v1alpha1.DiagnosisJob
}

func newSettled(t *testing.T) *settled {
	job := jobOf("j", 0, running(1))
	c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(job).WithStatusSubresource(job).Build()
	return &settled{t: t, client: c, recorder: events.NewFakeRecorder(10), job: job}
}

func (s *settled) fail(category v1alpha1.RunFailureCategory, message string, after time.Duration) v1alpha1.DiagnosisJobStatus {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(s.job), s.job); err != nil {
		s.t.Fatal(err)
	}
	end := failed(v1alpha1.ReasonModelUnavailable, runfailure.Failure{Category: category, Stage: v1alpha1.StageAsk, Kind: "K", Message: message, Attempt: s.job.Status.Attempts})
	if err := settle(s.t.Context(), s.client, s.recorder, s.job, end, t0.Add(after)); err != nil {
		s.t.Fatal(err)
	}
	return s.job.Status
}

// conditionsOf returns what the conditions say, without the times.
func conditionsOf(status v1alpha1.DiagnosisJobStatus) string {
	var all []string
	for _, kind := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		all = append(all, fmt.Sprintf("%s=%s/%s %q", kind, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

func TestAFailureThatMayPassIsRetriedOnce(t *testing.T) {
	s := newSettled(t)
	status := s.fail(v1alpha1.FailureProviderTransient, "503", 0)
	if status.Phase != v1alpha1.PhaseInit || status.ClosedAt != nil || status.Attempts != 1 || status.Decision.Action != v1alpha1.RunRetry {
		t.Errorf("after the first failure: %+v", status)
	}
	want := `Complete=False/Retrying ""
Reconciling=True/Retrying "The run failed and is tried once more at 2026-05-23T14:00:30Z: 503"
Stalled=False/Retrying ""`
	if diff := cmp.Diff(want, conditionsOf(status)); diff != "" {
		t.Errorf("conditions while it waits (-want +got):\n%s", diff)
	}
	for after, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 29 * time.Second: time.Second, 30 * time.Second: 0, time.Hour: 30*time.Second - time.Hour} {
		if got := dueIn(s.job, t0.Add(after)); got != want {
			t.Errorf("after %s it waits %s more, want %s", after, got, want)
		}
	}

	s.job.Status.Phase, s.job.Status.Attempts = v1alpha1.PhaseRunning, 2
	if got := dueIn(s.job, t0); got != 0 {
		t.Errorf("a job that runs waits for %s", got)
	}
	if err := s.client.Status().Update(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	status = s.fail(v1alpha1.FailureProviderTransient, "503", time.Minute)
	if status.Phase != v1alpha1.PhaseClosed || status.CloseReason != v1alpha1.CloseStale || status.Decision.Reason != runfailure.ReasonSameFailureAgain {
		t.Errorf("after the second failure: %+v", status)
	}
	want = `Complete=True/ModelUnavailable "The run failed twice in the same way: 503"
Reconciling=False/ModelUnavailable ""
Stalled=True/ModelUnavailable "The run failed twice in the same way: 503"`
	if diff := cmp.Diff(want, conditionsOf(status)); diff != "" {
		t.Errorf("conditions at the end (-want +got):\n%s", diff)
	}
	for _, want := range []string{"Warning Retrying The run failed and is tried", "Warning ModelUnavailable The run failed twice"} {
		if got := <-s.recorder.Events; !strings.HasPrefix(got, want) {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

func TestOtherFailuresEndAtOnce(t *testing.T) {
	for category, want := range map[v1alpha1.RunFailureCategory]string{
		v1alpha1.FailureCredentials: "terminate: The run failed: mend it",
		v1alpha1.FailureUnknown:     "preserve: The run failed, and a person has to look at it: mend it",
	} {
		status := newSettled(t).fail(category, "mend it", 0)
		stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		if got := string(status.Decision.Action) + ": " + stalled.Message; status.Phase != v1alpha1.PhaseClosed || got != want {
			t.Errorf("%s: %s, %s; want %s", category, status.Phase, got, want)
		}
	}
}

// A write that is tried again decides nothing anew.
func TestADecisionIsMadeOnceForEachAttempt(t *testing.T) {
	job := jobOf("j", 0, running(1))
	f := runfailure.Failure{Category: v1alpha1.FailureProviderTransient, Attempt: 1}
	first := decide(job, f, t0)
	if again := decide(job, f, t0.Add(time.Hour)); !cmp.Equal(first, again) || !cmp.Equal(*job.Status.Decision, first) {
		t.Errorf("first %+v, then %+v", first, again)
	}
	// While a retry is prepared, the configuration turns out to be broken.
	problem := &stalledError{reason: v1alpha1.ReasonRecipeInvalid, category: v1alpha1.FailureProviderRequest, kind: diagnose.FailedRecipe, err: errors.New("mend the recipe")}
	end := problem.ending(job)
	if d := decide(job, *end.failure, t0); d.Action != v1alpha1.RunTerminate || d.Attempt != 2 || d.Stage != v1alpha1.StagePrepare {
		t.Errorf("a broken recipe before the retry: %+v", d)
	}
}

func TestWhatEveryAttemptCostIsAddedUp(t *testing.T) {
	job := jobOf("j", 0, running(1))
	out := diagnose.Outcome{Usage: v1alpha1.Usage{Turns: 2, PromptTokens: 100, CompletionTokens: 10}, Err: errors.New("no"),
		Evidence: []diagnose.Evidence{{}}, Probes: []v1alpha1.ProbeAudit{{As: v1alpha1.ProbeAsUser}}}
	record(job, out, diagnose.Applied{})
	out.Err, out.Probes = nil, []v1alpha1.ProbeAudit{{As: v1alpha1.ProbeAsSystem}}
	record(job, out, diagnose.Applied{Diagnosis: v1alpha1.Diagnosis{Classification: v1alpha1.Working}})
	if diff := cmp.Diff(&v1alpha1.Usage{Turns: 4, PromptTokens: 200, CompletionTokens: 20}, job.Status.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if job.Status.ProbeCount != 2 || len(job.Status.Probes) != 1 || job.Status.Diagnosis.Classification != v1alpha1.Working {
		t.Errorf("status %+v", job.Status)
	}
}

// A budget may be used up, or another job find the answer, before a retry: what was decided and probed is kept, but the
// job waits for nothing.
func TestAJobThatClosesBeforeItsRetryWaitsForNothing(t *testing.T) {
	s := newSettled(t)
	s.fail(v1alpha1.FailureProviderTransient, "503", 0)
	s.job.Status.Probes = []v1alpha1.ProbeAudit{{As: v1alpha1.ProbeAsUser}}
	record(s.job, diagnose.Outcome{Exhausted: true, Fallback: "used up"}, diagnose.Applied{})
	if err := closeJob(t.Context(), s.client, s.recorder, s.job, ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonBudgetExhausted, message: "used up"}, t0); err != nil {
		t.Fatal(err)
	}
	want := `Complete=True/BudgetExhausted "used up"
Reconciling=False/BudgetExhausted ""
Stalled=False/BudgetExhausted ""`
	if diff := cmp.Diff(want, conditionsOf(s.job.Status)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if d := s.job.Status.Decision; d.Action != v1alpha1.RunRetry || d.Message != "503" || d.DueAt != nil || len(s.job.Status.Probes) != 1 {
		t.Errorf("probes %+v, receipt %+v", s.job.Status.Probes, d)
	}
}

func TestAVerdictThatCannotBeWrittenIsKept(t *testing.T) {
	job := jobOf("j", 0, running(1))
	job.Status.Diagnosis = &v1alpha1.Diagnosis{}
	end := notStored(job, v1alpha1.Diagnosis{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeProject, HumanNote: "refuses"}, errors.New("no quota"))
	d := decide(job, *end.failure, t0)
	if d.Action != v1alpha1.RunPreserve || d.Stage != v1alpha1.StageApply || d.Retryable || job.Status.Diagnosis != nil ||
		!strings.Contains(d.Message, "no quota: TECHNICALLY_BROKEN for scope PROJECT: refuses") {
		t.Errorf("decided %+v", d)
	}
}

func TestAnOutageOfTheAPIServerIsNoFaultOfACredential(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a busy API server": {fmt.Errorf("reading Secret: %w", apierrors.NewTooManyRequestsError("busy")), true},
		"no connection":     {fmt.Errorf("reading Secret: %w", &url.Error{Op: "Get", Err: errors.New("refused")}), true},
		"too late":          {fmt.Errorf("reading Secret: %w", context.DeadlineExceeded), true},
		"no such Secret":    {fmt.Errorf("%w: create it", probe.ErrCredentialNotFound), false},
		"another endpoint":  {fmt.Errorf("%w: mend it", probe.ErrCredentialNotAllowed), false},
		"nothing":           {nil, false},
	} {
		if got := isServerTrouble(tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOnlyWhatCostTokensIsJudgedByThem(t *testing.T) {
	r := &DiagnosisReconciler{Clock: testclock.NewFakePassiveClock(t0)}
	for name, tc := range map[string]struct {
		usage *v1alpha1.Usage
		want  string
	}{
		"nothing was asked":             {nil, ""},
		"the built-in diagnostician":    {&v1alpha1.Usage{Turns: 3}, ""},
		"a call that nothing came from": {&v1alpha1.Usage{Turns: 1}, ""},
		"as much as the target":         {&v1alpha1.Usage{Turns: 1, PromptTokens: 90, CompletionTokens: 10}, "True/WithinTokenTarget"},
		"more than the target":          {&v1alpha1.Usage{Turns: 1, PromptTokens: 90, CompletionTokens: 11}, "False/TokenTargetExceeded"},
	} {
		job, got := jobOf("j", 0, nil), ""
		job.Status.Usage = tc.usage
		r.judgeCost(job, 100)
		if c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionWithinTokenTarget); c != nil {
			got = string(c.Status) + "/" + c.Reason
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
