package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

var t0 = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: t0.Add(d)} }

func down(report string) Finding {
	return Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Signature: "connect-refused",
		Note: "refused", By: ByChecker("connect-refused"), Report: report, RecoveryAt: t0.Add(5 * time.Minute)}
}

func TestMarkWritesStateDiagnosisAndHistory(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	if !Mark(down("r1"))(&status, t0) {
		t.Fatal("a first finding changed nothing")
	}
	want := v1alpha1.ToolHealthStatus{
		State: v1alpha1.StateDown, Since: at(0), LastCheckedAt: at(0), ExpectedRecoveryAt: at(5 * time.Minute),
		LastDiagnosis: &v1alpha1.HealthDiagnosis{Classification: v1alpha1.TechnicallyBroken, ErrorSignature: "connect-refused",
			Note: "refused", By: "agrajag-checker/connect-refused", At: *at(0), Report: "r1"},
		History: []v1alpha1.HealthHistoryEntry{{At: *at(0), Status: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken,
			ErrorSignature: "connect-refused", Note: "refused", By: "agrajag-checker/connect-refused", ExpectedRecoveryAt: at(5 * time.Minute)}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestMark(t *testing.T) {
	for _, tc := range []struct {
		name   string
		second Finding
		after  time.Duration
		want   bool
		check  func(v1alpha1.ToolHealthStatus) (got, want any)
	}{
		{name: "a retry of the same report writes nothing", second: down("r1"), after: time.Minute, want: false,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) { return len(s.History), 1 }},
		{name: "the same state again keeps since and moves lastCheckedAt", second: down("r2"), after: time.Minute, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) {
				return []*metav1.Time{s.Since, s.LastCheckedAt}, []*metav1.Time{at(0), at(time.Minute)}
			}},
		{name: "another state moves since", second: Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: BySuccess},
			after: time.Minute, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) { return s.Since, at(time.Minute) }},
		{name: "a working tool has no recovery", second: Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: BySuccess, RecoveryAt: t0.Add(time.Hour)},
			after: time.Minute, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) { return s.ExpectedRecoveryAt == nil, true }},
		{name: "an estimate in the past is none", second: Finding{State: v1alpha1.StateDown, By: "x", RecoveryAt: t0.Add(-time.Hour)}, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) { return s.ExpectedRecoveryAt == nil, true }},
		{name: "an estimate far away is cut to the longest wait", second: Finding{State: v1alpha1.StateDown, By: "x", RecoveryAt: t0.Add(1000 * time.Hour)}, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) { return s.ExpectedRecoveryAt, at(24 * time.Hour) }},
		{name: "notes are plain and bounded", second: Finding{State: v1alpha1.StateDown, By: "x", Note: "a\n\x1b[1m" + strings.Repeat("é", 400)}, want: true,
			check: func(s v1alpha1.ToolHealthStatus) (any, any) {
				return len(s.History[0].Note) <= 200 && len(s.LastDiagnosis.Note) <= 500 && !strings.ContainsAny(s.LastDiagnosis.Note, "\n\x1b"), true
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var status v1alpha1.ToolHealthStatus
			Mark(down("r1"))(&status, t0)
			if got := Mark(tc.second)(&status, t0.Add(tc.after)); got != tc.want {
				t.Errorf("changed: %v, want %v", got, tc.want)
			}
			got, want := tc.check(status)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	for i := range 50 {
		Mark(Finding{State: v1alpha1.StateDown, By: "x", Note: fmt.Sprint(i)})(&status, t0.Add(time.Duration(i)*time.Second))
	}
	if len(status.History) != v1alpha1.MaxHistory || status.History[0].Note != "49" || status.History[19].Note != "30" {
		t.Errorf("%d entries, from %q to %q", len(status.History), status.History[0].Note, status.History[len(status.History)-1].Note)
	}
}

func TestDefaultWait(t *testing.T) {
	for _, tc := range []struct {
		class v1alpha1.Classification
		hits  int32
		want  time.Duration
	}{
		{v1alpha1.UserPermission, 1, 24 * time.Hour}, {v1alpha1.UserPermission, 5, 24 * time.Hour},
		{v1alpha1.UserInput, 1, 5 * time.Minute}, {v1alpha1.UserInput, 9, 5 * time.Minute},
		{v1alpha1.UserSpecificTechnical, 1, 15 * time.Minute}, {v1alpha1.UserSpecificTechnical, 3, time.Hour},
		{v1alpha1.UserSpecificTechnical, 1 << 30, 24 * time.Hour},
		{v1alpha1.TechnicallyBroken, 4, 5 * time.Minute},
		{v1alpha1.Intermittent, 1, 30 * time.Second}, {v1alpha1.Intermittent, 2, 2 * time.Minute},
		{v1alpha1.Intermittent, 3, 8 * time.Minute}, {v1alpha1.Intermittent, 99, 2 * time.Hour},
		{v1alpha1.Unclear, 3, 30 * time.Second}, {v1alpha1.Working, 1, 0},
	} {
		if got := DefaultWait(tc.class, tc.hits); got != tc.want {
			t.Errorf("%s, hit %d: %s, want %s", tc.class, tc.hits, got, tc.want)
		}
	}
}

// trigger is a report at an instant after t0.
type trigger struct {
	after time.Duration
	Trigger
}

func TestCool(t *testing.T) {
	intermittent := func(after, wait time.Duration, report string) trigger {
		return trigger{after, Trigger{Signature: "http-429", Class: v1alpha1.Intermittent, Wait: wait, Report: report}}
	}
	for _, tc := range []struct {
		name      string
		triggers  []trigger
		wantUntil time.Duration
		wantHits  int32
	}{
		{name: "a first error gets the class's default", triggers: []trigger{intermittent(0, 0, "a")}, wantUntil: 30 * time.Second, wantHits: 1},
		{name: "a repeat grows", triggers: []trigger{intermittent(0, 0, "a"), intermittent(time.Minute, 0, "b")}, wantUntil: 3 * time.Minute, wantHits: 2},
		{name: "a retry of the same report grows nothing", triggers: []trigger{intermittent(0, 0, "a"), intermittent(time.Minute, 0, "a")}, wantUntil: 30 * time.Second, wantHits: 1},
		{name: "a stated wait is kept as stated", triggers: []trigger{intermittent(0, 90*time.Second, "a")}, wantUntil: 90 * time.Second, wantHits: 1},
		{name: "a longer wait extends", triggers: []trigger{intermittent(0, time.Minute, "a"), intermittent(time.Second, 10*time.Minute, "b")}, wantUntil: 10*time.Minute + time.Second, wantHits: 2},
		{name: "a shorter wait never cuts", triggers: []trigger{intermittent(0, time.Hour, "a"), intermittent(time.Minute, time.Second, "b")}, wantUntil: time.Hour, wantHits: 2},
		{name: "no wait is longer than a day", triggers: []trigger{intermittent(0, 1000*time.Hour, "a")}, wantUntil: 24 * time.Hour, wantHits: 1},
		{name: "after an hour of rest the growth is forgotten", triggers: []trigger{intermittent(0, 0, "a"), intermittent(61*time.Minute, 0, "b")}, wantUntil: 61*time.Minute + 30*time.Second, wantHits: 1},
		{name: "within the hour it is not", triggers: []trigger{intermittent(0, 0, "a"), intermittent(59*time.Minute, 0, "b")}, wantUntil: 61 * time.Minute, wantHits: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var status v1alpha1.ToolHealthStatus
			for _, trigger := range tc.triggers {
				Cool(trigger.Trigger)(&status, t0.Add(trigger.after))
			}
			if len(status.Cooldowns) != 1 {
				t.Fatalf("%d cooldowns, want 1", len(status.Cooldowns))
			}
			if c := status.Cooldowns[0]; !c.Until.Equal(at(tc.wantUntil)) || c.Hits != tc.wantHits {
				t.Errorf("until %s with %d hits, want %s with %d", c.Until.Sub(t0), c.Hits, tc.wantUntil, tc.wantHits)
			}
		})
	}
	if Cool(Trigger{Signature: "x", Class: v1alpha1.Working})(&v1alpha1.ToolHealthStatus{}, t0) {
		t.Error("WORKING set a cooldown")
	}
}

