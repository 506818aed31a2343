package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// ending is how a job closes.
type ending struct {
	reason v1alpha1.CloseReason
	// why is a reason of the condition Complete.
	why     string
	message string
	// stalled says that a person has to mend something.
	stalled bool
}

// closeJob closes a job with one status write, and tells of it after that.
func closeJob(ctx context.Context, c client.Client, recorder events.EventRecorder, job *v1alpha1.DiagnosisJob, end ending, now time.Time) error {
	at := metav1.NewTime(now)
	job.Status.Phase, job.Status.CloseReason, job.Status.ClosedAt = v1alpha1.PhaseClosed, end.reason, &at
	job.Status.ObservedGeneration = job.Generation
	message := text.Plain(end.message, 1024)
	if end.stalled {
		job.Status.Decision = text.Plain(end.message, 500)
	}
	setConditions(&job.Status.Conditions, job.Generation, now,
		condition(v1alpha1.ConditionComplete, true, end.why, message),
		condition(v1alpha1.ConditionReconciling, false, end.why, ""),
		condition(v1alpha1.ConditionStalled, end.stalled, end.why, message))
	if err := c.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("close job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	kind := corev1.EventTypeNormal
	if end.stalled {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(job, nil, kind, end.why, "Close", "%s", text.Cut(message, 1000))
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
