package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

var (
	now   = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)
	place = tenancy.Place{Project: "essays", Tenant: "acme", Operator: "agrajag-system"}

	userFailed    = Evidence{As: v1alpha1.ProbeAsUser, Failed: true}
	userRefused   = Evidence{As: v1alpha1.ProbeAsUser, Failed: true, Refused: true}
	userWorked    = Evidence{As: v1alpha1.ProbeAsUser, Success: true}
	systemFailed  = Evidence{As: v1alpha1.ProbeAsSystem, Failed: true}
	systemRefused = Evidence{As: v1alpha1.ProbeAsSystem, Failed: true, Refused: true}
	systemWorked  = Evidence{As: v1alpha1.ProbeAsSystem, Success: true}
	systemReached = Evidence{As: v1alpha1.ProbeAsSystem, Challenged: true}
)

// inputOf returns a report of a 5xx at scope PROJECT by alice in session s1.
func inputOf(change ...func(*Input)) Input {
	status := int32(503)
	in := Input{
		Job: &v1alpha1.DiagnosisJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "essays", Name: "diag-1", UID: "uid-1"},
			Spec: v1alpha1.DiagnosisJobSpec{
				ToolName: "search", Scope: v1alpha1.ScopeProject, Trigger: v1alpha1.TriggerToolCallError,
				OriginatingUserID: "alice", OriginatingSessionID: "s1", Error: &v1alpha1.ToolError{HTTPStatus: &status},
			},
		},
		Place: place, Signature: "http-5xx", Limits: DefaultLimits(),
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

func anonymous(in *Input) { in.Job.Spec.OriginatingUserID, in.Job.Spec.OriginatingSessionID = "", "" }

func recheck(in *Input) {
	in.Job.Spec.Trigger, in.Job.Spec.Error, in.Signature = v1alpha1.TriggerUserRequest, nil, v1alpha1.SignatureRecheck
}

func scoped(scope v1alpha1.Scope) func(*Input) { return func(in *Input) { in.Job.Spec.Scope = scope } }

func maxScope(scope v1alpha1.Scope) func(*Input) {
	return func(in *Input) { in.Limits.MaxScope = scope }
}

// withRow adds a row in trouble since an hour ago, with a cooldown and a line of history.
func withRow(scope v1alpha1.Scope, state v1alpha1.State, class v1alpha1.Classification, signature v1alpha1.ErrorSignature) func(*Input) {
	return func(in *Input) {
		before := now.Add(-time.Hour)
		row := &v1alpha1.ToolHealth{}
		key, _ := in.row(scope)
		row.Namespace, row.Spec.Scope, row.Spec.ScopeID = key.Namespace, scope, key.ScopeID
		health.Cool(health.Trigger{Signature: signature, Class: class, Wait: 2 * time.Hour})(&row.Status, before)
		health.Cool(health.Trigger{Signature: "http-403", Class: v1alpha1.UserPermission})(&row.Status, before)
		health.Mark(health.Finding{State: state, Classification: class, Signature: signature, By: "agrajag-checker/x"})(&row.Status, before)
		in.Rows = append(in.Rows, nil, row)
	}
}

// meeting adds errors that cool down for everybody already, so that a verdict may set cooldowns for them.
func meeting(signatures ...v1alpha1.ErrorSignature) func(*Input) {
	return func(in *Input) {
		row := &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{Scope: v1alpha1.ScopeGlobal}}
		for _, signature := range signatures {
			health.Cool(health.Trigger{Signature: signature, Class: v1alpha1.Intermittent, Wait: time.Minute})(&row.Status, now)
		}
		in.Rows = append(in.Rows, row)
	}
}

// describeRows applies the changes, each to what is known of its row, and says in a line what each row then holds.
func describeRows(t *testing.T, in Input, rows []RowChange) []string {
	t.Helper()
	var lines []string
	for _, change := range rows {
		status := v1alpha1.ToolHealthStatus{}
		for _, row := range in.Rows {
			if row != nil && row.Spec.Scope == change.Key.Scope {
				status = *row.Status.DeepCopy()
			}
		}
		change.Change(&status, now)
		once := status.DeepCopy()
		if change.Change(&status, now.Add(time.Minute)) || !cmp.Equal(*once, status) {
			t.Errorf("the change of %s is not idempotent: %s", change.Key, cmp.Diff(*once, status))
		}
		if change.Key.Tool != "search" || change.Key.Namespace != place.Namespace(change.Key.Scope) {
			t.Errorf("the change is for the wrong row: %s", change.Key)
		}
		lines = append(lines, fmt.Sprintf("%s/%s: %s", change.Key.Scope, change.Key.ScopeID, describeStatus(status)))
	}
	return lines
}

