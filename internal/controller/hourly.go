package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// starts remembers the diagnoses of each row that this manager began within the hour, for as long as the cache does not
// know them yet. What the stored jobs tell counts besides, so that a manager that takes over forgets none.
type starts struct {
	mu   sync.Mutex
	rows map[health.Key]map[types.UID]checker.Start
}

// begin counts the start of a user's job, unless as many that count for that user were begun on its row within the hour as
// may be; then it returns those. A most of 0 refuses nothing.
func (s *starts) begin(row health.Key, user string, own checker.Start, stored []checker.Start, most int) (full *checker.Hour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(own.At)
	all := map[types.UID]checker.Start{}
	for _, start := range stored {
		all[start.UID] = start
	}
	for uid, start := range s.rows[row] {
		if start.CountsFor(user) {
			all[uid] = start
		}
	}
	delete(all, own.UID) // Begun before, by a manager that was lost.
	hour := checker.Hour{Starts: slices.SortedFunc(maps.Values(all), checker.Newest), Most: most, Asked: own.Asked}
	if !hour.Next().IsZero() {
		return &hour
	}
	if s.rows == nil {
		s.rows = map[health.Key]map[types.UID]checker.Start{}
	}
	if s.rows[row] == nil {
		s.rows[row] = map[types.UID]checker.Start{}
	}
	s.rows[row][own.UID] = own
	return nil
}

// has reports whether this manager began a job of a row within the hour.
func (s *starts) has(row health.Key, job types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.rows[row][job]
	return ok
}

// found notes whom alone the verdict of a job blames.
func (s *starts) found(row health.Key, job types.UID, onlyFor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start, ok := s.rows[row][job]; ok {
		start.OnlyFor = onlyFor
		s.rows[row][job] = start
	}
}

// forget takes back a start that came to nothing.
func (s *starts) forget(row health.Key, job types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows[row], job)
}

// prune drops what was begun more than an hour ago. There are few: every one was paid for.
func (s *starts) prune(now time.Time) {
	for row, jobs := range s.rows {
		for uid, start := range jobs {
			if now.Sub(start.At) >= checker.StartSpan {
				delete(jobs, uid)
			}
		}
		if len(jobs) == 0 {
			delete(s.rows, row)
		}
	}
}

// start claims a job, or closes it if its row was diagnosed as often within the hour as it may be.
func (r *DiagnosisReconciler) start(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (over bool, err error) {
	most := r.Checker.PerRowPerHour
	if job.Status.Attempts > 0 {
		most = 0
	}
	row, now := faultOf(d).row, r.Clock.Now()
	own := checker.Start{Project: job.Namespace, Job: job.Name, UID: job.UID, At: now, Asked: checker.IsAsked(job.Spec.Trigger)}
	elsewhere, err := r.Checker.StartsElsewhere(ctx, job.Namespace, d.Key)
	if err != nil {
		return false, err
	}
	if full := r.starts.begin(row, d.Key.User, own, slices.Concat(d.Starts, elsewhere), most); full != nil {
		job.Status.ErrorSignature = d.Key.Signature
		return true, closeJob(ctx, r.Client, r.Recorder, job, ending{reason: v1alpha1.CloseStale, why: v1alpha1.ReasonCoalesced,
			message: full.Refusal(text.Plain(string(job.Spec.ToolName), 128), d.Key.Scope, job.Namespace, now)}, now)
	}
	if err := r.claim(ctx, job, d.Key.Signature); err != nil {
		r.starts.forget(row, job.UID)
		return false, err
	}
	return false, nil
}
