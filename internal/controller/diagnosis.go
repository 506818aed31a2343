package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/llm"
)

const (
	// waitLook is when a job that waits for another one of its fault looks again by itself, at the earliest. It is woken
	// when that one closes; what else may spare it a run, such as a reported success, wakes nobody. Each look is at all
	// open jobs of the tool, so that together they look no more often than once in waitEach.
	waitLook = time.Minute
	waitEach = 100 * time.Millisecond
	// maxAfterRun is more than afterRun takes.
	maxAfterRun = 150 * time.Second
	// maxRun bounds one diagnosis with what is written after it: the longest deadline that a recipe may set, time to try
	// twice as long as one write may take, a row and the job, and time to read before it.
	maxRun = 900*time.Second + 2*maxAfterRun + cheapTimeout
)

// Chats gives the model that diagnoses. A nil ai asks for the operator's own.
type Chats func(ctx context.Context, ai *diagnose.AI) (llm.Chat, error)

// DiagnosisReconciler runs diagnoses, on the leader only, in a bounded pool of its own.
type DiagnosisReconciler struct {
	Client  client.Client
	Live    client.Reader
	Checker *checker.Checker
	Engine  *diagnose.Engine
	Chats   Chats
	// Budget keeps what may be spent in a day. Nil: nothing is counted.
	Budget   *budget.Keeper
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Holder is this manager's name in the jobs that it runs.
	Holder string
	// Workers is how many diagnoses run at once.
	Workers int
	// Queue is where the jobs come from.
	Queue <-chan event.TypedGenericEvent[*v1alpha1.DiagnosisJob]

	running faults
	starts  starts
	waiting waiting
	// wake queues a job anew; nil until the controller has started.
	wake func(job types.NamespacedName)
}