func describeStatus(status v1alpha1.ToolHealthStatus) string {
	words := []string{"no state"}
	if last := status.LastDiagnosis; last != nil {
		words = []string{string(status.State), string(last.Classification)}
		if last.UserActionHint != "" {
			words = append(words, fmt.Sprintf("hint=%q", last.UserActionHint))
		}
	}
	if status.ExpectedRecoveryAt != nil {
		words = append(words, "recovery="+status.ExpectedRecoveryAt.Sub(now).String())
	}
	for _, c := range status.Cooldowns {
		words = append(words, fmt.Sprintf("cool=%s/%s", c.ErrorSignature, c.Until.Sub(now)))
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	in := now.Add
	tests := []struct {
		name      string
		input     Input
		outcome   Outcome
		wantClass v1alpha1.Classification
		wantScope v1alpha1.Scope
		wantRows  []string
		wantNote  []string // parts of the note
	}{
		{
			name:  "an outage that both probes show takes the project's row down until it should recover",
			input: inputOf(),
			outcome: Outcome{Evidence: []Evidence{userFailed, systemFailed}, Output: Output{
				Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeProject, ExpectedRecoveryAt: in(time.Hour), HumanNote: "503 since noon",
				UserActionHint: "do something"}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject, wantNote: []string{"503 since noon"},
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=1h0m0s cool=http-5xx/1h0m0s"},
		},
		{
			name:      "an outage of unknown length cools down for the class's default and has no estimate",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:  "a user's refused token beside a system success goes to that user's row with a hint",
			input: inputOf(),
			outcome: Outcome{Evidence: []Evidence{userRefused, systemWorked}, Output: Output{
				Classification: v1alpha1.UserSpecificTechnical, Scope: v1alpha1.ScopeProject, UserActionHint: "Renew at https://evil.example/x now"}},
			wantClass: v1alpha1.UserSpecificTechnical, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{`USER/alice: DOWN USER_SPECIFIC_TECHNICAL hint="Renew at [link removed] now" cool=http-5xx/15m0s`},
		},
		{
			name:      "a user's refused token beside a challenge to the system is as good: the tool was reached",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{userRefused, systemReached}, Output: Output{Classification: v1alpha1.UserSpecificTechnical}},
			wantClass: v1alpha1.UserSpecificTechnical, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{"USER/alice: DOWN USER_SPECIFIC_TECHNICAL cool=http-5xx/15m0s"},
		},
		{
			name:      "a claim that the user is at fault, without any probe, is lowered",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.UserSpecificTechnical, HumanNote: "surely the token", ExpectedRecoveryAt: in(20 * time.Hour)}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeProject,
			wantNote: []string{"surely the token", "lowered from USER_SPECIFIC_TECHNICAL"},
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:  "a USER_SPECIFIC_TECHNICAL verdict by history without a user writes no state, only the cooldown at the job's scope",
			input: inputOf(anonymous, withRow(v1alpha1.ScopeProject, v1alpha1.StateDegraded, v1alpha1.Intermittent, "http-5xx")),
			outcome: Outcome{Output: Output{
				Classification: v1alpha1.UserSpecificTechnical, UserActionHint: "renew"}},
			wantClass: v1alpha1.UserSpecificTechnical, wantScope: v1alpha1.ScopeProject, wantNote: []string{"names no user"},
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT cool=http-5xx/1h0m0s cool=http-403/23h0m0s"},
		},
		{
			name:      "one user's failure cannot take the tool down for the project where it works for the system",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{userFailed, systemWorked}, Output: Output{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeProject}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeUser, wantNote: []string{"this user alone"},
			wantRows: []string{"USER/alice: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "one user's refused token alone cannot take the tool down for the project",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{userRefused}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{"USER/alice: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "a challenge is no failed probe: an outage without evidence is lowered",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemReached}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeProject, wantNote: []string{"lowered from TECHNICALLY_BROKEN: no probe failed"},
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:      "an impossible probe is no failed probe either, and on a recheck nobody reported a failure: nothing is written",
			input:     inputOf(recheck),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject, wantNote: []string{"lowered", "the state stays"},
		},
		{
			name:      "an outage that the tool does not show to the user is lowered",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{userWorked, systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeProject, wantNote: []string{"the probe as the user succeeded"},
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:      "an outage without a probe stands on history of the same signature",
			input:     inputOf(withRow(v1alpha1.ScopeProject, v1alpha1.StateDegraded, v1alpha1.Intermittent, "http-5xx")),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: in(3 * time.Hour)}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=3h0m0s cool=http-5xx/3h0m0s cool=http-403/23h0m0s"},
		},
		{
			name:      "an outage without a probe stands on an earlier outage by another signature",
			input:     inputOf(withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "timeout")),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=timeout/1h0m0s cool=http-403/23h0m0s cool=http-5xx/5m0s"},
		},
		{
			name:      "what an earlier recheck left is no history of this one's trouble",
			input:     inputOf(recheck, withRow(v1alpha1.ScopeProject, v1alpha1.StateDegraded, v1alpha1.Intermittent, v1alpha1.SignatureRecheck)),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject,
		},
		{
			name:      "trouble of another kind is no matching history",
			input:     inputOf(withRow(v1alpha1.ScopeProject, v1alpha1.StateDegraded, v1alpha1.Intermittent, "timeout")),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=timeout/1h0m0s cool=http-403/23h0m0s cool=http-5xx/30s"},
		},
		{
			name:      "a scope wider than the job's becomes the job's",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeGlobal}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject, wantNote: []string{"GLOBAL is wider than allowed"},
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "a job that may be global is held to the recipe's widest scope",
			input:     inputOf(scoped(v1alpha1.ScopeGlobal), maxScope(v1alpha1.ScopeTenant)),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeGlobal}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeTenant,
			wantRows: []string{"TENANT/acme: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "a global job may write the operator's row",
			input:     inputOf(scoped(v1alpha1.ScopeGlobal)),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, Scope: v1alpha1.ScopeGlobal}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeGlobal,
			wantRows: []string{"GLOBAL/: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "a narrower scope is allowed",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.Intermittent, Scope: v1alpha1.ScopeSession}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeSession,
			wantRows: []string{"SESSION/s1@2bd806c97f0e: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:      "a session's scope without a session becomes the job's",
			input:     inputOf(anonymous),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.Intermittent, Scope: v1alpha1.ScopeSession}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeProject, wantNote: []string{"nobody for the scope SESSION"},
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:      "where the recipe allows only users and the report names none, nothing is written",
			input:     inputOf(anonymous, maxScope(v1alpha1.ScopeUser)),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeUser, wantNote: []string{"nothing is written"},
		},
		{
			name:      "a session's job about its user stays in the session",
			input:     inputOf(scoped(v1alpha1.ScopeSession)),
			outcome:   Outcome{Evidence: []Evidence{userRefused, systemWorked}, Output: Output{Classification: v1alpha1.UserSpecificTechnical}},
			wantClass: v1alpha1.UserSpecificTechnical, wantScope: v1alpha1.ScopeSession,
			wantRows: []string{"SESSION/s1@2bd806c97f0e: DOWN USER_SPECIFIC_TECHNICAL cool=http-5xx/15m0s"},
		},
		{
			name:      "an estimate beyond a day is cut to a day",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: in(9000 * time.Hour)}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=24h0m0s cool=http-5xx/24h0m0s"},
		},
		{
			name:      "an estimate in the past is none",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: in(-time.Hour)}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name:      "a working tool clears the narrowest row in trouble and what says that it is broken, not a permission",
			input:     inputOf(withRow(v1alpha1.ScopeUser, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "timeout"), withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")),
			outcome:   Outcome{Evidence: []Evidence{userWorked, systemWorked}, Output: Output{Classification: v1alpha1.Working, ExpectedRecoveryAt: in(time.Hour)}},
			wantClass: v1alpha1.Working, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{"USER/alice: OK WORKING cool=http-403/23h0m0s"},
		},
		{
			name:      "a tool that works for the system leaves the row that blames the user, and clears the project's",
			input:     inputOf(withRow(v1alpha1.ScopeUser, v1alpha1.StateDown, v1alpha1.UserSpecificTechnical, "http-401"), withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")),
			outcome:   Outcome{Evidence: []Evidence{systemWorked}, Output: Output{Classification: v1alpha1.Working}},
			wantClass: v1alpha1.Working, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: OK WORKING cool=http-403/23h0m0s"},
		},
		{
			name:      "a tool that works for the system says nothing about a job for the user's own row",
			input:     inputOf(scoped(v1alpha1.ScopeUser), withRow(v1alpha1.ScopeUser, v1alpha1.StateDown, v1alpha1.UserSpecificTechnical, "http-401")),
			outcome:   Outcome{Evidence: []Evidence{systemWorked}, Output: Output{Classification: v1alpha1.Working}},
			wantClass: v1alpha1.Working, wantScope: v1alpha1.ScopeUser, wantNote: []string{"the user's own row stays"},
		},
		{
			name:      "a working tool clears no row that is wider than the job",
			input:     inputOf(scoped(v1alpha1.ScopeUser), withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")),
			outcome:   Outcome{Evidence: []Evidence{userWorked}, Output: Output{Classification: v1alpha1.Working}},
			wantClass: v1alpha1.Working, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{"USER/alice: OK WORKING"},
		},
		{
			name:      "a recheck of a tool without trouble writes OK at the job's scope and sets no cooldown",
			input:     inputOf(recheck),
			outcome:   Outcome{Evidence: []Evidence{userWorked}, Output: Output{Classification: v1alpha1.Working, CooldownAdjustments: []v1alpha1.CooldownAdjustment{{ErrorSignature: "x", Duration: "PT1H"}}}},
			wantClass: v1alpha1.Working, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: OK WORKING"},
		},
		{
			name:      "a recheck that meets an outage takes the row down without a cooldown",
			input:     inputOf(recheck),
			outcome:   Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN"},
		},
		{
			name:      "WORKING without a successful probe is lowered to UNCLEAR",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.Working}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject, wantNote: []string{"lowered from WORKING: no probe succeeded"},
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name:      "WORKING against the user's failed probe is lowered and stays with the user",
			input:     inputOf(),
			outcome:   Outcome{Evidence: []Evidence{userFailed, systemWorked}, Output: Output{Classification: v1alpha1.Working}},
			wantClass: v1alpha1.Intermittent, wantScope: v1alpha1.ScopeUser, wantNote: []string{"the probe as the user failed"},
			wantRows: []string{"USER/alice: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name:      "a missing permission cools down for the user and touches no state",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.UserPermission, Scope: v1alpha1.ScopeProject, ExpectedRecoveryAt: in(time.Hour), UserActionHint: "ask"}},
			wantClass: v1alpha1.UserPermission, wantScope: v1alpha1.ScopeUser,
			wantRows: []string{"USER/alice: no state cool=http-5xx/24h0m0s"},
		},
		{
			name:      "wrong input without a user cools down at the job's scope and touches no state",
			input:     inputOf(anonymous),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.UserInput}},
			wantClass: v1alpha1.UserInput, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: no state cool=http-5xx/5m0s"},
		},
		{
			name:      "an unclear verdict degrades for fifteen minutes and sets no cooldown",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.Unclear}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name:      "an unclear verdict keeps the estimate it gives",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.Unclear, ExpectedRecoveryAt: in(time.Hour)}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=1h0m0s"},
		},
		{
			name:      "an output that could not be used degrades for fifteen minutes and says why",
			input:     inputOf(),
			outcome:   Outcome{Fallback: "no JSON", Output: Output{Classification: v1alpha1.TechnicallyBroken}, Evidence: []Evidence{systemFailed}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject, wantNote: []string{"no usable verdict: no JSON"},
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name:      "a classification that nobody knows is unclear",
			input:     inputOf(),
			outcome:   Outcome{Output: Output{Classification: "HAUNTED"}},
			wantClass: v1alpha1.Unclear, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name:    "a run without an answer writes nothing",
			input:   inputOf(),
			outcome: Outcome{Err: errDeadline, Output: Output{Classification: v1alpha1.TechnicallyBroken}, Evidence: []Evidence{systemFailed}},
		},
		{
			name:  "adjustments are clamped, go to the row they may touch, and count before the default; the rest is dropped",
			input: inputOf(meeting("timeout", "http-403", "http-402", "http-500", "zero", "ninth")),
			outcome: Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, CooldownAdjustments: []v1alpha1.CooldownAdjustment{
				{ErrorSignature: "http-5xx", Duration: "PT30M"},
				{ErrorSignature: "timeout", Duration: "P300D"},
				{ErrorSignature: "http-403", UserID: "alice", Duration: "PT1H"},
				{ErrorSignature: "http-402", UserID: "bob", Duration: "PT1H"},
				{ErrorSignature: "bad signature", Duration: "PT1H"},
				{ErrorSignature: "http-500", Duration: "-PT1H"},
				{ErrorSignature: "recheck", Duration: "PT1H"},
				{ErrorSignature: "zero", Duration: "PT0S"},
				{ErrorSignature: "ninth", Duration: "PT1H"},
			}}},
			wantClass: v1alpha1.TechnicallyBroken, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{
				"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/30m0s cool=timeout/24h0m0s",
				"USER/alice: no state cool=http-403/1h0m0s",
			},
		},
		{
			name:      "the placeholder for no user is no user",
			input:     inputOf(meeting("a"), func(in *Input) { in.Job.Spec.OriginatingUserID = tenancy.SystemUser }),
			outcome:   Outcome{Output: Output{Classification: v1alpha1.UserPermission, CooldownAdjustments: []v1alpha1.CooldownAdjustment{{ErrorSignature: "a", UserID: "_system", Duration: "PT1H"}}}},
			wantClass: v1alpha1.UserPermission, wantScope: v1alpha1.ScopeProject,
			wantRows: []string{"PROJECT/essays: no state cool=http-5xx/24h0m0s"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			applied := Decide(tc.input, tc.outcome, now)
			if applied.Diagnosis.Classification != tc.wantClass || applied.Diagnosis.Scope != tc.wantScope {
				t.Errorf("verdict %s at %s, want %s at %s", applied.Diagnosis.Classification, applied.Diagnosis.Scope, tc.wantClass, tc.wantScope)
			}
			if diff := cmp.Diff(tc.wantRows, describeRows(t, tc.input, applied.Rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if at := applied.Diagnosis.ExpectedRecoveryAt; at != nil && (!at.After(now) || at.Sub(now) > health.MaxWait) {
				t.Errorf("the verdict's estimate is %s", at)
			}
			for _, part := range tc.wantNote {
				if !strings.Contains(applied.Diagnosis.HumanNote, part) {
					t.Errorf("the note %q lacks %q", applied.Diagnosis.HumanNote, part)
				}
			}
		})
	}
}

