package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// StartSpan is the time in which the diagnoses of a row are counted. Closed jobs are kept at least as long.
const StartSpan = time.Hour

// Start is a diagnosis that was begun.
type Start struct {
	// Job and UID are those of the job.
	Job string
	UID types.UID
	At  time.Time
	// OnlyFor is the user whom alone the verdict blames: it says nothing about anybody else's errors, so that it must not
	// take their turns. Empty: it counts for everybody.
	OnlyFor string
}

// CountsFor reports whether a diagnosis counts for a user's reports, or for those of nobody in particular.
func (s Start) CountsFor(user string) bool { return s.OnlyFor == "" || s.OnlyFor == user }

// OnlyFor returns the user whom alone the verdict of a job blames; empty: it has none yet, or blames nobody.
func OnlyFor(job *v1alpha1.DiagnosisJob) string {
	if found := job.Status.Diagnosis; found == nil || !found.Classification.BlamesUser() {
		return ""
	}
	return string(job.Spec.OriginatingUserID)
}

// Newest orders starts, the newest first.
func Newest(a, b Start) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Job, b.Job)) }

// starts returns the diagnoses of the report's row that were begun within the hour and count for its user, by jobs other
// than its own, newest first.
func (f facts) starts(row tenancy.JobKey) []Start {
	var starts []Start
	for _, other := range f.jobs {
		began := other.job.Status.StartedAt
		if onRow(other, row) && began != nil && f.now.Sub(began.Time) < StartSpan {
			start := Start{Job: other.job.Name, UID: other.job.UID, At: began.Time, OnlyFor: OnlyFor(other.job)}
			if start.CountsFor(row.User) {
				starts = append(starts, start)
			}
		}
	}
	slices.SortFunc(starts, Newest)
	return starts
}

// onRow reports whether a job is about the row of a key.
func onRow(other jobFact, row tenancy.JobKey) bool {
	return other.key.Scope == row.Scope && other.key.ScopeID == row.ScopeID
}

// LimitedByHour reports whether a report waits for its turn within the hour. A person who asks does not: that is bounded
// by one for each row in ten seconds, and counts all the same.
func LimitedByHour(trigger v1alpha1.Trigger) bool { return trigger != v1alpha1.TriggerUserRequest }

// tooOften asks whether the row was diagnosed as often within the hour as it may be, whatever the errors. For a report
// that is not stored yet the diagnoses count as well that other errors of the row wait for: it would wait in vain.
func tooOften(d *Decision, f facts) bool {
	d.Starts = f.starts(d.Key)
	if f.perHour <= 0 || !LimitedByHour(f.report.Trigger) {
		return false
	}
	if len(d.Starts) >= f.perHour {
		d.Outcome, d.Job, d.RetryAfter = Coalesced, d.Starts[0].Job, justClosed
		d.JobEnded = f.job(func(other jobFact) bool { return other.job.UID == d.Starts[0].UID && isOpen(other.job) }) == nil
		if at := d.Health.RecoveryAt(); at != nil && at.After(f.now) {
			d.RetryAfter = at.Sub(f.now)
		}
		return true
	}
	newest, waiting := f.waiting(d.Key)
	if f.report.Job != nil || waiting == 0 || len(d.Starts)+waiting < f.perHour {
		return false
	}
	d.Outcome, d.Job, d.RetryAfter = Coalesced, newest.Name, justClosed
	return true
}

// waiting returns how many other errors of a row wait for a diagnosis, and the newest of their jobs.
func (f facts) waiting(row tenancy.JobKey) (newest *v1alpha1.DiagnosisJob, errors int) {
	signatures := map[v1alpha1.ErrorSignature]bool{}
	for _, other := range f.jobs {
		if !onRow(other, row) || !isOpen(other.job) || other.job.Status.StartedAt != nil || other.key.Signature == row.Signature {
			continue
		}
		signatures[other.key.Signature] = true
		if newest == nil || ComesFirst(newest, other.job) {
			newest = other.job
		}
	}
	return newest, len(signatures)
}

// TooOften tells that a row is not diagnosed any more within the hour, and where to look instead. Starts are those of the
// row, newest first; there are as many as most, or more.
func TooOften(tool string, scope v1alpha1.Scope, starts []Start, most int, now time.Time) string {
	free := max(StartSpan-now.Sub(starts[most-1].At), 0)
	return fmt.Sprintf("Not diagnosed: %s was diagnosed %d times within the hour for scope %s, as often as is allowed: job %s, the newest, says what was found, and ToolHealth what is in force; another error may be diagnosed in %s",
		tool, len(starts), scope, starts[0].Job, wait(free))
}

// names returns the names that jobs of a key may have, in their order. There are as many as a row may be diagnosed within
// the hour, so that no job has to make room that still counts.
func (c *Checker) names(key tenancy.JobKey) []string {
	var names []string
	for n := range max(c.PerRowPerHour, 1) {
		names = append(names, key.NameOf(n))
	}
	return names
}

// OwnsName reports whether a name is one of a key's.
func (c *Checker) OwnsName(key tenancy.JobKey, name string) bool {
	return slices.Contains(c.names(key), name)
}

// NameFor returns the name of a new job of a key: the first that no job has which still counts within the hour, else the
// one whose job began the longest ago. Whoever asks at the same time gets the same, so that of two jobs one is refused.
func (c *Checker) NameFor(ctx context.Context, namespace string, key tenancy.JobKey) (string, error) {
	now, oldest, began := c.Clock.Now(), "", time.Time{}
	for _, name := range c.names(key) {
		job := &v1alpha1.DiagnosisJob{}
		err := c.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
		if apierrors.IsNotFound(err) {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("read job %s: %w", name, err)
		}
		at := job.Status.StartedAt
		if isOpen(job) || at == nil || now.Sub(at.Time) >= StartSpan {
			return name, nil
		}
		if oldest == "" || at.Time.Before(began) {
			oldest, began = name, at.Time
		}
	}
	return oldest, nil
}
