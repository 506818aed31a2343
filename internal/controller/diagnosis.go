package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/registry"
)

const (
	// maxAttempts is how often a job is begun: a manager that is lost during a run is forgiven once (design §5).
	maxAttempts = 2
	// waitTurn is how soon a job looks again whether another one of its fault has ended, and waitEach how much later
	// for each other open job of the tool: each of them looks at all the others.
	waitTurn = time.Second
	waitEach = 10 * time.Millisecond
	waitMost = 15 * time.Second
	// maxRun bounds one diagnosis with what is written after it: the longest deadline that a recipe may set, and
	// time to write.
	maxRun = 900*time.Second + cheapTimeout
)

// Chats gives the model that diagnoses. A nil ai asks for the operator's own.
type Chats func(ctx context.Context, ai *diagnose.AI) (llm.Chat, error)

// DiagnosisReconciler runs diagnoses, on the leader only, in a bounded pool of its own.
type DiagnosisReconciler struct {
	Client   client.Client
	Live     client.Reader
	Checker  *checker.Checker
	Engine   *diagnose.Engine
	Chats    Chats
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Holder is this manager's name in the jobs that it runs.
	Holder string
	// Workers is how many diagnoses run at once.
	Workers int
	// Queue is where the jobs come from.
	Queue <-chan event.TypedGenericEvent[*v1alpha1.DiagnosisJob]

	running faults
}