func TestACooldownThatEndsNowHasEnded(t *testing.T) {
	row := &v1alpha1.ToolHealth{}
	Cool(Trigger{Signature: "http-403", Class: v1alpha1.UserInput})(&row.Status, t0)
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {5*time.Minute - time.Second, true}, {5 * time.Minute, false}} {
		if got := ActiveCooldown(row, "http-403", t0.Add(tc.after)) != nil; got != tc.want {
			t.Errorf("after %s active: %v, want %v", tc.after, got, tc.want)
		}
	}
	if ActiveCooldown(row, "http-404", t0) != nil || ActiveCooldown(nil, "http-403", t0) != nil {
		t.Error("another signature, or no row, has a cooldown")
	}
}

func TestAWorkingToolEndsOnlyCooldownsAboutTheTool(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	for _, class := range []v1alpha1.Classification{v1alpha1.UserPermission, v1alpha1.UserInput, v1alpha1.UserSpecificTechnical, v1alpha1.TechnicallyBroken, v1alpha1.Intermittent} {
		Cool(Trigger{Signature: v1alpha1.ErrorSignature(class), Class: class})(&status, t0)
	}
	if !Uncool(OfHealth)(&status, t0) {
		t.Fatal("nothing was ended")
	}
	if len(status.Cooldowns) != 2 || Uncool(OfHealth)(&status, t0) {
		t.Errorf("left: %v", status.Cooldowns)
	}
}

