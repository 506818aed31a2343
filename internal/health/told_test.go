package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestTold(t *testing.T) {
	now := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { v := now.Add(d); return &v }
	row := func(edits ...func(*v1alpha1.ToolHealth)) *v1alpha1.ToolHealth {
		r := &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: v1alpha1.ScopeProject}}
		Mark(Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Note: "gone", By: "test", RecoveryAt: now.Add(90500 * time.Millisecond)})(&r.Status, now)
		for _, edit := range edits {
			edit(r)
		}
		return r
	}
	pinned := func(r *v1alpha1.ToolHealth) {
		r.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateDown, Reason: "moving", Until: &metav1.Time{Time: now.Add(time.Hour)}}
	}
	for _, tc := range []struct {
		name string
		row  *v1alpha1.ToolHealth
		want rest.Health
	}{
		{"nothing is known", nil, rest.Health{ToolName: "search", State: "OK"}},
		{"an outage, whose wait is rounded up", row(), rest.Health{ToolName: "search", State: "DOWN", Scope: "PROJECT", Classification: "TECHNICALLY_BROKEN", Note: "gone",
			Text: "Currently unavailable until about 2026-05-23T15:01:30Z: plan without it.", RetryAfterSeconds: 91, ExpectedRecoveryAt: at(90500 * time.Millisecond), Since: at(0), LastCheckedAt: at(0)}},
		{"a pin: since when is not known", row(pinned), rest.Health{ToolName: "search", State: "DOWN", Scope: "PROJECT", Note: "moving", Overridden: true,
			Text: "Currently unavailable until about 2026-05-23T16:00:00Z: plan without it.", RetryAfterSeconds: 3600, ExpectedRecoveryAt: at(time.Hour), LastCheckedAt: at(0)}},
		{"an error that cools down", &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{Scope: v1alpha1.ScopeUser}, Status: v1alpha1.ToolHealthStatus{Cooldowns: []v1alpha1.Cooldown{
			{ErrorSignature: "over", Until: metav1.Time{Time: now}}, {ErrorSignature: "http-403", Classification: v1alpha1.UserPermission, Until: metav1.Time{Time: now.Add(time.Minute)}}}}},
			rest.Health{ToolName: "search", State: "OK", Cooldowns: []rest.Cooldown{{Signature: "http-403", Scope: "USER", Classification: "USER_PERMISSION", RetryAfterSeconds: 60}}}},
	} {
		if diff := cmp.Diff(tc.want, Told("search", []*v1alpha1.ToolHealth{nil, tc.row}, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
