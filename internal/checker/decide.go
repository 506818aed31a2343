package checker

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

const (
	// justClosed is how long a closed job still stands for the cooldown of an unclear error (design §4).
	justClosed = 30 * time.Second
	// recheckEvery is how often a row may be looked at on request (design §4).
	recheckEvery = 10 * time.Second
)

// facts are all that a decision is made from.
type facts struct {
	now    time.Time
	report Report
	rows   []*v1alpha1.ToolHealth
	jobs   []jobFact
	window time.Duration
	// maxWait bounds every wait; zero: health.MaxWait.
	maxWait time.Duration
	// perHour bounds the diagnoses of a row within the hour; zero: not at all.
	perHour int
}

// jobFact is a job of the same tool, other than the one that carries the report.
type jobFact struct {
	job *v1alpha1.DiagnosisJob
	key tenancy.JobKey
}

// decide completes a decision that holds verdict and key. It is the decision tree of specification §4.1, a list
// of questions of which the first that is answered decides.
func decide(d *Decision, f facts) {
	f.maxWait = cmp.Or(f.maxWait, health.MaxWait)
	d.Rows = f.rows
	d.Health = health.Effective(f.rows, f.now)
	questions := []func(*Decision, facts) bool{coolingDown, classified, coalesced, alreadyDiagnosed, tooOften}
	if f.report.Trigger.IsRecheck() {
		questions = []func(*Decision, facts) bool{joined, tooOften}
	}
	d.Outcome = Pending
	if !f.report.Trigger.IsRecheck() {
		d.RetryAfter = justClosed
	}
	for _, answered := range questions {
		if answered(d, f) {
			break
		}
	}
	if job := f.job(func(other jobFact) bool { return other.job.Name == d.Job }); d.Outcome == Coalesced && job != nil {
		d.News = isNews(job, signalMessage(f.report.Error))
	}
	describe(d, f)
}

// coolingDown asks whether the same error was answered a little while ago, on any of the caller's rows. A call that
// worked is no error: it ends the cooldown. An answer that now asks for a longer wait extends it.
func coolingDown(d *Decision, f facts) bool {
	if d.Verdict.Class == v1alpha1.Working {
		return false
	}
	asked := extending(d.Verdict, f.maxWait)
	for _, row := range f.rows {
		if cooldown := health.ActiveCooldown(row, d.Verdict.Signature, f.now); cooldown != nil {
			if f.report.ID != "" && cooldown.LastReport == f.report.ID {
				continue // This very report began it: it is being answered again.
			}
			if asked > cooldown.Until.Sub(f.now) {
				continue
			}
			d.Outcome, d.Class, d.RetryAfter, d.Scope = CoolingDown, cooldown.Classification, cooldown.Until.Sub(f.now), row.Spec.Scope
			return true
		}
	}
	return false
}

// extending returns the wait that an answer states, as far as it may extend a cooldown that runs. Of a server that asks
// for the same wait each time, the deadline moves a little with each report: less than a tenth of the wait is no news
// worth a write.
func extending(v classify.Verdict, maxWait time.Duration) time.Duration {
	if !v.Stated {
		return 0
	}
	return min(v.Wait, cmp.Or(maxWait, health.MaxWait)) * 9 / 10
}

// classified asks whether the rules decided: by a clear class, or by writing the tool's health themselves.
func classified(d *Decision, f facts) bool {
	if d.Verdict.Class == v1alpha1.Unclear && d.Verdict.Action == v1alpha1.HealthActionNone {
		return false
	}
	d.Outcome, d.RetryAfter = Classified, waitOf(*d, f)
	if row, ok := rowFor(d.Place, f.report, d.Verdict.Class); ok {
		d.Scope = row.Scope
	}
	return true
}

// coalesced asks whether a job for the same error is open, or closed so lately that it still counts.
func coalesced(d *Decision, f facts) bool {
	if other := f.job(func(other jobFact) bool { return other.key == d.Key && f.waitsFor(other) }); other != nil {
		d.Outcome, d.Job, d.RetryAfter = Coalesced, other.Name, justClosed
		return true
	}
	other := f.job(func(other jobFact) bool {
		return other.key == d.Key && endedWithin(other.job, justClosed, f.now) && !foundWorking(other.job)
	})
	if other == nil {
		return false
	}
	d.Outcome, d.Job, d.JobEnded, d.RetryAfter = Coalesced, other.Name, true, leftOf(justClosed, other, f.now)
	return true
}

// alreadyDiagnosed asks whether a fresh verdict on the same error is in force, or a run that ended without one
// shows that another would end the same.
func alreadyDiagnosed(d *Decision, f facts) bool {
	if row := d.Health.Row; row != nil && d.Health.State != v1alpha1.StateOK && !d.Health.Retesting {
		last := row.Status.LastDiagnosis
		if last != nil && last.ErrorSignature == d.Verdict.Signature && f.now.Sub(last.At.Time) < f.window {
			d.Outcome, d.Class, d.Scope = AlreadyDiagnosed, last.Classification, row.Spec.Scope
			d.RetryAfter = f.window - f.now.Sub(last.At.Time)
			if at := d.Health.RecoveryAt(); at != nil && at.After(f.now) {
				d.RetryAfter = at.Sub(f.now)
			}
			return true
		}
	}
	// Why a run found nothing has to do with models and budgets, never with the user.
	key := d.Key.OfAnybody()
	other := f.job(func(other jobFact) bool {
		return other.key.OfAnybody() == key && endedWithin(other.job, f.window, f.now) && foundNothing(other.job)
	})
	if other == nil {
		return false
	}
	d.Outcome, d.Job, d.JobEnded, d.RetryAfter = AlreadyDiagnosed, other.Name, true, leftOf(f.window, other, f.now)
	return true
}