func TestDerive(t *testing.T) {
	override := func(state v1alpha1.State, until *metav1.Time) func(*v1alpha1.ToolHealth) {
		return func(row *v1alpha1.ToolHealth) {
			row.Spec.Override = &v1alpha1.HealthOverride{State: state, Until: until, Reason: "maintenance"}
		}
	}
	marked := func(f Finding) func(*v1alpha1.ToolHealth) {
		return func(row *v1alpha1.ToolHealth) { Mark(f)(&row.Status, t0) }
	}
	degraded := Finding{State: v1alpha1.StateDegraded, Classification: v1alpha1.Intermittent, By: "x", RecoveryAt: t0.Add(time.Minute)}
	for _, tc := range []struct {
		name       string
		build      []func(*v1alpha1.ToolHealth)
		after      time.Duration
		wantStatus metav1.ConditionStatus
		wantReason string
		wantNext   time.Duration
	}{
		{name: "a row without state knows nothing", wantStatus: metav1.ConditionUnknown, wantReason: v1alpha1.ReasonNoState},
		{name: "DOWN is unavailable until its recovery", build: []func(*v1alpha1.ToolHealth){marked(down(""))}, wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonDown, wantNext: 5 * time.Minute},
		{name: "at the recovery the next call is the test", build: []func(*v1alpha1.ToolHealth){marked(down(""))}, after: 5 * time.Minute, wantStatus: metav1.ConditionUnknown, wantReason: v1alpha1.ReasonRetesting},
		{name: "DEGRADED is available", build: []func(*v1alpha1.ToolHealth){marked(degraded)}, wantStatus: metav1.ConditionTrue, wantReason: v1alpha1.ReasonDegraded, wantNext: time.Minute},
		{name: "OK is available", build: []func(*v1alpha1.ToolHealth){marked(Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: "x"})}, wantStatus: metav1.ConditionTrue, wantReason: v1alpha1.ReasonOK},
		{name: "an override beats the status", build: []func(*v1alpha1.ToolHealth){marked(down("")), override(v1alpha1.StateOK, at(time.Hour))}, wantStatus: metav1.ConditionTrue, wantReason: v1alpha1.ReasonOverridden, wantNext: time.Hour},
		{name: "an override that has ended does not", build: []func(*v1alpha1.ToolHealth){marked(down("")), override(v1alpha1.StateOK, at(0))}, wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonDown, wantNext: 5 * time.Minute},
		{name: "an override alone says something", build: []func(*v1alpha1.ToolHealth){override(v1alpha1.StateDown, nil)}, wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonOverridden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			for _, build := range tc.build {
				build(row)
			}
			next := Derive(row, Placed(), t0.Add(tc.after))
			got := meta.FindStatusCondition(row.Status.Conditions, v1alpha1.ConditionAvailable)
			if got.Status != tc.wantStatus || got.Reason != tc.wantReason || got.ObservedGeneration != 3 {
				t.Errorf("Available is %s, %s (generation %d), want %s, %s", got.Status, got.Reason, got.ObservedGeneration, tc.wantStatus, tc.wantReason)
			}
			wantNext := time.Time{}
			if tc.wantNext > 0 {
				wantNext = t0.Add(tc.wantNext)
			}
			if !next.Equal(wantNext) {
				t.Errorf("next change at %s, want %s", next, wantNext)
			}
		})
	}
}

