package checker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

func TestRowFor(t *testing.T) {
	nobody := func(r *Report) { r.User = "" }
	noSession := func(r *Report) { r.Session = "" }
	client := func(r *Report) { r.Tool = "client_files" }
	asks := func(scope v1alpha1.Scope) func(*Report) { return func(r *Report) { r.Scope = scope } }
	row := func(namespace string, scope v1alpha1.Scope, id string) *health.Key {
		return &health.Key{Namespace: namespace, Scope: scope, ScopeID: id, Tool: "search"}
	}
	session, user, project := row("shop", v1alpha1.ScopeSession, tenancy.SessionID("s1", "alice")), row("shop", v1alpha1.ScopeUser, "alice"), row("shop", v1alpha1.ScopeProject, "shop")
	tenant, global := row("acme", v1alpha1.ScopeTenant, "acme"), row("agrajag-system", v1alpha1.ScopeGlobal, "")
	ofClient := func(key *health.Key) *health.Key { k := *key; k.Tool = "client_files"; return &k }
	for _, tc := range []struct {
		name  string
		class v1alpha1.Classification
		edits []func(*Report)
		want  *health.Key // nil: no row
	}{
		{"a broken tool is the project's", v1alpha1.TechnicallyBroken, nil, project},
		{"a tool that fails now and then too", v1alpha1.Intermittent, nil, project},
		{"what a user may not do is the user's", v1alpha1.UserPermission, nil, user},
		{"what a user did wrong is the user's", v1alpha1.UserInput, nil, user},
		{"a user's expired token is the user's", v1alpha1.UserSpecificTechnical, nil, user},
		{"and stays so where TENANT was asked for", v1alpha1.UserSpecificTechnical, []func(*Report){asks(v1alpha1.ScopeTenant)}, user},
		{"without a user it is the project's", v1alpha1.UserPermission, []func(*Report){nobody}, project},
		{"without a user it is as wide as asked", v1alpha1.UserPermission, []func(*Report){nobody, asks(v1alpha1.ScopeTenant)}, tenant},
		{"a tool in the user's client is the session's", v1alpha1.TechnicallyBroken, []func(*Report){client}, ofClient(session)},
		{"whatever the class", v1alpha1.UserPermission, []func(*Report){client}, ofClient(session)},
		{"and whatever was asked for", v1alpha1.TechnicallyBroken, []func(*Report){client, asks(v1alpha1.ScopeGlobal)}, ofClient(session)},
		{"of nobody, if there is no user", v1alpha1.TechnicallyBroken, []func(*Report){client, nobody}, ofClient(row("shop", v1alpha1.ScopeSession, "s1"))},
		{"without a session it is the project's", v1alpha1.TechnicallyBroken, []func(*Report){client, noSession}, ofClient(project)},
		{"TENANT where the report may ask for it", v1alpha1.TechnicallyBroken, []func(*Report){asks(v1alpha1.ScopeTenant)}, tenant},
		{"GLOBAL where the report may ask for it", v1alpha1.Intermittent, []func(*Report){asks(v1alpha1.ScopeGlobal)}, global},
		{"never wider than asked: SESSION", v1alpha1.TechnicallyBroken, []func(*Report){asks(v1alpha1.ScopeSession)}, session},
		{"never wider than asked: USER", v1alpha1.TechnicallyBroken, []func(*Report){asks(v1alpha1.ScopeUser)}, user},
		{"not even for an error of the user", v1alpha1.UserPermission, []func(*Report){asks(v1alpha1.ScopeSession)}, session},
		{"an unclear error is the project's, not the user's", v1alpha1.Unclear, nil, project},
		{"and no wider, whatever was asked for", v1alpha1.Unclear, []func(*Report){asks(v1alpha1.ScopeGlobal)}, project},
		{"but narrower where that was asked for", v1alpha1.Unclear, []func(*Report){asks(v1alpha1.ScopeSession)}, session},
		{"nobody has no USER row, and the project's is wider than asked", v1alpha1.TechnicallyBroken, []func(*Report){nobody, asks(v1alpha1.ScopeUser)}, nil},
		{"a scope that is none is the project's", v1alpha1.TechnicallyBroken, []func(*Report){asks("PLANET")}, project},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := rowFor(place, report(tc.edits...), tc.class)
			if ok != (tc.want != nil) {
				t.Fatalf("there is a row: %v, namely %s", ok, got)
			}
			if ok && got != *tc.want {
				t.Errorf("%s, want %s", got, *tc.want)
			}
		})
	}
}

