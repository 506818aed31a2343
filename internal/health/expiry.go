package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// TTLs bound how long rows are kept that nobody needs any more, so that etcd does not grow with sessions and users.
type TTLs struct {
	// Session is how long after its last write a SESSION row is kept, whatever it says: its session is taken for over.
	Session time.Duration
	// User is how long after its last write a USER row is kept that says nothing but OK, or nothing.
	User time.Duration
}

// Expiry returns when a row goes; zero: never by itself. Rows that a person pinned stay.
func (t TTLs) Expiry(row *v1alpha1.ToolHealth) time.Time {
	if row.Spec.Override != nil {
		return time.Time{}
	}
	last := lastWritten(row)
	switch {
	case row.Spec.Scope == v1alpha1.ScopeSession:
		return last.Add(t.Session)
	case row.Spec.Scope == v1alpha1.ScopeUser && (row.Status.State == "" || row.Status.State == v1alpha1.StateOK):
		// Cooldowns are kept for their growth after they ended.
		at := last.Add(t.User)
		for _, c := range row.Status.Cooldowns {
			if end := forgotten(c); end.After(at) {
				at = end
			}
		}
		return at
	default:
		return time.Time{}
	}
}

// lastWritten returns when a report last changed a row.
func lastWritten(row *v1alpha1.ToolHealth) time.Time {
	last := row.CreationTimestamp.Time
	later := func(t *metav1.Time) {
		if t != nil && t.After(last) {
			last = t.Time
		}
	}
	later(row.Status.LastCheckedAt)
	for i := range row.Status.Cooldowns {
		later(&row.Status.Cooldowns[i].LastTriggeredAt)
	}
	return last
}
