package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// endWithoutRun closes a job that has to end without a run, and reports whether it did.
func (r *DiagnosisReconciler) endWithoutRun(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (over bool, err error) {
	if job.Status.Phase == v1alpha1.PhaseRunning {
		found, err := r.written(ctx, job, d)
		if err != nil {
			return false, err
		}
		if found != nil {
			latest := &v1alpha1.DiagnosisJob{} // The cache may not know yet that the job was closed with it.
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), latest); err != nil {
				return true, client.IgnoreNotFound(err)
			}
			if isEnded(latest) {
				return true, nil
			}
			*job = *latest
			job.Status.Diagnosis, job.Status.Holder = found, r.Holder // Should the one that ran it live after all, it is not its job any more.
			return true, r.finish(ctx, job, ending{reason: v1alpha1.CloseDone, why: v1alpha1.ReasonDiagnosed, message: foundBefore(*found)})
		}
	}
	end, over := isOver(job, d)
	if !over {
		return false, nil
	}
	job.Status.ErrorSignature = d.Verdict.Signature
	return true, closeJob(ctx, r.Client, r.Recorder, job, end, r.Clock.Now())
}

// written returns the verdict of an earlier run of a job whose manager was lost after it had written the row and before it
// closed the job; nil: there is none. Another run would be paid for, and a row takes one verdict of each report, so that the
// job would tell another one than is in force. It reads uncached: whoever takes over may not have seen that write.
func (r *DiagnosisReconciler) written(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (*v1alpha1.Diagnosis, error) {
	user := tenancy.User(string(job.Spec.OriginatingUserID))
	for _, key := range health.CallerKeys(d.Place, string(job.Spec.ToolName), user, job.Spec.OriginatingSessionID) {
		row := &v1alpha1.ToolHealth{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name()}, row)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read row %s: %w", key, err)
		}
		if last := row.Status.LastDiagnosis; last != nil && last.Report == string(job.UID) && health.KeyOf(row) == key {
			return &v1alpha1.Diagnosis{Classification: last.Classification, Scope: key.Scope, HumanNote: last.Note, UserActionHint: last.UserActionHint,
				ExpectedRecoveryAt: row.Status.ExpectedRecoveryAt}, nil
		}
	}
	return nil, nil
}

// foundBefore tells a verdict that an earlier run has written.
func foundBefore(d v1alpha1.Diagnosis) string {
	return found(d) + " (by a run whose manager was lost before it closed the job)"
}

// stillOurs returns errTaken if another manager has begun or closed a job that this one runs: what this one found must not be
// written beside what the other one did.
func (r *DiagnosisReconciler) stillOurs(ctx context.Context, job *v1alpha1.DiagnosisJob) error {
	latest := &v1alpha1.DiagnosisJob{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), latest); err != nil {
		return err
	}
	if isTaken(job, latest) {
		return errTaken
	}
	return nil
}

// isTaken reports whether another manager holds a job that this one ran, by what is stored of it.
func isTaken(job, latest *v1alpha1.DiagnosisJob) bool {
	return latest.UID != job.UID || latest.Status.Holder != job.Status.Holder || latest.Status.Attempts != job.Status.Attempts
}
