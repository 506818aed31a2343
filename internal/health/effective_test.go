package health

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// rowOf builds a row of a scope whose state was written after t0.
func rowOf(scope v1alpha1.Scope, state v1alpha1.State, after time.Duration, recovery *metav1.Time) *v1alpha1.ToolHealth {
	return &v1alpha1.ToolHealth{
		Spec:   v1alpha1.ToolHealthSpec{ToolName: "search", Scope: scope},
		Status: v1alpha1.ToolHealthStatus{State: state, Since: at(after), LastCheckedAt: at(after), ExpectedRecoveryAt: recovery},
	}
}

func TestEffective(t *testing.T) {
	const (
		user, project, global = v1alpha1.ScopeUser, v1alpha1.ScopeProject, v1alpha1.ScopeGlobal
		ok, degraded, isDown  = v1alpha1.StateOK, v1alpha1.StateDegraded, v1alpha1.StateDown
	)
	pinned := func(row *v1alpha1.ToolHealth, state v1alpha1.State, until *metav1.Time) *v1alpha1.ToolHealth {
		row.Spec.Override = &v1alpha1.HealthOverride{State: state, Until: until, Reason: "upgrade"}
		return row
	}
	now := t0.Add(10 * time.Minute)
	for _, tc := range []struct {
		name       string
		rows       []*v1alpha1.ToolHealth
		want       v1alpha1.State
		wantScope  v1alpha1.Scope
		wantSuffix string
	}{
		{name: "no row means OK", want: ok},
		{name: "the narrowest row wins", rows: []*v1alpha1.ToolHealth{rowOf(user, isDown, 0, nil), nil, rowOf(project, degraded, 0, nil)},
			want: isDown, wantScope: user, wantSuffix: "Unavailable since 2026-05-23T14:00:00Z: plan without it."},
		{name: "a row that exists only for a cooldown hides no outage", rows: []*v1alpha1.ToolHealth{rowOf(user, "", 0, nil), rowOf(project, isDown, 0, at(time.Hour))},
			want: isDown, wantScope: project, wantSuffix: "Currently unavailable until about 2026-05-23T15:00:00Z: plan without it."},
		{name: "an OK seen after an outage began hides it", rows: []*v1alpha1.ToolHealth{rowOf(project, ok, time.Minute, nil), rowOf(global, isDown, 0, nil)}, want: ok, wantScope: project},
		{name: "an OK from before the outage does not", rows: []*v1alpha1.ToolHealth{rowOf(project, ok, 0, nil), rowOf(global, isDown, time.Minute, nil)},
			want: isDown, wantScope: global, wantSuffix: "Unavailable since 2026-05-23T14:01:00Z: plan without it."},
		{name: "in the same instant the outage counts", rows: []*v1alpha1.ToolHealth{rowOf(project, ok, 0, nil), rowOf(global, degraded, 0, nil)},
			want: degraded, wantScope: global, wantSuffix: "Currently intermittent: a call may fail and succeed when repeated."},
		{name: "a row past its recovery has no suffix", rows: []*v1alpha1.ToolHealth{rowOf(project, isDown, 0, at(10*time.Minute))}, want: isDown, wantScope: project},
		{name: "a row past its recovery hides nothing wider", rows: []*v1alpha1.ToolHealth{rowOf(user, isDown, 0, at(time.Minute)), rowOf(project, degraded, 0, nil)},
			want: degraded, wantScope: project, wantSuffix: "Currently intermittent: a call may fail and succeed when repeated."},
		{name: "an override beats the status of its row", rows: []*v1alpha1.ToolHealth{pinned(rowOf(project, isDown, 0, nil), ok, nil)}, want: ok, wantScope: project},
		{name: "a pinned OK hides wider trouble", rows: []*v1alpha1.ToolHealth{pinned(rowOf(project, "", 0, nil), ok, nil), rowOf(global, isDown, time.Minute, nil)}, want: ok, wantScope: project},
		{name: "an override that has ended is none", rows: []*v1alpha1.ToolHealth{pinned(rowOf(project, isDown, 0, nil), ok, at(0))},
			want: isDown, wantScope: project, wantSuffix: "Unavailable since 2026-05-23T14:00:00Z: plan without it."},
		{name: "a pinned DOWN says why", rows: []*v1alpha1.ToolHealth{pinned(rowOf(project, ok, 0, nil), isDown, nil)},
			want: isDown, wantScope: project, wantSuffix: "Currently unavailable: upgrade"},
		{name: "a row that somebody wrote without saying since when", rows: []*v1alpha1.ToolHealth{{Status: v1alpha1.ToolHealthStatus{State: isDown}}},
			want: isDown, wantSuffix: "Currently unavailable: plan without it."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Effective(tc.rows, now)
			var scope v1alpha1.Scope
			if got.Row != nil {
				scope = got.Row.Spec.Scope
			}
			if got.State != tc.want || scope != tc.wantScope {
				t.Errorf("%s by %q, want %s by %q", got.State, scope, tc.want, tc.wantScope)
			}
			if suffix := got.Suffix(); suffix != tc.wantSuffix {
				t.Errorf("suffix %q, want %q", suffix, tc.wantSuffix)
			}
		})
	}
}