// joined asks whether the row is looked at already: by any open job of the tool, or by a recheck just now. Who asks for a
// user is told of nothing but what was tried as that user: that the tool works for others is no answer.
func joined(d *Decision, f facts) bool {
	sameRow := func(other jobFact) bool {
		return onRow(other, d.Key) && (d.Key.User == "" || d.Key.User == other.key.User)
	}
	if other := f.job(func(other jobFact) bool { return sameRow(other) && f.waitsFor(other) }); other != nil {
		d.Outcome, d.Job, d.RetryAfter = Coalesced, other.Name, recheckEvery
		return true
	}
	other := f.job(func(other jobFact) bool {
		return sameRow(other) && other.key.Signature == v1alpha1.SignatureRecheck && endedWithin(other.job, recheckEvery, f.now)
	})
	if other == nil {
		return false
	}
	d.Outcome, d.Job, d.JobEnded, d.RetryAfter = Coalesced, other.Name, true, leftOf(recheckEvery, other, f.now)
	return true
}

// job returns the first job that matches; nil: none does.
func (f facts) job(matches func(jobFact) bool) *v1alpha1.DiagnosisJob {
	for _, other := range f.jobs {
		if matches(other) {
			return other.job
		}
	}
	return nil
}

// waitsFor reports whether a job is open and goes before the one that carries the report.
func (f facts) waitsFor(other jobFact) bool {
	return isOpen(other.job) && (f.report.Job == nil || ComesFirst(other.job, f.report.Job))
}

func isOpen(job *v1alpha1.DiagnosisJob) bool { return job.Status.Phase != v1alpha1.PhaseClosed }

// ComesFirst reports whether a job's turn is before another one's: one that was begun goes on before any that was not,
// then the older goes first. Else a job that is tried once more and an older one would wait for each other.
func ComesFirst(one, other *v1alpha1.DiagnosisJob) bool {
	if begun := one.Status.Attempts > 0; begun != (other.Status.Attempts > 0) {
		return begun
	}
	return registry.Older(one, other)
}

// endedWithin reports whether a job ended by itself less than a span ago. A job that was left to another one, or
// that a rule decided, says nothing about when the error was diagnosed last.
func endedWithin(job *v1alpha1.DiagnosisJob, span time.Duration, now time.Time) bool {
	if isOpen(job) || job.Status.ClosedAt == nil || now.Sub(job.Status.ClosedAt.Time) >= span {
		return false
	}
	return job.Status.Attempts > 0 || meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStalled) || isUnpaid(job)
}

// foundNothing reports whether a closed job has no verdict: its run failed, or could not be paid.
func foundNothing(job *v1alpha1.DiagnosisJob) bool {
	return job.Status.Diagnosis == nil || isUnpaid(job)
}

// isUnpaid reports whether a job closed because its verdict could not be paid for.
func isUnpaid(job *v1alpha1.DiagnosisJob) bool {
	complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete)
	if complete == nil {
		return false
	}
	switch complete.Reason {
	case v1alpha1.ReasonBudgetExhausted, v1alpha1.ReasonBudgetNotKept, v1alpha1.ReasonTokenCeilingReached:
		return true
	default:
		return false
	}
}

// leftOf returns what is left of a span since a job ended.
func leftOf(span time.Duration, job *v1alpha1.DiagnosisJob, now time.Time) time.Duration {
	return span - now.Sub(job.Status.ClosedAt.Time)
}

func foundWorking(job *v1alpha1.DiagnosisJob) bool {
	return job.Status.Diagnosis != nil && job.Status.Diagnosis.Classification == v1alpha1.Working
}

// waitOf returns how long the error of a clear verdict cools down once this report is written, which is longer the
// more often it is repeated.
func waitOf(d Decision, f facts) time.Duration {
	if d.Verdict.Class == v1alpha1.Working {
		return 0
	}
	status := &v1alpha1.ToolHealthStatus{}
	key, _ := rowFor(d.Place, f.report, d.Verdict.Class)
	for _, row := range f.rows {
		if row != nil && health.KeyOf(row) == key {
			status = row.Status.DeepCopy()
		}
	}
	verdictChange(d, f)(status, f.now)
	health.Bound(status, f.now, f.maxWait)
	return max(until(status, d.Verdict.Signature).Sub(f.now), 0)
}

// keyOf returns the coalescing key of a report.
func keyOf(place tenancy.Place, r Report, signature v1alpha1.ErrorSignature) tenancy.JobKey {
	return tenancy.JobKey{Scope: r.Scope, ScopeID: place.ScopeID(r.Scope, r.User, r.Session), Tool: r.Tool, Signature: signature, User: r.User}
}
