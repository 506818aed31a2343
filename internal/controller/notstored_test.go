package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// reportOf builds a report of a failed call.
func reportOf(name string, user v1alpha1.UserID, change func(*v1alpha1.DiagnosisJobStatus)) *v1alpha1.DiagnosisJob {
	job := jobOf(name, 0, change)
	job.Spec.OriginatingUserID, job.Spec.Error = user, &v1alpha1.ToolError{HTTPStatus: new(int32(500))}
	return job
}

// reconciler builds one that diagnoses by itself and counts how often, on an API server that holds some objects.
func reconciler(interfere interceptor.Funcs, asked *int, objects ...client.Object) *DiagnosisReconciler {
	c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithInterceptorFuncs(interfere).
		WithObjects(objects...).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "p"}}).
		WithStatusSubresource(&v1alpha1.DiagnosisJob{}, &v1alpha1.ToolHealth{}).
		WithIndex(&v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool).
		WithIndex(&v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs).Build()
	now, recorder := testclock.NewFakePassiveClock(t0), events.NewFakeRecorder(10)
	return &DiagnosisReconciler{
		Client: c, Live: c, Clock: now, Recorder: recorder, Holder: "me",
		Checker: &checker.Checker{Cache: c, Live: c, Cascade: checker.NewCascade(c), Clock: now, OperatorNamespace: "agrajag-system",
			Store: health.NewStore(health.StoreOptions{Client: c, Live: c, Clock: now, Recorder: recorder})},
		Engine: &diagnose.Engine{Prober: probe.New(probe.Options{Clock: now}), Credentials: probe.Credentials{Reader: c}, Clock: now},
		Chats: func(context.Context, *diagnose.AI) (llm.Chat, error) {
			*asked++
			return llm.Builtin{}, nil
		},
	}
}

// A job that waits for its retry, or whose end could not be written, and another user's of the same fault that counts as
// older do not wait for each other.
func TestAJobThatWasBegunIsNotOvertaken(t *testing.T) {
	due := at(0)
	for name, begun := range map[string]func(*v1alpha1.DiagnosisJobStatus){
		"its retry is due": func(s *v1alpha1.DiagnosisJobStatus) {
			s.Attempts, s.Decision = 1, &v1alpha1.RunDecision{Action: v1alpha1.RunRetry, Attempt: 1, DueAt: &due}
		},
		"its end could not be written": running(1),
	} {
		t.Run(name, func(t *testing.T) {
			older, retried := reportOf("a", "alice", nil), reportOf("b", "bob", begun)
			asked := 0
			r := reconciler(interceptor.Funcs{}, &asked, older, retried)
			row := health.Key{Namespace: "p", Scope: v1alpha1.ScopeProject, ScopeID: "p", Tool: "search"}
			r.starts.begin(row, "bob", checker.Start{Job: "b", UID: "b", At: t0}, nil, 0)
			for _, job := range []*v1alpha1.DiagnosisJob{older, retried, older} {
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}); err != nil {
					t.Fatal(err)
				}
			}
			for _, job := range []*v1alpha1.DiagnosisJob{older, retried} {
				if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || job.Status.Phase != v1alpha1.PhaseClosed {
					t.Errorf("job %s is in phase %s (%v)", job.Name, job.Status.Phase, err)
				}
			}
			if retried.Status.Attempts != 2 || asked > 2 {
				t.Errorf("begun %d times, %d runs in all", retried.Status.Attempts, asked)
			}
		})
	}
}

func TestWritesAfterARunAreTriedForTwoMinutes(t *testing.T) {
	left, waited, longest := afterRun, time.Duration(0), time.Duration(0)
	for left.Steps > 1 { // After the last try nothing is waited for.
		pause := left.Step()
		waited, longest = waited+pause, max(longest, pause)
	}
	if waited < 2*time.Minute || waited > maxAfterRun || longest > 45*time.Second {
		t.Errorf("tried for %s, with up to %s between two tries", waited, longest)
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	before := afterRun
	afterRun = wait.Backoff{Steps: 3}
	t.Cleanup(func() { afterRun = before })
	passes, stays := errors.New("busy"), errors.New("refused")
	for _, tc := range []struct {
		name        string
		interrupted bool
		errors      []error
		want        error
		wantTries   int
	}{
		{name: "what is written at once", errors: []error{nil}, wantTries: 1},
		{name: "what is written after all", errors: []error{passes, nil}, wantTries: 2},
		{name: "what is refused", errors: []error{passes, stays}, want: stays, wantTries: 2},
		{name: "what never passes", errors: []error{passes, passes, passes}, want: passes, wantTries: 3},
		{name: "what was interrupted before is no success", interrupted: true, want: context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.interrupted {
				cancel()
			}
			tries := 0
			err := persist(ctx, func(err error) bool { return errors.Is(err, passes) }, func() error {
				tries++
				return tc.errors[tries-1]
			})
			if !errors.Is(err, tc.want) || tries != tc.wantTries {
				t.Errorf("%v after %d tries, want %v after %d", err, tries, tc.want, tc.wantTries)
			}
		})
	}
}

// A verdict that the API server does not take, however often it is asked, is neither lost nor paid for again.
func TestAVerdictThatIsNeverTakenIsToldAndNotPaidForAgain(t *testing.T) {
	before := afterRun
	afterRun = wait.Backoff{Steps: 3}
	t.Cleanup(func() { afterRun = before })
	report := reportOf("j", "", nil)
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "search", UID: "row"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, ScopeID: "p"}}
	tries := 0
	refuses := interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		if _, isRow := o.(*v1alpha1.ToolHealth); isRow {
			tries++
			return errors.New("the quota of disk pages is used up")
		}
		return c.SubResource(sub).Update(ctx, o, opts...)
	}}
	asked := 0
	r := reconciler(refuses, &asked, report, row)
	c := r.Client
	for range 2 { // The second time finds the job closed.
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(report)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(report), report); err != nil {
		t.Fatal(err)
	}
	d := report.Status.Decision
	if report.Status.Phase != v1alpha1.PhaseClosed || report.Status.Attempts != 1 || asked != 1 || tries != 3 || d == nil || d.Action != v1alpha1.RunPreserve ||
		report.Status.Diagnosis != nil || !strings.Contains(d.Message, "disk pages") || !strings.Contains(d.Message, "UNCLEAR for scope PROJECT") {
		t.Errorf("after %d runs and %d tries: %+v, decided %+v", asked, tries, report.Status, d)
	}
}