// Reconcile runs the diagnosis of a job, or leaves it for later.
func (r *DiagnosisReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &v1alpha1.DiagnosisJob{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isEnded(job) {
		return ctrl.Result{}, nil
	}
	d, err := r.decide(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	if end, over := isOver(job, d); over {
		job.Status.ErrorSignature = d.Verdict.Signature
		return ctrl.Result{}, closeJob(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
	}
	others, err := r.Checker.OpenJobs(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	fault := faultOf(d)
	if !isFirst(job, d, others) || !r.running.begin(fault) {
		return ctrl.Result{RequeueAfter: min(waitTurn+time.Duration(len(others))*waitEach, waitMost)}, nil
	}
	defer r.running.end(fault)
	// Uncached, since what follows is paid for.
	if err := r.Live.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isEnded(job) {
		return ctrl.Result{}, nil
	}
	if end, over := isOver(job, d); over {
		return ctrl.Result{}, closeJob(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
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

// isOver asks whether a job has to end without a run.
func isOver(job *v1alpha1.DiagnosisJob, d checker.Decision) (ending, bool) {
	if job.Status.Phase == v1alpha1.PhaseRunning {
		if job.Status.Attempts >= maxAttempts {
			return ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonAttemptsExhausted, stalled: true, message: fmt.Sprintf(
				"The manager was lost %d times while it diagnosed this: look at its logs, then report the error again", job.Status.Attempts)}, true
		}
		return ending{}, false
	}
	if d.Outcome != checker.Pending {
		return ending{reason: v1alpha1.CloseStale, why: string(d.Outcome), message: d.Message}, true
	}
	if row := coveredBy(d.Rows, d.Key.Signature, job.CreationTimestamp); row != nil {
		return ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonCovered, message: fmt.Sprintf(
			"Covered by a verdict made since: %s for scope %s by %s", row.Status.LastDiagnosis.Classification, row.Spec.Scope, row.Status.LastDiagnosis.By)}, true
	}
	return ending{}, false
}

// coveredBy returns the row whose verdict on the same error was made after a job was created. A verdict about one
// user is found on that user's row alone, so it covers nobody else. Requests to look again are covered by nothing.
func coveredBy(rows []*v1alpha1.ToolHealth, signature v1alpha1.ErrorSignature, created metav1.Time) *v1alpha1.ToolHealth {
	for _, row := range rows {
		if row == nil || row.Status.LastDiagnosis == nil || signature == v1alpha1.SignatureRecheck {
			continue
		}
		if last := row.Status.LastDiagnosis; last.ErrorSignature == signature && last.At.After(created.Time) {
			return row
		}
	}
	return nil
}

// fault is what is diagnosed once, whoever reports it: an error of the tool in one row.
type fault struct {
	row       health.Key
	signature v1alpha1.ErrorSignature
}

func faultOf(d checker.Decision) fault {
	return fault{
		row:       health.Key{Namespace: d.Place.Namespace(d.Key.Scope), Scope: d.Key.Scope, ScopeID: d.Key.ScopeID, Tool: d.Key.Tool},
		signature: d.Key.Signature,
	}
}

// faults are those that are being diagnosed.
type faults struct {
	mu   sync.Mutex
	open map[fault]bool
}

func (f *faults) begin(one fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[one] {
		return false
	}
	if f.open == nil {
		f.open = map[fault]bool{}
	}
	f.open[one] = true
	return true
}

func (f *faults) end(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, one)
}

// isFirst asks whether no older job of the same fault waits or runs in the project.
func isFirst(job *v1alpha1.DiagnosisJob, d checker.Decision, others []checker.OpenJob) bool {
	own := d.Key
	own.User = ""
	return !slices.ContainsFunc(others, func(other checker.OpenJob) bool {
		other.Key.User = ""
		return other.Key == own && registry.Older(other.Job, job)
	})
}

// run claims a job, diagnoses, writes what follows and closes the job.
func (r *DiagnosisReconciler) run(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) error {
	in, chat, err := r.prepare(ctx, job, d)
	var problem *stalledError
	if errors.As(err, &problem) {
		job.Status.ErrorSignature = in.Signature
		return closeJob(ctx, r.Client, r.Recorder, job, ending{reason: v1alpha1.CloseStale, why: problem.reason, stalled: true, message: problem.Error()}, r.Clock.Now())
	}
	if err != nil {
		return err
	}
	if err := r.claim(ctx, job, in.Signature); err != nil {
		return err
	}
	out := r.Engine.Run(ctx, in, chat)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("job %s was interrupted: %w", client.ObjectKeyFromObject(job), err) // Whoever leads next runs it again.
	}
	applied := diagnose.Decide(in, out, r.Clock.Now())
	end := endingOf(out, applied)
	for _, row := range applied.Rows {
		if err := r.apply(ctx, row); errors.Is(err, health.ErrFull) || errors.Is(err, health.ErrIdentity) {
			end.message += " (not stored: " + err.Error() + ")"
		} else if err != nil {
			return err
		}
	}
	record(job, out, applied)
	if used := out.Usage.PromptTokens + out.Usage.CompletionTokens; used > in.Limits.TokenTarget {
		end.message += fmt.Sprintf(" (it cost %d tokens, above the target of %d)", used, in.Limits.TokenTarget)
	}
	return r.finish(ctx, job, end)
}

// afterRun is how writes are tried again after a run, which is paid for and must not be lost to them: for about two
// minutes.
var afterRun = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 16, Cap: 15 * time.Second}

// apply writes one row that a verdict touches.
func (r *DiagnosisReconciler) apply(ctx context.Context, row diagnose.RowChange) error {
	return retry.OnError(afterRun, func(err error) bool {
		return ctx.Err() == nil && !errors.Is(err, health.ErrFull) && !errors.Is(err, health.ErrIdentity)
	}, func() error { return r.Checker.Store.Apply(ctx, row.Key, row.Change) })
}

// finish closes a job that was run. Reports of the same error that came in meanwhile may have added their messages:
// they are kept.
func (r *DiagnosisReconciler) finish(ctx context.Context, job *v1alpha1.DiagnosisJob, end ending) error {
	return retry.OnError(afterRun, func(err error) bool {
		return ctx.Err() == nil && !apierrors.IsNotFound(err) && !errors.Is(err, errTaken)
	}, func() error {
		err := closeJob(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
		if !apierrors.IsConflict(err) {
			return err
		}
		latest := &v1alpha1.DiagnosisJob{}
		if readErr := r.Live.Get(ctx, client.ObjectKeyFromObject(job), latest); readErr != nil {
			return readErr
		}
		if latest.UID != job.UID || latest.Status.Holder != job.Status.Holder || latest.Status.Attempts != job.Status.Attempts {
			return errTaken
		}
		job.ResourceVersion, job.Status.Signals = latest.ResourceVersion, latest.Status.Signals
		return err
	})
}

// errTaken says that somebody else runs a job that this manager ran.
var errTaken = errors.New("another manager has taken the job over")

// claim marks a job as run by this manager. A job that somebody else changed meanwhile is looked at again.
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
	if err := r.Client.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("claim job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	return nil
}

// record writes into a job's status what a run found.
func record(job *v1alpha1.DiagnosisJob, out diagnose.Outcome, applied diagnose.Applied) {
	job.Status.Probes = out.Probes
	job.Status.ProbeCount = int32(len(out.Evidence))
	job.Status.Usage = &out.Usage
	if out.Err == nil {
		job.Status.Diagnosis = &applied.Diagnosis
	}
}

// endingOf says how a run ends its job.
func endingOf(out diagnose.Outcome, applied diagnose.Applied) ending {
	found := fmt.Sprintf("%s for scope %s: %s", applied.Diagnosis.Classification, applied.Diagnosis.Scope, applied.Diagnosis.HumanNote)
	switch {
	case errors.Is(out.Err, context.DeadlineExceeded):
		return ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonDeadlineExceeded, stalled: true, message: out.Err.Error()}
	case out.Err != nil:
		return ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonModelUnavailable, stalled: true, message: out.Err.Error()}
	case out.Fallback != "":
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonFallback, message: found}
	default:
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonDiagnosed, message: found}
	}
}