func TestTheVerdictShowsTheAdjustmentsThatAreApplied(t *testing.T) {
	given := []v1alpha1.CooldownAdjustment{
		{ErrorSignature: "http-5xx", Duration: "PT30M"}, {ErrorSignature: "timeout", Duration: "P300D"},
		{ErrorSignature: "slow", Duration: "PT" + strings.Repeat("0", 40) + "1H"}, {ErrorSignature: "http-403", UserID: "bob", Duration: "PT1H"},
		{ErrorSignature: "http-402", UserID: "alice", Duration: "PT1H"}, {ErrorSignature: "odd", Duration: "an hour"},
	}
	want := []v1alpha1.CooldownAdjustment{
		{ErrorSignature: "http-5xx", Duration: "PT30M"}, {ErrorSignature: "timeout", Duration: "PT24H"},
		{ErrorSignature: "slow", Duration: "PT3600S"}, {ErrorSignature: "http-402", UserID: "alice", Duration: "PT1H"},
	}
	applied := Decide(inputOf(meeting("timeout", "slow", "http-402", "http-403")), Outcome{Output: Output{Classification: v1alpha1.Intermittent, CooldownAdjustments: given}}, now)
	if diff := cmp.Diff(want, applied.Diagnosis.CooldownAdjustments); diff != "" {
		t.Errorf("adjustments (-want +got):\n%s", diff)
	}
}

