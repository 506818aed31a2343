package health

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestExpiry(t *testing.T) {
	ttls := TTLs{Session: 24 * time.Hour, User: 12 * time.Hour}
	began := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	state := func(s v1alpha1.State, after time.Duration) Change {
		return func(status *v1alpha1.ToolHealthStatus, _ time.Time) bool {
			return Mark(Finding{State: s, Classification: v1alpha1.Intermittent, By: "test"})(status, began.Add(after))
		}
	}
	cool := func(wait time.Duration) Change {
		return Cool(Trigger{Signature: "http-403", Class: v1alpha1.UserPermission, Wait: wait})
	}
	for _, tc := range []struct {
		name    string
		scope   v1alpha1.Scope
		changes []Change
		pinned  bool
		want    time.Duration // after it was created; 0: never
	}{
		{name: "a session's row goes a day after its last write", scope: v1alpha1.ScopeSession, changes: []Change{state(v1alpha1.StateDown, time.Hour)}, want: 25 * time.Hour},
		{name: "even if nothing was written to it", scope: v1alpha1.ScopeSession, want: 24 * time.Hour},
		{name: "even while it cools down: the session is over", scope: v1alpha1.ScopeSession, changes: []Change{cool(24 * time.Hour)}, want: 24 * time.Hour},
		{name: "a user's row that is OK goes sooner", scope: v1alpha1.ScopeUser, changes: []Change{state(v1alpha1.StateOK, time.Hour)}, want: 13 * time.Hour},
		{name: "so does one that says nothing", scope: v1alpha1.ScopeUser, want: 12 * time.Hour},
		{name: "once its cooldown is forgotten: it would grow", scope: v1alpha1.ScopeUser, changes: []Change{cool(24 * time.Hour)}, want: 48 * time.Hour},
		{name: "a user's trouble stays until something clears it", scope: v1alpha1.ScopeUser, changes: []Change{state(v1alpha1.StateDown, 0)}},
		{name: "a project's row stays", scope: v1alpha1.ScopeProject, changes: []Change{state(v1alpha1.StateOK, 0)}},
		{name: "what a person pinned stays", scope: v1alpha1.ScopeSession, pinned: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)}, Spec: v1alpha1.ToolHealthSpec{Scope: tc.scope}}
			if tc.pinned {
				row.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateDown}
			}
			All(tc.changes...)(&row.Status, began)
			want := time.Time{}
			if tc.want > 0 {
				want = began.Add(tc.want)
			}
			if got := ttls.Expiry(row); !got.Equal(want) {
				t.Errorf("goes at %s, want %s", got, want)
			}
		})
	}
}
