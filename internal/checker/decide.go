package checker

import (
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

const (
	// recheck is the signature, and the rule id, of a request to look again (design §4).
	recheck = "recheck"
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
}

// jobFact is a job of the same tool, other than the one that carries the report.
type jobFact struct {
	job *v1alpha1.DiagnosisJob
	key tenancy.JobKey
}

// decide completes a decision that holds verdict and key. It is the decision tree of specification §4.1, a list
// of questions of which the first that is answered decides.
func decide(d *Decision, f facts) {
	d.Rows = f.rows
	d.Health = health.Effective(f.rows, f.now)
	questions := []func(*Decision, facts) bool{coolingDown, classified, coalesced, alreadyDiagnosed}
	if f.report.Trigger.IsRecheck() {
		questions = []func(*Decision, facts) bool{joined}
	}
	d.Outcome = Pending
	for _, answered := range questions {
		if answered(d, f) {
			break
		}
	}
	describe(d, f)
}

// coolingDown asks whether the same error was answered a little while ago, on any of the caller's rows.
func coolingDown(d *Decision, f facts) bool {
	for _, row := range f.rows {
		if cooldown := health.ActiveCooldown(row, d.Verdict.Signature, f.now); cooldown != nil {
			if cooldown.LastReport == f.report.ID {
				continue // This very report began it: it is being answered again.
			}
			d.Outcome, d.Class, d.RetryAfter = CoolingDown, cooldown.Classification, cooldown.Until.Sub(f.now)
			return true
		}
	}
	return false
}

// classified asks whether the rules decided: by a clear class, or by writing the tool's health themselves.
func classified(d *Decision, f facts) bool {
	if d.Verdict.Class == v1alpha1.Unclear && d.Verdict.Action == v1alpha1.HealthActionNone {
		return false
	}
	d.Outcome, d.RetryAfter = Classified, waitOf(d.Verdict)
	return true
}

// coalesced asks whether a job for the same error is open, or closed so lately that it still counts.
func coalesced(d *Decision, f facts) bool {
	for _, other := range f.jobs {
		if other.key != d.Key {
			continue
		}
		if isOpen(other.job) && comesFirst(other.job, f.report.Job) {
			d.Outcome, d.Job, d.RetryAfter = Coalesced, other.job.Name, justClosed
			return true
		}
		if ago, closed := closedFor(other.job, f.now); closed && ago < justClosed && !foundWorking(other.job) {
			d.Outcome, d.Job, d.RetryAfter = Coalesced, other.job.Name, justClosed-ago
			return true
		}
	}
	return false
}

// alreadyDiagnosed asks whether a fresh verdict on the same error is in force, or a run that ended without one
// shows that another would end the same.
func alreadyDiagnosed(d *Decision, f facts) bool {
	if row := d.Health.Row; row != nil && d.Health.State != v1alpha1.StateOK && !d.Health.Retesting {
		last := row.Status.LastDiagnosis
		if last != nil && last.ErrorSignature == d.Verdict.Signature && f.now.Sub(last.At.Time) < f.window {
			d.Outcome, d.Class = AlreadyDiagnosed, last.Classification
			d.RetryAfter = f.window - f.now.Sub(last.At.Time)
			if at := d.Health.RecoveryAt(); at != nil && at.After(f.now) {
				d.RetryAfter = at.Sub(f.now)
			}
			return true
		}
	}
	for _, other := range f.jobs {
		ago, closed := closedFor(other.job, f.now)
		if closed && other.key == d.Key && other.job.Status.Diagnosis == nil && ago < f.window && isOwnEnd(other.job) {
			d.Outcome, d.Job, d.RetryAfter = AlreadyDiagnosed, other.job.Name, f.window-ago
			return true
		}
	}
	return false
}

// joined asks whether the row is looked at already: by any open job of the tool, or by a recheck just now.
func joined(d *Decision, f facts) bool {
	for _, other := range f.jobs {
		if other.key.Scope != d.Key.Scope || other.key.ScopeID != d.Key.ScopeID {
			continue
		}
		if isOpen(other.job) && comesFirst(other.job, f.report.Job) {
			d.Outcome, d.Job, d.RetryAfter = Coalesced, other.job.Name, recheckEvery
			return true
		}
		if ago, closed := closedFor(other.job, f.now); closed && other.key.Signature == recheck && ago < recheckEvery {
			d.Outcome, d.Job, d.RetryAfter = Coalesced, other.job.Name, recheckEvery-ago
			return true
		}
	}
	return false
}

func isOpen(job *v1alpha1.DiagnosisJob) bool { return job.Status.Phase != v1alpha1.PhaseClosed }

// comesFirst reports whether a job goes before the one that carries the report: it is older, or the report is
// not stored yet.
func comesFirst(other, own *v1alpha1.DiagnosisJob) bool {
	if own == nil {
		return true
	}
	if a, b := other.CreationTimestamp, own.CreationTimestamp; !a.Equal(&b) {
		return a.Before(&b)
	}
	return other.Name < own.Name
}

// closedFor returns how long a job has been closed.
func closedFor(job *v1alpha1.DiagnosisJob, now time.Time) (time.Duration, bool) {
	if isOpen(job) || job.Status.ClosedAt == nil {
		return 0, false
	}
	return now.Sub(job.Status.ClosedAt.Time), true
}

func foundWorking(job *v1alpha1.DiagnosisJob) bool {
	return job.Status.Diagnosis != nil && job.Status.Diagnosis.Classification == v1alpha1.Working
}

// waitOf returns how long an error of a verdict cools down the first time.
func waitOf(v classify.Verdict) time.Duration {
	if v.Wait > 0 {
		return v.Wait
	}
	return health.DefaultWait(v.Class, 1)
}

// keyOf returns the coalescing key of a report.
func keyOf(place tenancy.Place, r Report, signature v1alpha1.ErrorSignature) tenancy.JobKey {
	return tenancy.JobKey{Scope: r.Scope, ScopeID: place.ScopeID(r.Scope, r.User, r.Session), Tool: r.Tool, Signature: signature, User: r.User}
}
