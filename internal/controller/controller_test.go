package controller

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

var t0 = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)

func at(after time.Duration) metav1.Time { return metav1.NewTime(t0.Add(after)) }

// jobOf builds a job that was created after t0.
func jobOf(name string, created time.Duration, change func(*v1alpha1.DiagnosisJobStatus)) *v1alpha1.DiagnosisJob {
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: name, UID: types.UID(name), CreationTimestamp: at(created)},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: "search", Scope: v1alpha1.ScopeProject},
		Status:     v1alpha1.DiagnosisJobStatus{Phase: v1alpha1.PhaseInit},
	}
	if change != nil {
		change(&job.Status)
	}
	return job
}

func closedAt(after time.Duration, attempts int32, reason v1alpha1.CloseReason) func(*v1alpha1.DiagnosisJobStatus) {
	return func(s *v1alpha1.DiagnosisJobStatus) {
		when := at(after)
		s.Phase, s.ClosedAt, s.Attempts, s.CloseReason = v1alpha1.PhaseClosed, &when, attempts, reason
	}
}

// endedFor is how a job without a run closes.
func endedFor(why string) func(*v1alpha1.DiagnosisJobStatus) {
	return func(s *v1alpha1.DiagnosisJobStatus) {
		closedAt(0, 0, v1alpha1.CloseDone)(s)
		setConditions(&s.Conditions, 1, t0, condition(v1alpha1.ConditionComplete, true, why, ""))
	}
}

func preserved(s *v1alpha1.DiagnosisJobStatus) {
	closedAt(0, 1, v1alpha1.CloseStale)(s)
	s.Decision = &v1alpha1.RunDecision{Action: v1alpha1.RunPreserve}
}

func TestClosedJobsGoWhenTheirTimeIsOver(t *testing.T) {
	for _, tc := range []struct {
		name     string
		status   func(*v1alpha1.DiagnosisJobStatus)
		now      time.Duration
		wantGone bool
		wantNext time.Duration
	}{
		{name: "a diagnosed job stays for the TTL", status: closedAt(0, 1, v1alpha1.CloseDone), now: 59 * time.Minute, wantNext: time.Minute},
		{name: "a diagnosed job goes after the TTL", status: closedAt(0, 1, v1alpha1.CloseDone), now: time.Hour, wantGone: true},
		{name: "a job that a rule decided stays for five minutes", status: endedFor(string(checker.Classified)), now: 4 * time.Minute, wantNext: time.Minute},
		{name: "a job that a rule decided goes after five minutes", status: endedFor(string(checker.Classified)), now: 5 * time.Minute, wantGone: true},
		{name: "a job that no budget was left for says so for the TTL", status: endedFor(v1alpha1.ReasonBudgetExhausted), now: 30 * time.Minute, wantNext: 30 * time.Minute},
		{name: "a job that a person has to look at stays over the weekend", now: 71 * time.Hour, wantNext: time.Hour, status: preserved},
		{name: "and goes after it", now: 72 * time.Hour, wantGone: true, status: preserved},
		{name: "a job without verdict says why for the TTL", status: closedAt(0, 0, v1alpha1.CloseStale), now: 30 * time.Minute, wantNext: 30 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := jobOf("j", 0, tc.status)
			c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(job).WithStatusSubresource(job).Build()
			r := &DiagnosisJobReconciler{Client: c, Clock: testclock.NewFakePassiveClock(t0.Add(tc.now)), TTL: time.Hour}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			if err != nil || result.RequeueAfter != tc.wantNext {
				t.Errorf("look again in %s (%v), want %s", result.RequeueAfter, err, tc.wantNext)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(job), job)
			if apierrors.IsNotFound(err) != tc.wantGone {
				t.Errorf("gone: %v (%v), want %v", apierrors.IsNotFound(err), err, tc.wantGone)
			}
		})
	}
}