func TestDecideNamesWhoFoundItAndWhere(t *testing.T) {
	applied := Decide(inputOf(), Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken, HumanNote: "503"}}, now)
	var status v1alpha1.ToolHealthStatus
	applied.Rows[0].Change(&status, now)
	want := &v1alpha1.HealthDiagnosis{Classification: v1alpha1.TechnicallyBroken, ErrorSignature: "http-5xx", Note: "503",
		By: "agrajag-engine/diag-1", At: metav1.NewTime(now), Job: "essays/diag-1", Report: "uid-1"}
	if diff := cmp.Diff(want, status.LastDiagnosis); diff != "" {
		t.Errorf("lastDiagnosis (-want +got):\n%s", diff)
	}
}

func TestWorkingAppliedAgainLeavesWhatCameLater(t *testing.T) {
	in := inputOf(withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx"))
	applied := Decide(in, Outcome{Evidence: []Evidence{systemWorked}, Output: Output{Classification: v1alpha1.Working}}, now)
	status := in.Rows[1].Status.DeepCopy()
	applied.Rows[0].Change(status, now)
	health.Cool(health.Trigger{Signature: "timeout", Class: v1alpha1.Intermittent, Report: "later"})(status, now)
	if applied.Rows[0].Change(status, now) || !slices.ContainsFunc(status.Cooldowns, health.OfSignature("timeout")) {
		t.Error("the verdict, applied again, ended a cooldown that began after it")
	}
}

func TestTextOfAModelIsTamed(t *testing.T) {
	tests := []struct{ name, said, want string }{
		{"control characters and lines", "a\x00b\r\n\x1b[31mc", "ab c"},
		{"links with a scheme", "see https://evil.example/a?b=c, or HTTP:/x", "see [link removed] or [link removed]"},
		{"links without a scheme", "go to www.evil.example or evil.example/login or evil.example:80/x", "go to [link removed] or [link removed] or [link removed]"},
		{"a link hidden by characters that show nothing", "ht\u200btp\u2060s://evil.example", "[link removed]"},
		{"wide letters, slashes and dots", "see https:／／evil.example／x, ｈｔｔｐ：//evil, evil．example/x or evil․example/x", "see [link removed] [link removed] [link removed] or [link removed]"},
		{"stops for dots", "see evil。example/x, evil｡example/x or 例子。中国/登录", "see [link removed] [link removed] or [link removed]"},
		{"backslashes", "see https:\\evil.example or evil.example\\x", "see [link removed] or [link removed]"},
		{"a scheme without slashes", "see http:evil.example or obsidian:open?vault=x", "see [link removed] or [link removed]"},
		{"a name in Punycode", "see evil.xn--p1ai/x or evil.example./x", "see [link removed] or [link removed]"},
		{"letters that are put together", "see ev\u0332il.co\u0301m/x", "see [link removed]"},
		{"an address of IPv6", "see [::ffff:203.0.113.9]/x", "see [link removed]"},
		{"mail, phones and scripts", "mailto:a@b.c javascript:alert(1) sms:+49123 tel:49123", "[link removed] [link removed] [link removed] [link removed]"},
		{"what needs no link is as it was written", "10² … status:503 C:\\dir std::exception ３回", "10² … status:503 C:\\dir std::exception ３回"},
		{"a time and the mark of a secret", "note: at 2026-05-23T14:00:00Z [redacted:1a2b3c]", "note: at 2026-05-23T14:00:00Z [redacted:1a2b3c]"},
		{"secrets", "token ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"},
		{"what only looks a little like a link stays", "as alice: HTTP 401, as system: works; http-5xx at 14:00, 1/2", "as alice: HTTP 401, as system: works; http-5xx at 14:00, 1/2"},
		{"invalid UTF-8", "a\xffb", "ab"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tame(tc.said, maxNote); got != tc.want && (tc.name != "secrets" || !strings.Contains(got, tc.want) || strings.Contains(got, "abcdef")) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	for _, vanishes := range []string{"a", "\u200b", " ", "\x1b[0m"} { // As a link, or by itself.
		for size := maxField - 100; size < maxField; size++ { // Wherever the output was cut.
			said := "www.a" + strings.Repeat(vanishes, (size-len("www.a"))/len(vanishes))
			said += strings.Repeat("a", size-len(said)) + " ghp_" + strings.Repeat("a1B2", 9) + strings.Repeat(" z", maxField)
			if got := tame(said[:maxField], maxNote); strings.Contains(got, "a1B2") {
				t.Fatalf("behind %d bytes of %q: %q", size, vanishes, got)
			}
		}
	}
	applied := Decide(inputOf(), Outcome{Output: Output{Classification: v1alpha1.Working, HumanNote: strings.Repeat("é", 5000)}}, now)
	note := applied.Diagnosis.HumanNote
	if len(note) > maxNote || !strings.Contains(note, "no probe succeeded]") {
		t.Errorf("a long note is %d bytes long or hides the reason: %q", len(note), note)
	}
}