// Reconcile runs the diagnosis of a job, or leaves it for later.
func (r *DiagnosisReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &v1alpha1.DiagnosisJob{}
	err := r.Client.Get(ctx, req.NamespacedName, job)
	if apierrors.IsNotFound(err) || err == nil && isEnded(job) {
		r.waiting.remove(req.NamespacedName) // It may have ended just before it was added.
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read job %s: %w", req, err)
	}
	d, err := r.decide(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	if over, err := r.endWithoutRun(ctx, job, d); over || err != nil {
		return ctrl.Result{}, err
	}
	if left := dueIn(job, r.Clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	fault := faultOf(d)
	r.waiting.add(job, fault)
	others, err := r.Checker.OpenJobs(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !isFirst(job, d, others) || !r.running.begin(fault) {
		return ctrl.Result{RequeueAfter: max(waitLook, time.Duration(len(others))*waitEach)}, nil
	}
	r.waiting.remove(req.NamespacedName)
	defer r.release(fault)
	d, behind, err := r.afresh(ctx, job, fault)
	if err != nil || behind {
		return ctrl.Result{RequeueAfter: waitCache}, err
	}
	// Uncached, since what follows is paid for.
	if err := r.Live.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isEnded(job) {
		return ctrl.Result{}, nil
	}
	if over, err := r.endWithoutRun(ctx, job, d); over || err != nil {
		return ctrl.Result{}, err
	}
	if left := dueIn(job, r.Clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil // The cache did not know yet that the run had failed.
	}
	return ctrl.Result{}, r.run(ctx, job, d)
}

// isEnded reports whether nothing is left to be done for a job.
func isEnded(job *v1alpha1.DiagnosisJob) bool {
	return job.Status.Phase == v1alpha1.PhaseClosed || !job.DeletionTimestamp.IsZero()
}

// decide answers the job's report once more: since the job was queued, another one may have found the answer.
func (r *DiagnosisReconciler) decide(ctx context.Context, job *v1alpha1.DiagnosisJob) (checker.Decision, error) {
	report := checker.ReportOf(job)
	report.Job = job
	return r.Checker.Check(ctx, report, checker.DryRun)
}

// run claims a job, diagnoses, writes what follows and closes the job.
func (r *DiagnosisReconciler) run(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) error {
	in, chat, err := r.prepare(ctx, job, d)
	out := diagnose.Outcome{}
	if err == nil {
		out, err = r.afford(ctx, in)
	}
	var problem *stalledError
	if errors.As(err, &problem) {
		job.Status.ErrorSignature = in.Signature
		return closeJob(ctx, r.Client, r.Recorder, job, problem.ending(job), r.Clock.Now())
	}
	if err != nil {
		return err
	}
	if !out.Exhausted {
		if over, err := r.start(ctx, job, d); over || err != nil {
			return err
		}
		out = r.Engine.Run(ctx, in, chat)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("job %s was interrupted: %w", client.ObjectKeyFromObject(job), err) // Whoever leads next runs it again.
	}
	err = r.conclude(ctx, job, in, out)
	r.starts.found(faultOf(d).row, job.UID, checker.OnlyFor(job))
	return err
}

// conclude writes what follows from a run, or from a budget that was too small for one, and closes the job.
func (r *DiagnosisReconciler) conclude(ctx context.Context, job *v1alpha1.DiagnosisJob, in diagnose.Input, out diagnose.Outcome) error {
	if err := r.stillOurs(ctx, job); errors.Is(err, errTaken) {
		return err
	}
	applied := diagnose.Decide(in, out, r.Clock.Now())
	end := endingOf(in, out, applied)
	job.Status.ErrorSignature = in.Signature // Where no budget allowed it to begin, nobody has noted it yet.
	record(job, out, applied)
	r.judgeCost(job, in.Limits.TokenTarget)
	for _, row := range applied.Rows {
		err := r.apply(ctx, row)
		switch {
		case err == nil:
		case health.IsUnstorable(err):
			end.message += " (not stored: " + err.Error() + ")"
		case ctx.Err() != nil:
			return err
		default:
			end = notStored(job, applied.Diagnosis, err)
		}
	}
	return r.finish(ctx, job, end)
}

// afterRun is how writes are tried again after a run, which is paid for and must not be lost to them: for a little more
// than two minutes. It has no Cap, since a Backoff that reaches it ends.
var afterRun = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.25, Jitter: 0.1, Steps: 30}

// persist tries a write again, as afterRun says, while its error may pass, and returns the last.
func persist(ctx context.Context, mayPass func(error) bool, write func() error) (err error) {
	ended := wait.ExponentialBackoffWithContext(ctx, afterRun, func(context.Context) (done bool, _ error) {
		err = write()
		return err == nil || !mayPass(err), nil
	})
	if err == nil {
		return ended // Nothing was tried: it was interrupted before.
	}
	return err
}

// apply writes one row that a verdict touches.
func (r *DiagnosisReconciler) apply(ctx context.Context, row diagnose.RowChange) error {
	return persist(ctx, func(err error) bool {
		return !health.IsUnstorable(err)
	}, func() error { return r.Checker.Store.Apply(ctx, row.Key, row.Change) })
}

// finish closes a job that was run, or has it run once more. Reports of the same error that came in meanwhile may have
// added their messages: they are kept.
func (r *DiagnosisReconciler) finish(ctx context.Context, job *v1alpha1.DiagnosisJob, end ending) error {
	return persist(ctx, func(err error) bool {
		return !apierrors.IsNotFound(err) && !errors.Is(err, errTaken)
	}, func() error {
		err := settle(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
		if !apierrors.IsConflict(err) {
			return err
		}
		latest := &v1alpha1.DiagnosisJob{}
		if readErr := r.Live.Get(ctx, client.ObjectKeyFromObject(job), latest); readErr != nil {
			return readErr
		}
		if isTaken(job, latest) {
			return errTaken
		}
		job.ResourceVersion, job.Status.Signals = latest.ResourceVersion, latest.Status.Signals
		return err
	})
}

// errTaken says that somebody else runs a job that this manager ran.
var errTaken = errors.New("another manager has taken the job over")

// claim marks a job as run by this manager. A job that somebody else changed meanwhile is looked at again. A claim
// whose answer was lost may hold all the same: claimed again it would count an attempt that never was.
func (r *DiagnosisReconciler) claim(ctx context.Context, job *v1alpha1.DiagnosisJob, signature v1alpha1.ErrorSignature) error {
	now := metav1.NewTime(r.Clock.Now())
	job.Status.Phase, job.Status.Holder, job.Status.StartedAt = v1alpha1.PhaseRunning, r.Holder, &now
	job.Status.Attempts++
	job.Status.ErrorSignature = signature
	job.Status.ObservedGeneration = job.Generation
	setConditions(&job.Status.Conditions, job.Generation, now.Time,
		condition(v1alpha1.ConditionReconciling, true, v1alpha1.ReasonDiagnosing, "The tool is probed"),
		condition(v1alpha1.ConditionComplete, false, v1alpha1.ReasonDiagnosing, ""),
		condition(v1alpha1.ConditionStalled, false, v1alpha1.ReasonDiagnosing, ""))
	err := r.Client.Status().Update(ctx, job)
	if err == nil {
		return nil
	}
	latest := &v1alpha1.DiagnosisJob{}
	readErr := r.Live.Get(ctx, client.ObjectKeyFromObject(job), latest)
	if readErr != nil || latest.UID != job.UID || latest.Status.Phase != v1alpha1.PhaseRunning || latest.Status.Holder != r.Holder || latest.Status.Attempts != job.Status.Attempts {
		return fmt.Errorf("claim job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	latest.DeepCopyInto(job)
	return nil
}

// release ends a fault's diagnosis and wakes the oldest job that waits for it, be it of another project.
func (r *DiagnosisReconciler) release(one fault) {
	r.running.end(one)
	for _, job := range r.waiting.take(func(other waiter) bool { return other.fault == one }) {
		if r.wake != nil {
			r.wake(job)
		}
	}
}

// SetupWithManager registers the controller. Its jobs come from the queue; it watches them only to see which close.
func (r *DiagnosisReconciler) SetupWithManager(mgr ctrl.Manager) error {
	newQueue := newFairQueue(tenants(r.Client))
	options := controller.Options{MaxConcurrentReconciles: r.Workers, ReconciliationTimeout: maxRun}
	options.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		queue := newQueue(name, limiter)
		r.wake = func(job types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: job}) }
		return queue
	}
	jobs := source.TypedChannel(r.Queue, &handler.TypedEnqueueRequestForObject[*v1alpha1.DiagnosisJob]{})
	return ctrl.NewControllerManagedBy(mgr).Named("diagnosis").WatchesRawSource(jobs).
		Watches(&v1alpha1.DiagnosisJob{}, r.waiting.afterClose()).WithOptions(options).Complete(r)
}
