package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// clearTTL is how long a job is kept that a rule decided: its answer is in ToolHealth (design §4).
const clearTTL = 5 * time.Minute

// preservedTTL is how long a job is kept that a person has to look at: over a weekend. A later report of the same error may
// still take its name (design §4).
const preservedTTL = 72 * time.Hour

// DiagnosisJobReconciler does everything for a job that costs no model: it decides reports that the webhooks did
// not see, hands the unclear ones to the diagnosis, and deletes closed jobs when their time is over.
type DiagnosisJobReconciler struct {
	Client   client.Client
	Checker  *checker.Checker
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Queue hands jobs to the diagnosis.
	Queue chan<- event.TypedGenericEvent[*v1alpha1.DiagnosisJob]
	// TTL is how long a closed job is kept.
	TTL time.Duration
}

// Reconcile takes a job one step further.
func (r *DiagnosisJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &v1alpha1.DiagnosisJob{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !job.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case job.Status.Phase == v1alpha1.PhaseClosed:
		return r.expire(ctx, job)
	case job.Status.Phase == v1alpha1.PhaseRunning:
		return ctrl.Result{}, r.diagnose(ctx, job)
	}
	if redact.Job(job) { // The webhook was away: what it leaves out must go before anything else is done.
		if err := r.Client.Update(ctx, job); err != nil {
			return ctrl.Result{}, fmt.Errorf("take secrets out of job %s: %w", req, err)
		}
	}
	return ctrl.Result{}, r.decide(ctx, job)
}

// decide answers the job's report anew, whatever the webhook said, and closes the job unless a diagnosis is due.
func (r *DiagnosisJobReconciler) decide(ctx context.Context, job *v1alpha1.DiagnosisJob) error {
	report := checker.ReportOf(job)
	report.Job = job
	d, err := r.Checker.Check(ctx, report, checker.Decide)
	if err != nil {
		return err
	}
	if d.Outcome == checker.Pending {
		return r.diagnose(ctx, job)
	}
	job.Status.ErrorSignature = d.Verdict.Signature
	end := ending{reason: v1alpha1.CloseStale, why: string(d.Outcome), message: d.Message}
	if d.Outcome == checker.Classified {
		end.reason = v1alpha1.CloseDone
		job.Status.Diagnosis = &v1alpha1.Diagnosis{
			Classification: d.Class, Scope: cmp.Or(d.Scope, job.Spec.Scope),
			HumanNote: text.Plain(d.Message, 500), UserActionHint: text.Plain(d.Hint, 200),
		}
	}
	return closeJob(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
}

// diagnose hands a job to the diagnosis.
func (r *DiagnosisJobReconciler) diagnose(ctx context.Context, job *v1alpha1.DiagnosisJob) error {
	select {
	case r.Queue <- event.TypedGenericEvent[*v1alpha1.DiagnosisJob]{Object: job}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hand job %s to the diagnosis: %w", client.ObjectKeyFromObject(job), ctx.Err())
	}
}

// expire deletes a closed job when its time is over.
func (r *DiagnosisJobReconciler) expire(ctx context.Context, job *v1alpha1.DiagnosisJob) (ctrl.Result, error) {
	ttl := r.TTL
	if complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete); complete != nil && complete.Reason == v1alpha1.ReasonClassified {
		ttl = min(ttl, clearTTL)
	}
	if d := job.Status.Decision; d != nil && d.Action == v1alpha1.RunPreserve {
		ttl = max(ttl, preservedTTL)
	}
	closedAt := job.CreationTimestamp
	if job.Status.ClosedAt != nil {
		closedAt = *job.Status.ClosedAt
	}
	if left := closedAt.Add(ttl).Sub(r.Clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion})
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// SetupWithManager registers the controller. Here, too, tenants take turns: one that reports thousands of errors at
// once must not keep another one's first from the diagnosis.
func (r *DiagnosisJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := cheap()
	options.NewQueue = newFairQueue(tenants(r.Client))
	return ctrl.NewControllerManagedBy(mgr).Named("diagnosisjob").For(&v1alpha1.DiagnosisJob{}).WithOptions(options).Complete(r)
}
