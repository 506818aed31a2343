package checker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	// Project, Job and UID are those of the job.
	Project, Job string
	UID          types.UID
	At           time.Time
	// OnlyFor is the user whom alone the verdict blames: it says nothing about anybody else's errors, so that it must not
	// take their turns. Empty: it counts for everybody.
	OnlyFor string
	// Asked says that a person had the tool looked at.
	Asked bool
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
		if start, ok := startOf(other.job, f.now); ok && onRow(other, row) && start.CountsFor(row.User) {
			starts = append(starts, start)
		}
	}
	slices.SortFunc(starts, Newest)
	return starts
}

// startOf returns the start of a job that was begun within the hour.
func startOf(job *v1alpha1.DiagnosisJob, now time.Time) (start Start, ok bool) {
	began := job.Status.StartedAt
	if began == nil || now.Sub(began.Time) >= StartSpan {
		return Start{}, false
	}
	return Start{Project: job.Namespace, Job: job.Name, UID: job.UID, At: began.Time, OnlyFor: OnlyFor(job), Asked: IsAsked(job.Spec.Trigger)}, true
}

// StartsElsewhere returns the diagnoses of a row that were begun within the hour and count for its user, by jobs of other
// projects: they share the rows of TENANT and GLOBAL.
func (c *Checker) StartsElsewhere(ctx context.Context, project string, row tenancy.JobKey) ([]Start, error) {
	if row.Scope != v1alpha1.ScopeTenant && row.Scope != v1alpha1.ScopeGlobal {
		return nil, nil
	}
	var list v1alpha1.DiagnosisJobList
	if err := c.Cache.List(ctx, &list, client.MatchingFields{JobToolIndex: row.Tool}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list jobs of tool %s in all projects: %w", row.Tool, err)
	}
	var starts []Start
	for i := range list.Items {
		job := &list.Items[i]
		start, ok := startOf(job, c.Clock.Now())
		if !ok || job.Namespace == project || ReportOf(job).Scope != row.Scope || !start.CountsFor(row.User) {
			continue
		}
		place, err := c.Place(ctx, job.Namespace)
		if apierrors.IsNotFound(err) { // It was deleted with all that is in it.
			continue
		}
		if err != nil {
			return nil, err
		}
		if place.ScopeID(row.Scope, "", "") == row.ScopeID {
			starts = append(starts, start)
		}
	}
	return starts, nil
}

// onRow reports whether a job is about the row of a key.
func onRow(other jobFact, row tenancy.JobKey) bool {
	return other.key.Scope == row.Scope && other.key.ScopeID == row.ScopeID
}

// IsAsked reports whether a person asks, who is waiting for the answer.
func IsAsked(trigger v1alpha1.Trigger) bool { return trigger == v1alpha1.TriggerUserRequest }

// Hour is what limits the diagnoses of a row.
type Hour struct {
	// Starts are those that began within it, newest first.
	Starts []Start
	// Most is how many may; zero: as many as there are errors. Where there is more than one, one is kept for people who ask, and
	// one for errors: neither must use up what shows the other whether the tool works again.
	Most int
	// Asked says that a person asks for one more.
	Asked bool
}

// Next returns when one more may begin; zero: at once.
func (h Hour) Next() (at time.Time) {
	for left := h.Starts; h.isFull(left); left = left[:len(left)-1] {
		at = left[len(left)-1].At.Add(StartSpan)
	}
	return at
}

func (h Hour) isFull(starts []Start) bool {
	if h.Most <= 0 || len(starts) == 0 {
		return false
	}
	return len(starts) >= h.Most || h.ownOf(starts) >= max(h.Most-1, 1)
}

// ownOf returns how many diagnoses began for the same cause: people who asked, or errors and schedules.
func (h Hour) ownOf(starts []Start) (n int) {
	for _, start := range starts {
		if start.Asked == h.Asked {
			n++
		}
	}
	return n
}

// Refusal tells a project that a row is not diagnosed any more within the hour, where to look instead, and what to do. No
// job of another project is named: not everybody may know of it.
func (h Hour) Refusal(tool string, scope v1alpha1.Scope, project string, now time.Time) string {
	not, then, kept := "Not diagnosed", "another error may be diagnosed in ", "errors may while one time is kept for people who ask for a recheck"
	if h.Asked {
		not, then, kept = "Not looked at again", "raise --diagnoses-per-row-per-hour, or ask again in ", "people may ask while one time is kept for errors"
	}
	if len(h.Starts) >= h.Most {
		kept = "is allowed"
	}
	found := "for other projects; ToolHealth says what is in force"
	if i := slices.IndexFunc(h.Starts, func(s Start) bool { return s.Project == project }); i >= 0 {
		found = fmt.Sprintf("job %s, the newest, says what was found, and ToolHealth what is in force", h.Starts[i].Job)
	}
	return fmt.Sprintf("%s: %s was diagnosed %s within the hour for scope %s, as often as %s: %s; %s%s",
		not, tool, times(len(h.Starts)), scope, kept, found, then, wait(h.Next().Sub(now)))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// tooOften asks whether the row was diagnosed as often within the hour as it may be, whatever the errors. For an error
// that is not stored yet the diagnoses count as well that other errors of the row wait for: it would wait in vain. A
// person is not turned away for them. A job that was begun goes on.
func tooOften(d *Decision, f facts) bool {
	if f.report.Job != nil && f.report.Job.Status.Attempts > 0 {
		return false
	}
	d.Starts = f.starts(d.Key)
	hour := Hour{Starts: d.Starts, Most: f.perHour, Asked: IsAsked(f.report.Trigger)}
	if next := hour.Next(); !next.IsZero() {
		d.Outcome, d.Job, d.RetryAfter, d.Refused = Coalesced, d.Starts[0].Job, justClosed, &hour
		d.JobEnded = f.job(func(other jobFact) bool { return other.job.UID == d.Starts[0].UID && isOpen(other.job) }) == nil
		if at := d.Health.RecoveryAt(); at != nil && at.After(f.now) {
			d.RetryAfter = at.Sub(f.now)
		}
		if hour.Asked {
			d.RetryAfter = next.Sub(f.now)
		}
		return true
	}
	if f.report.Job != nil || hour.Asked {
		return false
	}
	waiting := f.waiting(d.Key)
	hour.Starts = slices.Concat(waiting, d.Starts)
	if len(waiting) == 0 || hour.Next().IsZero() {
		return false
	}
	d.Outcome, d.Job, d.RetryAfter = Coalesced, waiting[0].Job, justClosed
	return true
}

// waiting returns the diagnoses that other errors of a row wait for, as if they began now: one for each error, the job
// that was made last first.
func (f facts) waiting(row tenancy.JobKey) []Start {
	newest := map[v1alpha1.ErrorSignature]*v1alpha1.DiagnosisJob{}
	for _, other := range f.jobs {
		if !onRow(other, row) || !isOpen(other.job) || other.job.Status.StartedAt != nil || other.key.Signature == row.Signature {
			continue
		}
		if known := newest[other.key.Signature]; known == nil || ComesFirst(known, other.job) {
			newest[other.key.Signature] = other.job
		}
	}
	jobs := slices.SortedFunc(maps.Values(newest), func(a, b *v1alpha1.DiagnosisJob) int {
		if ComesFirst(b, a) {
			return -1
		}
		return 1
	})
	starts := make([]Start, 0, len(jobs))
	for _, job := range jobs {
		starts = append(starts, Start{Project: job.Namespace, Job: job.Name, UID: job.UID, At: f.now, Asked: IsAsked(job.Spec.Trigger)})
	}
	return starts
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