func TestEachCooldownHasACondition(t *testing.T) {
	row := &v1alpha1.ToolHealth{}
	Cool(Trigger{Signature: "http-403", Class: v1alpha1.UserInput})(&row.Status, t0)
	if next := Derive(row, Placed(), t0); !next.Equal(t0.Add(5 * time.Minute)) {
		t.Errorf("next change at %s, want when the cooldown ends", next)
	}
	kind := v1alpha1.ConditionCooldownPrefix + "http-403"
	if !meta.IsStatusConditionTrue(row.Status.Conditions, kind) {
		t.Errorf("no running %s in %v", kind, row.Status.Conditions)
	}
	if next := Derive(row, Placed(), t0.Add(5*time.Minute)); !next.IsZero() || !meta.IsStatusConditionFalse(row.Status.Conditions, kind) {
		t.Errorf("next %s, conditions %v", next, row.Status.Conditions)
	}
	Uncool(OfSignature("http-403"))(&row.Status, t0)
	Derive(row, Placed(), t0.Add(6*time.Minute))
	if meta.FindStatusCondition(row.Status.Conditions, kind) != nil {
		t.Error("the condition outlives its cooldown")
	}
}

func TestBoundKeepsTheStateWhateverElseMustGo(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	for i := range 100 {
		Cool(Trigger{Signature: v1alpha1.ErrorSignature(fmt.Sprintf("s%03d-%s", i, strings.Repeat("x", 100))), Class: v1alpha1.UserPermission,
			Wait: time.Duration(i+1) * time.Minute, Report: strings.Repeat("r", 64)})(&status, t0)
	}
	for i := range 20 {
		Mark(Finding{State: v1alpha1.StateDown, By: strings.Repeat("b", 300), Note: strings.Repeat("n", 900), Job: strings.Repeat("j", 300)})(&status, t0.Add(time.Duration(i)*time.Second))
	}
	Bound(&status, t0.Add(10*time.Minute), MaxWait)
	if got := size(&status); got > maxStatusBytes {
		t.Errorf("%d bytes, want at most %d", got, maxStatusBytes)
	}
	if len(status.Cooldowns) > v1alpha1.MaxCooldowns || len(status.Cooldowns) == 0 || status.State != v1alpha1.StateDown || status.LastDiagnosis == nil {
		t.Errorf("%d cooldowns, state %q", len(status.Cooldowns), status.State)
	}
	for _, c := range status.Cooldowns {
		if c.ErrorSignature < "s067" {
			t.Errorf("%s, which ends before others that went, is kept", c.ErrorSignature[:4])
		}
	}
}

func TestAConfiguredMaximumCutsEveryWait(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	Cool(Trigger{Signature: "long", Class: v1alpha1.UserPermission})(&status, t0)
	Cool(Trigger{Signature: "short", Class: v1alpha1.UserInput})(&status, t0)
	Mark(Finding{State: v1alpha1.StateDown, By: "x", RecoveryAt: t0.Add(10 * time.Hour)})(&status, t0)
	Bound(&status, t0, time.Hour)
	if got := []*metav1.Time{&status.Cooldowns[0].Until, &status.Cooldowns[1].Until, status.ExpectedRecoveryAt}; !got[0].Equal(at(time.Hour)) ||
		!got[1].Equal(at(5*time.Minute)) || !got[2].Equal(at(time.Hour)) {
		t.Errorf("waits until %v", got)
	}
}

func TestCallerKeys(t *testing.T) {
	place := tenancy.Place{Project: "p", Tenant: "t", Operator: "o"}
	var got []string
	for _, key := range CallerKeys(place, "search", "alice", "s1") {
		got = append(got, key.String())
	}
	want := []string{"p/search (SESSION s1@2bd806c97f0e)", "p/search (USER alice)", "p/search (PROJECT p)", "t/search (TENANT t)", "o/search (GLOBAL )"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := CallerKeys(place, "search", tenancy.SystemUser, ""); len(got) != 3 {
		t.Errorf("nobody has the rows %v", got)
	}
}