// stalledError says why nothing can be diagnosed until a person mends something.
type stalledError struct {
	reason string
	err    error
}

func (e *stalledError) Error() string { return e.err.Error() }
func (e *stalledError) Unwrap() error { return e.err }

// prepare reads all that a diagnosis needs. A stalledError says that it cannot be had.
func (r *DiagnosisReconciler) prepare(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (diagnose.Input, llm.Chat, error) {
	in := diagnose.Input{Job: job, Signature: d.Key.Signature, Rows: d.Rows}
	var err error
	if in.Place, err = r.Checker.Place(ctx, job.Namespace); err != nil {
		return in, nil, err
	}
	if in.Rules, err = r.Checker.Cascade.Rules(ctx, in.Place); err != nil {
		return in, nil, err
	}
	if in.Tool, err = registry.Find(ctx, r.Client, job.Namespace, string(job.Spec.ToolName)); err != nil {
		return in, nil, err
	}
	project, err := r.recipe(ctx, in.Place.Project)
	if err != nil {
		return in, nil, err
	}
	tenant := project
	if in.Place.HasTenant() {
		if tenant, err = r.recipe(ctx, in.Place.Tenant); err != nil {
			return in, nil, err
		}
	}
	limits, ai, err := diagnose.ResolveRecipe(in.Place, project, tenant)
	if err != nil {
		return in, nil, &stalledError{v1alpha1.ReasonRecipeInvalid, err}
	}
	in.Limits = limits
	chat, err := r.Chats(ctx, ai)
	if err != nil {
		return in, nil, &stalledError{v1alpha1.ReasonModelUnavailable, err}
	}
	return in, chat, nil
}

// recipe returns the recipe of a namespace; nil: there is none.
func (r *DiagnosisReconciler) recipe(ctx context.Context, namespace string) (*v1alpha1.DiagnosisRecipe, error) {
	recipe := &v1alpha1.DiagnosisRecipe{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.RecipeName}, recipe)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read DiagnosisRecipe of namespace %s: %w", namespace, err)
	}
	return recipe, nil
}

// SetupWithManager registers the controller. It watches nothing: its jobs come from the queue.
func (r *DiagnosisReconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := controller.Options{MaxConcurrentReconciles: r.Workers, ReconciliationTimeout: maxRun}
	jobs := source.TypedChannel(r.Queue, &handler.TypedEnqueueRequestForObject[*v1alpha1.DiagnosisJob]{})
	return ctrl.NewControllerManagedBy(mgr).Named("diagnosis").WatchesRawSource(jobs).WithOptions(options).Complete(r)
}