func TestIsOver(t *testing.T) {
	pending := checker.Decision{Outcome: checker.Pending, Key: tenancy.JobKey{Signature: "http-5xx"}}
	rowWith := func(signature v1alpha1.ErrorSignature, after time.Duration) []*v1alpha1.ToolHealth {
		return []*v1alpha1.ToolHealth{nil, {Spec: v1alpha1.ToolHealthSpec{Scope: v1alpha1.ScopeProject}, Status: v1alpha1.ToolHealthStatus{
			LastDiagnosis: &v1alpha1.HealthDiagnosis{Classification: v1alpha1.Working, ErrorSignature: signature, By: "agrajag-engine/other", At: at(after)}}}}
	}
	with := func(d checker.Decision, change func(*checker.Decision)) checker.Decision {
		change(&d)
		return d
	}
	for _, tc := range []struct {
		name     string
		job      *v1alpha1.DiagnosisJob
		decision checker.Decision
		want     string
	}{
		{name: "a waiting job runs", job: jobOf("j", 0, nil), decision: pending},
		{name: "a job whose manager was lost once runs again", job: jobOf("j", 0, running(1)), decision: pending},
		{name: "a job whose manager was lost twice does not", job: jobOf("j", 0, running(2)), decision: pending, want: v1alpha1.ReasonAttemptsExhausted},
		{name: "what was answered since does not run", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) { d.Outcome = checker.CoolingDown }), want: v1alpha1.ReasonCoolingDown},
		{name: "a later verdict on the same error covers", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) { d.Rows = rowWith("http-5xx", time.Second) }), want: v1alpha1.ReasonCovered},
		{name: "that it covers is said, though it is fresh as well", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) {
				d.Outcome, d.Rows = checker.AlreadyDiagnosed, rowWith("http-5xx", time.Second)
			}), want: v1alpha1.ReasonCovered},
		{name: "a verdict of the same second may be older", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) { d.Rows = rowWith("http-5xx", 0) })},
		{name: "a verdict on another error covers nothing", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) { d.Rows = rowWith("timeout", time.Second) })},
		{name: "a request to look again is covered by nothing", job: jobOf("j", 0, nil),
			decision: with(pending, func(d *checker.Decision) {
				d.Key.Signature, d.Rows = v1alpha1.SignatureRecheck, rowWith(v1alpha1.SignatureRecheck, time.Second)
			})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			end, over := isOver(tc.job, tc.decision)
			if over != (tc.want != "") || end.why != tc.want {
				t.Errorf("over: %v (%s), want %q", over, end.why, tc.want)
			}
		})
	}
}

func TestTheOldestJobOfAFaultGoesFirst(t *testing.T) {
	key := tenancy.JobKey{Scope: v1alpha1.ScopeProject, ScopeID: "p", Tool: "search", Signature: "http-5xx", User: "alice"}
	other := func(name string, created time.Duration, change func(*tenancy.JobKey)) []checker.OpenJob {
		k := key
		k.User = "bob"
		if change != nil {
			change(&k)
		}
		return []checker.OpenJob{{Job: jobOf(name, created, nil), Key: k}}
	}
	begun := func(s *v1alpha1.DiagnosisJobStatus) { s.Attempts = 1 }
	already := func(others []checker.OpenJob, change func(*v1alpha1.DiagnosisJobStatus)) []checker.OpenJob {
		change(&others[0].Job.Status)
		return others
	}
	for _, tc := range []struct {
		name   string
		own    func(*v1alpha1.DiagnosisJobStatus)
		others []checker.OpenJob
		want   bool
	}{
		{name: "alone", want: true},
		{name: "a younger one that waits for its retry goes first", others: already(other("z", 2*time.Second, nil), begun)},
		{name: "as does one whose end could not be written", others: already(other("z", 2*time.Second, nil), running(1))},
		{name: "one's own retry goes before an older one", own: begun, others: other("a", 0, nil), want: true},
		{name: "of two that were begun the older goes first", own: begun, others: already(other("a", 0, nil), begun)},
		{name: "an older job of another user goes first", others: other("a", 0, nil)},
		{name: "a younger one does not", others: other("a", 2*time.Second, nil), want: true},
		{name: "of one second the name decides", others: other("a", time.Second, nil)},
		{name: "of one second the later name waits", others: other("z", time.Second, nil), want: true},
		{name: "another error is another fault", others: other("a", 0, func(k *tenancy.JobKey) { k.Signature = "timeout" }), want: true},
		{name: "another row is another fault", others: other("a", 0, func(k *tenancy.JobKey) { k.Scope, k.ScopeID = v1alpha1.ScopeUser, "bob" }), want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := isFirst(jobOf("j", time.Second, tc.own), checker.Decision{Key: key}, tc.others); got != tc.want {
				t.Errorf("first: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFaultsOfTwoProjectsAreTwo(t *testing.T) {
	key := tenancy.JobKey{Scope: v1alpha1.ScopeUser, ScopeID: "alice", Tool: "search", Signature: "http-5xx"}
	var running faults
	a := faultOf(checker.Decision{Key: key, Place: tenancy.Place{Project: "a", Tenant: "a"}})
	b := faultOf(checker.Decision{Key: key, Place: tenancy.Place{Project: "b", Tenant: "b"}})
	if !running.begin(a) || running.begin(a) || !running.begin(b) {
		t.Error("a fault runs twice, or blocks that of another project")
	}
	running.end(a)
	if !running.begin(a) {
		t.Error("a fault that has ended still runs")
	}
}
