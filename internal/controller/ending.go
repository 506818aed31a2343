package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// ending is how a job closes.
type ending struct {
	reason v1alpha1.CloseReason
	// why is a reason of the condition Complete.
	why     string
	message string
	// failure is why a run itself failed, so that a person may have to mend something; nil: none failed.
	failure *runfailure.Failure
}

// failed is the ending of a job whose run failed.
func failed(why string, f runfailure.Failure) ending {
	return ending{reason: v1alpha1.CloseStale, why: why, message: f.Message, failure: &f}
}

// decide says what is done about a failed run, and keeps the receipt in the job's status. Asked again about the same
// attempt it says the same.
func decide(job *v1alpha1.DiagnosisJob, f runfailure.Failure, now time.Time) v1alpha1.RunDecision {
	var past []v1alpha1.RunDecision
	if job.Status.Decision != nil {
		past = append(past, *job.Status.Decision)
	}
	d := runfailure.Decide(f, past, now)
	job.Status.Decision = &d
	return d
}

// dueIn returns how long a job has to wait for its retry; 0 or less: not any more, or it waits for none.
func dueIn(job *v1alpha1.DiagnosisJob, now time.Time) time.Duration {
	d := job.Status.Decision
	if job.Status.Phase == v1alpha1.PhaseRunning || d == nil || d.Action != v1alpha1.RunRetry || d.DueAt == nil {
		return 0
	}
	return min(d.DueAt.Sub(now), runfailure.MaxDelay)
}

// settle closes a job after its run, or has it run once more if the run failed in a way that may pass.
func settle(ctx context.Context, c client.Client, recorder events.EventRecorder, job *v1alpha1.DiagnosisJob, end ending, now time.Time) error {
	if end.failure != nil && decide(job, *end.failure, now).Action == v1alpha1.RunRetry {
		return postpone(ctx, c, recorder, job, now)
	}
	return closeJob(ctx, c, recorder, job, end, now)
}

// postpone puts a job back into the queue until its retry is due. The time stands in the job, so that it outlives a
// manager; no worker waits for it.
func postpone(ctx context.Context, c client.Client, recorder events.EventRecorder, job *v1alpha1.DiagnosisJob, now time.Time) error {
	d := job.Status.Decision
	job.Status.Phase = v1alpha1.PhaseInit
	message := text.Plain(fmt.Sprintf("The run failed and is tried once more at %s: %s", d.DueAt.UTC().Format(time.RFC3339), d.Message), 1024)
	setConditions(&job.Status.Conditions, job.Generation, now,
		condition(v1alpha1.ConditionReconciling, true, v1alpha1.ReasonRetrying, message),
		condition(v1alpha1.ConditionComplete, false, v1alpha1.ReasonRetrying, ""),
		condition(v1alpha1.ConditionStalled, false, v1alpha1.ReasonRetrying, ""))
	if err := c.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("postpone job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	recorder.Eventf(job, nil, corev1.EventTypeWarning, v1alpha1.ReasonRetrying, "Retry", "%s", text.Cut(message, 1000))
	return nil
}

// closeJob closes a job with one status write, and tells of it after that.
func closeJob(ctx context.Context, c client.Client, recorder events.EventRecorder, job *v1alpha1.DiagnosisJob, end ending, now time.Time) error {
	at := metav1.NewTime(now)
	job.Status.Phase, job.Status.CloseReason, job.Status.ClosedAt = v1alpha1.PhaseClosed, end.reason, &at
	job.Status.ObservedGeneration = job.Generation
	message, mend, stalled := text.Plain(end.message, 1024), "", end.failure != nil
	if stalled {
		message = text.Plain(conclusion(decide(job, *end.failure, now))+end.message, 1024)
		mend = message
	}
	if d := job.Status.Decision; d != nil {
		d.DueAt = nil // Whatever was decided, a closed job is not run again.
	}
	setConditions(&job.Status.Conditions, job.Generation, now,
		condition(v1alpha1.ConditionComplete, true, end.why, message),
		condition(v1alpha1.ConditionReconciling, false, end.why, ""),
		condition(v1alpha1.ConditionStalled, stalled, end.why, mend))
	if err := c.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("close job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	countClosed(job, end.why)
	kind := corev1.EventTypeNormal
	if stalled {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(job, nil, kind, end.why, "Close", "%s", text.Cut(message, 1000))
	return nil
}

// conclusion begins the message of a job that a failure ends.
func conclusion(d v1alpha1.RunDecision) string {
	switch {
	case d.Action == v1alpha1.RunPreserve:
		return "The run failed, and a person has to look at it: "
	case d.Reason == runfailure.ReasonSameFailureAgain:
		return "The run failed twice in the same way: "
	case d.Reason == runfailure.ReasonRetriedBefore:
		return "The run failed twice: "
	default:
		return "The run failed: "
	}
}

// record writes into a job's status what a run found. What it cost is added to what an earlier attempt cost.
func record(job *v1alpha1.DiagnosisJob, out diagnose.Outcome, applied diagnose.Applied) {
	if len(out.Probes) > 0 { // Else what an earlier attempt probed is not forgotten.
		job.Status.Probes = out.Probes
	}
	job.Status.ProbeCount += int32(len(out.Evidence))
	if job.Status.Usage == nil {
		job.Status.Usage = &v1alpha1.Usage{}
	}
	job.Status.Usage.Turns += out.Usage.Turns
	job.Status.Usage.PromptTokens += out.Usage.PromptTokens
	job.Status.Usage.CompletionTokens += out.Usage.CompletionTokens
	if out.Err == nil {
		job.Status.Diagnosis = &applied.Diagnosis
	}
}

// endingOf says how a run ends its job.
func endingOf(in diagnose.Input, out diagnose.Outcome, applied diagnose.Applied) ending {
	switch {
	case out.Err != nil:
		f := diagnose.FailureOf(in, out.Err)
		f.Attempt = in.Job.Status.Attempts
		why := v1alpha1.ReasonModelUnavailable
		if f.Kind == diagnose.FailedDeadline {
			why = v1alpha1.ReasonDeadlineExceeded
		}
		return failed(why, f)
	case out.Exhausted:
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonBudgetExhausted, message: found(applied.Diagnosis)}
	case out.NotKept:
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonBudgetNotKept, message: found(applied.Diagnosis)}
	case out.Ceiling:
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonTokenCeilingReached, message: found(applied.Diagnosis)}
	case out.Fallback != "":
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonFallback, message: found(applied.Diagnosis)}
	default:
		return ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonDiagnosed, message: found(applied.Diagnosis)}
	}
}

// notStored is the ending of a job whose verdict could not be written. Another run would be paid for and find the same,
// so the verdict is kept for a person: in the receipt, as status.diagnosis says what is in force.
func notStored(job *v1alpha1.DiagnosisJob, d v1alpha1.Diagnosis, err error) ending {
	job.Status.Diagnosis = nil
	return failed(v1alpha1.ReasonNotStored, runfailure.Failure{
		Category: v1alpha1.FailureWorkspace, Stage: v1alpha1.StageApply, Kind: diagnose.FailedStore, Final: true, Attempt: job.Status.Attempts,
		Message: fmt.Sprintf("the verdict could not be written into ToolHealth: %s: %s", text.Plain(err.Error(), 200), found(d)),
	})
}

// found tells a verdict.
func found(d v1alpha1.Diagnosis) string {
	return fmt.Sprintf("%s for scope %s: %s", d.Classification, d.Scope, d.HumanNote)
}
