package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
)

// maxAttempts is how often a job is begun: a manager that is lost during a run is forgiven once, as is a run that fails
// in a way that may pass, but not both (design §5).
const maxAttempts = 2

// isOver asks whether a job has to end without a run.
func isOver(job *v1alpha1.DiagnosisJob, d checker.Decision) (ending, bool) {
	if job.Status.Phase == v1alpha1.PhaseRunning {
		if job.Status.Attempts >= maxAttempts {
			return failed(v1alpha1.ReasonAttemptsExhausted, runfailure.Failure{
				Category: v1alpha1.FailureWorkspace, Kind: diagnose.FailedManager, Attempt: job.Status.Attempts,
				Message: "the manager was lost while it diagnosed this: look at its log, then report the error again",
			}), true
		}
		return ending{}, false
	}
	if row := coveredBy(d.Rows, d.Key.Signature, job.CreationTimestamp); row != nil {
		return ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonCovered, message: fmt.Sprintf(
			"Covered by a verdict made since: %s for scope %s by %s", row.Status.LastDiagnosis.Classification, row.Spec.Scope, row.Status.LastDiagnosis.By)}, true
	}
	if d.Outcome != checker.Pending {
		return ending{reason: v1alpha1.CloseStale, why: string(d.Outcome), message: d.Message}, true
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

// waitCache is how soon a job is looked at again that waits for the cache alone.
const waitCache = 200 * time.Millisecond

// afresh decides a job once more when no other run of its fault is under way any more: since it was decided one may have
// ended. The cache is behind if it still shows such a run's job as open; whether that one found anything it cannot tell.
func (r *DiagnosisReconciler) afresh(ctx context.Context, job *v1alpha1.DiagnosisJob, one fault) (d checker.Decision, behind bool, err error) {
	others, err := r.Checker.OpenJobs(ctx, job)
	if err != nil {
		return d, false, err
	}
	for _, other := range others {
		if other.Key.Signature == one.signature && r.starts.has(one.row, other.Job.UID) {
			return d, true, nil
		}
	}
	d, err = r.decide(ctx, job)
	return d, false, err
}

// isFirst asks whether no job of the same fault that comes first waits or runs in the project.
func isFirst(job *v1alpha1.DiagnosisJob, d checker.Decision, others []checker.OpenJob) bool {
	own := d.Key.OfAnybody()
	return !slices.ContainsFunc(others, func(other checker.OpenJob) bool {
		return other.Key.OfAnybody() == own && checker.ComesFirst(other.Job, job)
	})
}