func TestSystemIsNoUser(t *testing.T) {
	job := &v1alpha1.DiagnosisJob{Spec: v1alpha1.DiagnosisJobSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, OriginatingUserID: tenancy.SystemUser}}
	job.Namespace, job.UID = "shop", "uid-1"
	want := Report{ID: "uid-1", Project: "shop", Tool: "search", Scope: v1alpha1.ScopeProject}
	if diff := cmp.Diff(want, ReportOf(job)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if key, ok := rowFor(place, ReportOf(job), v1alpha1.UserPermission); !ok || key.Scope != v1alpha1.ScopeProject {
		t.Errorf("the row of nobody's permission is %s", key)
	}
	if got := effects(Decision{Verdict: refused, Place: place}, facts{report: report(func(r *Report) { r.User, r.Scope = "", v1alpha1.ScopeUser })}); len(got) != 0 {
		t.Errorf("a report for nobody with scope USER writes %d rows", len(got))
	}
}

func TestVerdictChange(t *testing.T) {
	degrading := classify.Verdict{RuleID: "slow", Signature: "slow", Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionMarkDegraded}
	cooldown := func(v classify.Verdict, until time.Duration) []v1alpha1.Cooldown {
		return []v1alpha1.Cooldown{{ErrorSignature: v.Signature, Until: *at(until), Hits: 1, Classification: v.Class, LastTriggeredAt: *at(0), LastReport: "r1"}}
	}
	marked := func(v classify.Verdict, state v1alpha1.State, until time.Duration) v1alpha1.ToolHealthStatus {
		return v1alpha1.ToolHealthStatus{
			State: state, Since: at(0), LastCheckedAt: at(0), ExpectedRecoveryAt: at(until), Cooldowns: cooldown(v, until),
			LastDiagnosis: &v1alpha1.HealthDiagnosis{Classification: v.Class, ErrorSignature: v.Signature, Note: v.Note, By: "agrajag-checker/" + v.RuleID, At: *at(0), Report: "r1"},
			History: []v1alpha1.HealthHistoryEntry{{At: *at(0), Status: state, Classification: v.Class, ErrorSignature: v.Signature, Note: v.Note,
				By: "agrajag-checker/" + v.RuleID, ExpectedRecoveryAt: at(until)}},
		}
	}
	for _, tc := range []struct {
		name    string
		verdict classify.Verdict
		want    v1alpha1.ToolHealthStatus
	}{
		{"a rule that marks writes DOWN until the cooldown ends", refused, marked(refused, v1alpha1.StateDown, 5*time.Minute)},
		{"or DEGRADED, with the default wait of its class", degrading, marked(degrading, v1alpha1.StateDegraded, 30*time.Second)},
		{"a class that is clear writes no state by itself", permission, v1alpha1.ToolHealthStatus{Cooldowns: cooldown(permission, 24*time.Hour)}},
		{"not even one that speaks of the tool", intermittent, v1alpha1.ToolHealthStatus{Cooldowns: cooldown(intermittent, 30*time.Second)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := verdictChange(Decision{Verdict: tc.verdict, Place: place}, facts{report: Report{ID: "r1"}})
			var status v1alpha1.ToolHealthStatus
			if !change(&status, t0) {
				t.Error("nothing changed")
			}
			if diff := cmp.Diff(tc.want, status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if change(&status, t0.Add(time.Hour)) {
				t.Error("the same report changes it twice")
			}
			if diff := cmp.Diff(tc.want, status); diff != "" {
				t.Errorf("status after the same report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARepeatedReportIsNotHistoryTwice(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	first := verdictChange(Decision{Verdict: refused, Place: place}, facts{report: Report{ID: "r1"}})
	first(&status, t0)
	health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: health.BySuccess, Report: "r2"})(&status, t0.Add(time.Second))
	if first(&status, t0.Add(time.Minute)) || status.State != v1alpha1.StateOK || len(status.History) != 2 {
		t.Errorf("a retry of a report undid what a later one found: %s, %d entries", status.State, len(status.History))
	}
}

func TestReportsThatComeAtOnceAreOne(t *testing.T) {
	var status v1alpha1.ToolHealthStatus
	by := func(report string, edit func(*classify.Verdict)) health.Change {
		v := refused
		edit(&v)
		return verdictChange(Decision{Verdict: v, Place: place}, facts{report: Report{ID: report}})
	}
	same := func(*classify.Verdict) {}
	longer := func(v *classify.Verdict) { v.Wait, v.Stated = 20*time.Hour, true }
	for _, step := range []struct {
		name   string
		change health.Change
		at     time.Time
		writes bool
		hits   int32
	}{
		{"the first", by("r1", same), t0, true, 1},
		{"one that was decided before the first was written", by("r2", same), t0, false, 1},
		{"one that states a longer wait", by("r3", longer), t0.Add(time.Second), true, 2},
		{"the same wait from another", by("r4", longer), t0.Add(2 * time.Second), false, 2},
		{"one after the end", by("r5", same), t0.Add(21 * time.Hour), true, 3},
	} {
		if wrote := step.change(&status, step.at); wrote != step.writes || status.Cooldowns[0].Hits != step.hits {
			t.Errorf("%s: writes %t, %d hits", step.name, wrote, status.Cooldowns[0].Hits)
		}
	}
}

func TestSuccessClearsTheNarrowestTroubleOnly(t *testing.T) {
	down, cool := found("http-5xx", 0), cools("http-5xx", "r0")
	foundBy := func(report string) health.Change {
		return health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: health.BySuccess, Report: report})
	}
	all := func(changes ...health.Change) []*v1alpha1.ToolHealth {
		rows := make([]*v1alpha1.ToolHealth, 0, 5)
		for _, scope := range v1alpha1.Scopes() {
			rows = append(rows, rowOf(scope, changes...))
		}
		return rows
	}
	later := func(change health.Change) health.Change {
		return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
			return change(status, now.Add(time.Second))
		}
	}
	pinned := func(row *v1alpha1.ToolHealth) *v1alpha1.ToolHealth {
		row.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateDown}
		return row
	}
	const state, cooldown = "state", "cooldown"
	for _, tc := range []struct {
		name string
		rows []*v1alpha1.ToolHealth
		want map[v1alpha1.Scope]string // what is cleared
	}{
		{name: "no rows, no writes", rows: make([]*v1alpha1.ToolHealth, 5), want: map[v1alpha1.Scope]string{}},
		{name: "a tool that works already is not written", rows: all(foundBy("r0")), want: map[v1alpha1.Scope]string{}},
		{name: "a cooldown of another error stays", rows: all(cools("http-404", "r0")), want: map[v1alpha1.Scope]string{}},
		{name: "rows without state lose the matching cooldown", rows: all(cool, cools("http-404", "r0")),
			want: map[v1alpha1.Scope]string{v1alpha1.ScopeSession: cooldown, v1alpha1.ScopeUser: cooldown, v1alpha1.ScopeProject: cooldown}},
		{name: "of five that are DOWN only the narrowest becomes OK", rows: all(down), want: map[v1alpha1.Scope]string{v1alpha1.ScopeSession: state}},
		{name: "and its cooldown goes with it", rows: all(down, cool),
			want: map[v1alpha1.Scope]string{v1alpha1.ScopeSession: cooldown + state, v1alpha1.ScopeUser: cooldown, v1alpha1.ScopeProject: cooldown}},
		{name: "a narrower row that is OK is passed over", rows: []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeSession, foundBy("r0")), nil, rowOf(v1alpha1.ScopeProject, down)},
			want: map[v1alpha1.Scope]string{v1alpha1.ScopeProject: state}},
		{name: "a row past its recovery is cleared too", rows: []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, found("http-5xx", time.Millisecond))},
			want: map[v1alpha1.Scope]string{v1alpha1.ScopeProject: state}},
		{name: "one user's success says nothing about the tenant: the project gets an OK of its own", rows: []*v1alpha1.ToolHealth{nil, nil, nil, rowOf(v1alpha1.ScopeTenant, down, cool), rowOf(v1alpha1.ScopeGlobal, down, cool)},
			want: map[v1alpha1.Scope]string{v1alpha1.ScopeProject: state}},
		{name: "which is not written again while it is newer", rows: []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, later(foundBy("r0"))), rowOf(v1alpha1.ScopeTenant, down)},
			want: map[v1alpha1.Scope]string{}},
		{name: "nor against what a person pinned for the tenant", rows: []*v1alpha1.ToolHealth{nil, nil, nil, pinned(rowOf(v1alpha1.ScopeTenant))},
			want: map[v1alpha1.Scope]string{}},
		{name: "answered again it clears nothing wider", rows: []*v1alpha1.ToolHealth{nil, rowOf(v1alpha1.ScopeUser, foundBy("r1")), rowOf(v1alpha1.ScopeProject, down)},
			want: map[v1alpha1.Scope]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[v1alpha1.Scope]string{}
			for _, effect := range effects(Decision{Verdict: worked, Place: place}, facts{now: t0, report: report(), rows: tc.rows}) {
				row := rowOf(effect.key.Scope)
				for _, have := range tc.rows {
					if have != nil && health.KeyOf(have) == effect.key {
						row = have.DeepCopy()
					}
				}
				before := row.DeepCopy()
				if !effect.change(&row.Status, t0.Add(time.Second)) {
					continue
				}
				what := ""
				if len(row.Status.Cooldowns) < len(before.Status.Cooldowns) {
					what = cooldown
				}
				if row.Status.State == v1alpha1.StateOK && before.Status.State != v1alpha1.StateOK {
					what += state
				}
				got[effect.key.Scope] = what
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("cleared (-want +got):\n%s", diff)
			}
		})
	}
}
