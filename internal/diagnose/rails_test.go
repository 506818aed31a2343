package diagnose

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// writes makes the tool one that writes, of which a probe calls something that reads.
func writes(in *Input) {
	in.Tool = &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Safety: v1alpha1.SafetyWrite}}
}

// reads makes the tool one that a probe calls as agents do.
func reads(in *Input) {
	in.Tool = &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Safety: v1alpha1.SafetySafeProbe}}
}

// reporting makes the report one of a status.
func reporting(status int32) func(*Input) {
	return func(in *Input) { in.Job.Spec.Error.HTTPStatus = &status }
}

func signed(signature v1alpha1.ErrorSignature) func(*Input) {
	return func(in *Input) { in.Signature = signature }
}

// down adds a PROJECT row that an outage took down, expected to recover after a while; 0: nobody knows when.
func down(recovery time.Duration) func(*Input) {
	return func(in *Input) {
		row := &v1alpha1.ToolHealth{}
		row.Namespace, row.Spec.Scope, row.Spec.ScopeID = "essays", v1alpha1.ScopeProject, "essays"
		finding := health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Signature: "connect-refused", By: "agrajag-checker/x"}
		health.Mark(finding)(&row.Status, now.Add(-time.Hour))
		if recovery != 0 {
			row.Status.ExpectedRecoveryAt = &metav1.Time{Time: now.Add(recovery)}
		}
		in.Rows = append(in.Rows, row)
	}
}

// cooling adds a row that exists for a cooldown alone.
func cooling(scope v1alpha1.Scope) func(*Input) {
	return func(in *Input) {
		key, _ := in.row(scope)
		row := &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{Scope: scope, ScopeID: key.ScopeID}}
		health.Cool(health.Trigger{Signature: "http-403", Class: v1alpha1.UserPermission})(&row.Status, now)
		in.Rows = append(in.Rows, row)
	}
}

// remembering adds a PROJECT row that works by now and remembers entries, the newest first.
func remembering(entries ...v1alpha1.HealthHistoryEntry) func(*Input) {
	return func(in *Input) {
		row := &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{Scope: v1alpha1.ScopeProject, ScopeID: "essays"}}
		row.Namespace, row.Status.State, row.Status.History = "essays", v1alpha1.StateOK, entries
		in.Rows = append(in.Rows, row)
	}
}

func waiting(most time.Duration) func(*Input) { return func(in *Input) { in.MaxWait = most } }

// adjusting returns an output that sets cooldowns.
func adjusting(class v1alpha1.Classification, list ...v1alpha1.CooldownAdjustment) Output {
	return Output{Classification: class, CooldownAdjustments: list}
}

// TestEveryChangeLeavesItsReason goes through the clauses of design §5 one by one.
func TestEveryChangeLeavesItsReason(t *testing.T) {
	hour := now.Add(time.Hour)
	guess := v1alpha1.HealthHistoryEntry{Status: v1alpha1.StateDegraded, Classification: v1alpha1.Intermittent, ErrorSignature: "http-5xx", By: health.ByEngine("diag-0")}
	undecided := guess
	undecided.Classification = v1alpha1.Unclear
	proven := guess
	proven.Status, proven.Classification = v1alpha1.StateDown, v1alpha1.TechnicallyBroken
	degraded := proven
	degraded.Status, degraded.ErrorSignature = v1alpha1.StateDegraded, "timeout"
	fine := v1alpha1.HealthHistoryEntry{Status: v1alpha1.StateOK, Classification: v1alpha1.Working}
	tests := []struct {
		name     string
		input    Input
		evidence []Evidence
		output   Output
		want     string // class, scope
		wantRows []string
		reasons  []string
	}{
		// What breaking the rails on purpose left unnoticed.
		{
			name: "a verdict without a state has no estimate", input: inputOf(), evidence: []Evidence{userFailed},
			output: Output{Classification: v1alpha1.UserPermission, ExpectedRecoveryAt: hour}, want: "USER_PERMISSION USER",
			wantRows: []string{"USER/alice: no state cool=http-5xx/24h0m0s"}, reasons: []string{"USER_PERMISSION has no expectedRecoveryAt"},
		},
		{
			name: "a reason is given once", input: inputOf(meeting("a", "b")), evidence: []Evidence{systemFailed},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "a", Duration: "P2D"}, v1alpha1.CooldownAdjustment{ErrorSignature: "b", Duration: "P3D"}),
			want:   "INTERMITTENT PROJECT", wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=a/24h0m0s cool=b/24h0m0s cool=http-5xx/30s"},
			reasons: []string{"cooldowns cut to the longest wait, 24h"},
		},
		{
			name: "an outage of another error that was met before matches, whatever state it led to", input: inputOf(remembering(degraded)),
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name: "history that the model was not shown matches nothing", input: inputOf(remembering(fine, fine, fine, fine, fine, fine, proven)),
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: no probe failed, and no history matches"},
		},
		{
			name: "a failure as the user alone is not proof that it is the user's", input: inputOf(), evidence: []Evidence{userFailed},
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from USER_SPECIFIC_TECHNICAL: no probe failed as the user beside one that succeeded, and no history matches"},
		},
		{
			name: "nor is it beside a challenge, where the credential was not what failed", input: inputOf(), evidence: []Evidence{userFailed, systemReached},
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from USER_SPECIFIC_TECHNICAL: no probe failed as the user beside one that succeeded, and no history matches"},
		},
		{
			name: "that the user can read is nothing against trouble with writing", input: inputOf(writes, remembering(proven)), evidence: []Evidence{userWorked},
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "USER_SPECIFIC_TECHNICAL USER",
			wantRows: []string{"USER/alice: DOWN USER_SPECIFIC_TECHNICAL cool=http-5xx/15m0s"},
		},
		{
			name: "a tool that works sets no cooldown", input: inputOf(), evidence: []Evidence{systemWorked},
			output: adjusting(v1alpha1.Working, v1alpha1.CooldownAdjustment{ErrorSignature: "a", Duration: "PT1H"}), want: "WORKING PROJECT",
			wantRows: []string{"PROJECT/essays: OK WORKING"}, reasons: []string{"cooldowns dropped: WORKING sets none"},
		},
		{
			name: "one error may cool down for everybody and longer for the user", input: inputOf(meeting("a")), evidence: []Evidence{systemFailed},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "a", Duration: "PT1H"},
				v1alpha1.CooldownAdjustment{ErrorSignature: "a", UserID: "alice", Duration: "PT2H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=a/1h0m0s cool=http-5xx/30s", "USER/alice: no state cool=a/2h0m0s"},
		},
		{
			name: "a question that met a failure may degrade", input: inputOf(recheck), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.Unclear}, want: "UNCLEAR PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name: "a tool that asks for a credential is reached, which speaks against DOWN", input: inputOf(reads, down(time.Hour)), evidence: []Evidence{systemReached},
			output: Output{Classification: v1alpha1.Intermittent}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		{
			name: "a success as the user lifts what blamed the user", input: inputOf(reads, withRow(v1alpha1.ScopeUser, v1alpha1.StateDown, v1alpha1.UserSpecificTechnical, "http-401")),
			evidence: []Evidence{userWorked}, output: Output{Classification: v1alpha1.Working}, want: "WORKING USER",
			wantRows: []string{"USER/alice: OK WORKING cool=http-403/23h0m0s"},
		},
		{
			name:     "what works ends the cooldown of the error that was reported, whatever its class",
			input:    inputOf(reads, signed("http-403"), withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")),
			evidence: []Evidence{systemWorked}, output: Output{Classification: v1alpha1.Working}, want: "WORKING PROJECT",
			wantRows: []string{"PROJECT/essays: OK WORKING"},
		},
		{
			name: "a row that is OK by now may be said to be, whom it blamed before", input: inputOf(reads, scoped(v1alpha1.ScopeUser), func(in *Input) {
				withRow(v1alpha1.ScopeUser, v1alpha1.StateDown, v1alpha1.UserSpecificTechnical, "http-401")(in)
				in.Rows[1].Status.State = v1alpha1.StateOK
			}),
			evidence: []Evidence{systemWorked}, output: Output{Classification: v1alpha1.Working}, want: "WORKING USER",
			wantRows: []string{"USER/alice: OK WORKING cool=http-403/23h0m0s"},
		},
		{
			name: "a row that only has a cooldown is not the one in trouble", input: inputOf(reads, cooling(v1alpha1.ScopeUser), down(time.Hour)),
			evidence: []Evidence{userWorked}, output: Output{Classification: v1alpha1.Working}, want: "WORKING PROJECT",
			wantRows: []string{"PROJECT/essays: OK WORKING"},
		},
		// Evidence for TECHNICALLY_BROKEN.
		{
			name: "an outage that a probe shows needs no reason", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: hour}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=1h0m0s cool=http-5xx/1h0m0s"},
		},
		{
			name: "the system's refused credential alone is no outage", input: inputOf(anonymous), evidence: []Evidence{systemRefused},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: only the system's credential was refused"},
		},
		{
			name: "nor is it where the report is about a refused credential, too", input: inputOf(anonymous, signed("http-401"), reporting(401)), evidence: []Evidence{systemRefused},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-401/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: only the system's credential was refused"},
		},
		{
			name: "nor are two refused credentials: the tool answers", input: inputOf(signed("http-401"), reporting(401)), evidence: []Evidence{userRefused, systemRefused},
			output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: hour}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-401/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: both credentials were refused, and nothing else failed: the tool answers", "its estimate and cooldowns dropped with it"},
		},
		{
			name: "a failure of another kind beside a refusal is one", input: inputOf(), evidence: []Evidence{userFailed, systemRefused},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name: "whoever met it", input: inputOf(), evidence: []Evidence{userRefused, systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name: "history stands against no probe that succeeds now", input: inputOf(reads, remembering(proven)), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: the probe as the system succeeded"},
		},
		{
			name: "of a tool that writes it does, since the probe only read", input: inputOf(writes, remembering(proven)), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		{
			name: "a claim does not become true by being made twice", input: inputOf(remembering(guess)),
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: no probe failed, and no history matches"},
		},
		{
			name: "nor by a diagnosis that decided nothing", input: inputOf(remembering(undecided)),
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from USER_SPECIFIC_TECHNICAL: no probe failed as the user beside one that succeeded, and no history matches"},
		},
		{
			name: "a diagnosis that had proof is history", input: inputOf(remembering(proven)),
			output: Output{Classification: v1alpha1.TechnicallyBroken}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
		},
		// Evidence for verdicts on the user.
		{
			name: "a user who succeeds has no trouble, whatever failed before", input: inputOf(reads), evidence: []Evidence{userFailed, userWorked, systemWorked},
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from USER_SPECIFIC_TECHNICAL: the probe as the user succeeded"},
		},
		{
			name: "an outage of something else is no history of the user's trouble", input: inputOf(down(0)),
			output: Output{Classification: v1alpha1.UserSpecificTechnical}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN INTERMITTENT cool=http-5xx/30s"},
			reasons: []string{"lowered from USER_SPECIFIC_TECHNICAL: no probe failed as the user beside one that succeeded, and no history matches",
				"nothing shows that the tool recovers: it stays DOWN"},
		},
		{
			name: "a question is no evidence of a missing permission", input: inputOf(recheck),
			output: Output{Classification: v1alpha1.UserPermission}, want: "UNCLEAR PROJECT",
			reasons: []string{"lowered from USER_PERMISSION: nobody reported a failure, and no probe met one",
				"nobody reported an error and no probe met one: the state stays"},
		},
		{
			name: "nor of trouble that comes and goes", input: inputOf(recheck), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.Intermittent, ExpectedRecoveryAt: hour}, want: "UNCLEAR PROJECT",
			reasons: []string{"lowered from INTERMITTENT: nobody reported a failure, and no probe met one", "its estimate and cooldowns dropped with it",
				"nobody reported an error and no probe met one: the state stays"},
		},
		{
			name: "history is", input: inputOf(recheck, remembering(proven)), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.Intermittent}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s"},
		},
		{
			name: "a verdict on the user without one writes no state and says so", input: inputOf(anonymous, scoped(v1alpha1.ScopeTenant)),
			output: Output{Classification: v1alpha1.UserInput}, want: "USER_INPUT TENANT", wantRows: []string{"TENANT/acme: no state cool=http-5xx/5m0s"},
			reasons: []string{"the report names no user: no state is written, only a cooldown for scope TENANT"},
		},
		{
			name: "a session's job without a session touches nothing", input: inputOf(anonymous, scoped(v1alpha1.ScopeSession)), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.UserPermission}, want: "USER_PERMISSION SESSION",
			reasons: []string{"the report names no user: no state is written, only a cooldown for scope SESSION",
				"the report names nobody for the scope SESSION: nothing is written"},
		},
		// What lifts a DOWN.
		{
			name: "a success that only read does not lift a tool whose failing call writes", input: inputOf(writes, down(3*time.Hour)), evidence: []Evidence{userWorked, systemWorked},
			output: Output{Classification: v1alpha1.Working}, want: "UNCLEAR PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN UNCLEAR recovery=3h0m0s"},
			reasons: []string{"lowered from WORKING: the probes only read, and the call that failed writes",
				"nothing shows that the tool recovers: it stays DOWN"},
		},
		{
			name: "asked whether such a tool works, the answer may be yes, and the rows stay", input: inputOf(writes, recheck, down(0)), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.Working}, want: "WORKING PROJECT",
			reasons: []string{"the tool writes and the probes only read: every row stays as it is"},
		},
		{
			name: "where nothing was found out a DOWN stays, with its estimate", input: inputOf(down(3 * time.Hour)),
			output: Output{Classification: v1alpha1.Unclear}, want: "UNCLEAR PROJECT", wantRows: []string{"PROJECT/essays: DOWN UNCLEAR recovery=3h0m0s"},
			reasons: []string{"nothing shows that the tool recovers: it stays DOWN"},
		},
		{
			name: "a DOWN whose time is over is no news to keep", input: inputOf(down(-time.Minute)),
			output: Output{Classification: v1alpha1.Unclear}, want: "UNCLEAR PROJECT", wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name: "a probe that succeeds softens a DOWN", input: inputOf(reads, down(0)), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.Unclear}, want: "UNCLEAR PROJECT", wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
		},
		{
			name: "so does one that meets trouble which comes and goes", input: inputOf(down(0)), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.Intermittent}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
		},
		// Estimates.
		{
			name: "an estimate in the past", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.Intermittent, ExpectedRecoveryAt: now.Add(-time.Hour)}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"expectedRecoveryAt dropped: it is not in the future"},
		},
		{
			name: "an estimate that whole seconds would put into the past", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: now.Add(time.Millisecond)}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"}, reasons: []string{"expectedRecoveryAt dropped: it is not in the future"},
		},
		{
			name: "an estimate of years", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: now.AddDate(99, 0, 0)}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=24h0m0s cool=http-5xx/24h0m0s"},
			reasons:  []string{"expectedRecoveryAt cut to the longest wait, 24h"},
		},
		{
			name: "waits above the operator's maximum", input: inputOf(waiting(90*time.Minute), meeting("timeout")), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken, ExpectedRecoveryAt: now.Add(2 * time.Hour),
				CooldownAdjustments: []v1alpha1.CooldownAdjustment{{ErrorSignature: "timeout", Duration: "PT2H"}}}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=1h30m0s cool=timeout/1h30m0s cool=http-5xx/1h30m0s"},
			reasons:  []string{"expectedRecoveryAt cut to the longest wait, 1h30m", "cooldowns cut to the longest wait, 1h30m"},
		},
		{
			name: "the fallback's own estimate is held to it, too", input: inputOf(waiting(10 * time.Minute)), want: "UNCLEAR PROJECT",
			output: Output{Classification: v1alpha1.Unclear}, wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=10m0s"},
		},
		{
			name: "an estimate of a tool that works", input: inputOf(), evidence: []Evidence{systemWorked},
			output: Output{Classification: v1alpha1.Working, ExpectedRecoveryAt: hour}, want: "WORKING PROJECT", wantRows: []string{"PROJECT/essays: OK WORKING"},
			reasons: []string{"WORKING has no expectedRecoveryAt"},
		},
		// Cooldowns.
		{
			name: "cooldowns that may not be, each kind once", input: inputOf(meeting("timeout", "e", "f")), evidence: []Evidence{systemFailed},
			output: adjusting(v1alpha1.Intermittent,
				v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "P300D"}, v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "PT1M"},
				v1alpha1.CooldownAdjustment{ErrorSignature: "a", UserID: "bob", Duration: "PT1H"}, v1alpha1.CooldownAdjustment{ErrorSignature: "b", UserID: "carol", Duration: "PT1H"},
				v1alpha1.CooldownAdjustment{ErrorSignature: "c", Duration: "-PT1H"}, v1alpha1.CooldownAdjustment{ErrorSignature: "d\n", Duration: "PT1H"},
				v1alpha1.CooldownAdjustment{ErrorSignature: "e", UserID: "alice", Duration: "PT1H"}, v1alpha1.CooldownAdjustment{ErrorSignature: "f", Duration: "PT1H"},
				v1alpha1.CooldownAdjustment{ErrorSignature: "g", Duration: "PT1H"}),
			want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=timeout/24h0m0s cool=f/1h0m0s cool=http-5xx/30s",
				"USER/alice: no state cool=e/1h0m0s"},
			reasons: []string{"cooldowns cut to the longest wait, 24h",
				"cooldowns dropped: set twice, of another user, without a duration of a second or more, without an error signature, all after the 8th"},
		},
		{
			name: "a report alone silences no other error", input: inputOf(),
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "http-401", Duration: "P1D"}, v1alpha1.CooldownAdjustment{ErrorSignature: "http-5xx", Duration: "PT1H"}),
			want:   "INTERMITTENT PROJECT", wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/1h0m0s"},
			reasons: []string{"cooldowns dropped: of an error that nobody met"},
		},
		{
			name: "nor does a challenge, or a probe that said nothing", input: inputOf(), evidence: []Evidence{systemReached, {As: v1alpha1.ProbeAsUser, Signature: "http-400"}},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "http-401", Duration: "P1D"}, v1alpha1.CooldownAdjustment{ErrorSignature: "http-400", Duration: "P1D"}),
			want:   "INTERMITTENT PROJECT", wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons: []string{"cooldowns dropped: of an error that nobody met"},
		},
		{
			name: "what a probe met may cool down", input: inputOf(), evidence: []Evidence{{As: v1alpha1.ProbeAsSystem, Failed: true, Signature: "timeout"}},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "PT1H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=timeout/1h0m0s cool=http-5xx/30s"},
		},
		{
			name: "and what was met before", input: inputOf(remembering(degraded)),
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "PT1H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=timeout/1h0m0s cool=http-5xx/30s"},
		},
		{
			name: "unless the model was not shown it", input: inputOf(remembering(fine, fine, fine, fine, fine, fine, degraded)),
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "PT1H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"}, reasons: []string{"cooldowns dropped: of an error that nobody met"},
		},
		{
			name: "a cooldown that is over was long ago", input: inputOf(meeting("timeout"), func(in *Input) { in.Rows[0].Status.Cooldowns[0].Until = *timePtr(now) }),
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "timeout", Duration: "PT1H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"}, reasons: []string{"cooldowns dropped: of an error that nobody met"},
		},
		{
			name: "cooldowns of a verdict that was lowered rested on it", input: inputOf(),
			output: adjusting(v1alpha1.TechnicallyBroken, v1alpha1.CooldownAdjustment{ErrorSignature: "http-5xx", Duration: "PT24H"}), want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"},
			reasons:  []string{"lowered from TECHNICALLY_BROKEN: no probe failed, and no history matches", "its estimate and cooldowns dropped with it"},
		},
		{
			name: "who decides nothing sets no cooldown", input: inputOf(),
			output: adjusting(v1alpha1.Unclear, v1alpha1.CooldownAdjustment{ErrorSignature: "http-5xx", Duration: "PT24H"}), want: "UNCLEAR PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"}, reasons: []string{"cooldowns dropped: UNCLEAR sets none"},
		},
		{
			name: "the user's cooldown goes to the session where no more is allowed", input: inputOf(meeting("a"), maxScope(v1alpha1.ScopeSession)), evidence: []Evidence{systemFailed},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "a", UserID: "alice", Duration: "PT1H"}), want: "INTERMITTENT SESSION",
			wantRows: []string{"SESSION/s1@2bd806c97f0e: DEGRADED INTERMITTENT recovery=2m0s cool=a/1h0m0s cool=http-5xx/30s"},
		},
		{
			name: "and nowhere without a session", input: inputOf(meeting("a"), maxScope(v1alpha1.ScopeSession), func(in *Input) { in.Job.Spec.OriginatingSessionID = "" }), evidence: []Evidence{systemFailed},
			output: adjusting(v1alpha1.Intermittent, v1alpha1.CooldownAdjustment{ErrorSignature: "a", UserID: "alice", Duration: "PT1H"}), want: "INTERMITTENT SESSION",
			reasons: []string{"the report names nobody for the scope SESSION: nothing is written", "cooldowns dropped: without a row"},
		},
		// Hints.
		{
			name: "a hint beside another verdict", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.TechnicallyBroken, UserActionHint: "reinstall"}, want: "TECHNICALLY_BROKEN PROJECT",
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"},
			reasons:  []string{"userActionHint dropped: only for USER_SPECIFIC_TECHNICAL"},
		},
		{
			name: "a hint for nobody", input: inputOf(anonymous, remembering(proven)),
			output: Output{Classification: v1alpha1.UserSpecificTechnical, UserActionHint: "renew"}, want: "USER_SPECIFIC_TECHNICAL PROJECT",
			wantRows: []string{"PROJECT/essays: no state cool=http-5xx/15m0s"},
			reasons: []string{"the report names no user: no state is written, only a cooldown for scope PROJECT",
				"userActionHint dropped: nobody is there to read it"},
		},
		// The rest.
		{
			name: "what could not be read", input: inputOf(), evidence: []Evidence{systemFailed},
			output: Output{Classification: v1alpha1.Intermittent, Unreadable: []string{"could not be read: scope"}}, want: "INTERMITTENT PROJECT",
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"}, reasons: []string{"could not be read: scope"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out := Outcome{Evidence: tc.evidence, Output: tc.output}
			applied := Decide(tc.input, out, now)
			if got := string(applied.Diagnosis.Classification) + " " + string(applied.Diagnosis.Scope); got != tc.want {
				t.Errorf("verdict %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(tc.wantRows, describeRows(t, tc.input, applied.Rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.reasons, rail(tc.input, out, now).reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if len(tc.reasons) > 0 && !strings.Contains(applied.Diagnosis.HumanNote, tc.reasons[0]) {
				t.Errorf("the note %q lacks the reason", applied.Diagnosis.HumanNote)
			}
			checkAll(t, checked(tc.input, out))
		})
	}
}

// TestADownIsKeptAsItIsWhenWritten: between the diagnosis and its write the tool may have failed or recovered.
func TestADownIsKeptAsItIsWhenWritten(t *testing.T) {
	tests := []struct {
		name   string
		before func(*v1alpha1.ToolHealthStatus)
		want   string
	}{
		{"the row is new", func(*v1alpha1.ToolHealthStatus) {}, "DEGRADED UNCLEAR recovery=15m0s"},
		{"a rule took it down meanwhile", func(s *v1alpha1.ToolHealthStatus) {
			health.Mark(health.Finding{State: v1alpha1.StateDown, RecoveryAt: now.Add(5 * time.Minute)})(s, now)
		}, "DOWN UNCLEAR recovery=5m0s"},
		{"a call succeeded meanwhile", func(s *v1alpha1.ToolHealthStatus) {
			health.Mark(health.Finding{State: v1alpha1.StateOK})(s, now)
		}, "DEGRADED UNCLEAR recovery=15m0s"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			applied := Decide(inputOf(), Outcome{Output: Output{Classification: v1alpha1.Unclear}}, now)
			var status v1alpha1.ToolHealthStatus
			tc.before(&status)
			applied.Rows[0].Change(&status, now)
			if got := describeStatus(status); got != tc.want {
				t.Errorf("the row holds %s, want %s", got, tc.want)
			}
		})
	}
}

// A DOWN that stays keeps its estimate, also in what the job says; a verdict without a state has none there either.
func TestTheVerdictTellsTheEstimateThatCounts(t *testing.T) {
	hour := now.Add(time.Hour)
	in := inputOf(reads, down(time.Hour))
	kept := Decide(in, Outcome{Output: Output{Classification: v1alpha1.Unclear, ExpectedRecoveryAt: now.Add(time.Minute)}}, now).Diagnosis
	if at := kept.ExpectedRecoveryAt; at == nil || !at.Time.Equal(hour) {
		t.Errorf("of a DOWN that stays until %s it says %v", hour, at)
	}
	permission := Decide(inputOf(), Outcome{Output: Output{Classification: v1alpha1.UserPermission, ExpectedRecoveryAt: hour}}, now).Diagnosis
	if permission.ExpectedRecoveryAt != nil {
		t.Errorf("of a permission it says %v", permission.ExpectedRecoveryAt)
	}
}

func TestAHintNamesNoPlaceToGo(t *testing.T) {
	in := inputOf(func(in *Input) { in.Job.Spec.ToolName = "files.read" })
	tests := []struct{ name, said, want string }{
		{"plain words", "Renew your token in Settings.", "Renew your token in Settings."},
		{"the tool's own name", "Renew your sign-in for files.read; others can use it.", "Renew your sign-in for files.read; others can use it."},
		{"a host", "Sign in at login.evil.example now", "Sign in at [link removed] now"},
		{"a host in another script", "Войдите на пример.рф", "Войдите на [link removed]"},
		{"an address of numbers", "Open 203.0.113.9 please", "Open [link removed] please"},
		{"a mailbox", "Write to it@evil.example", "Write to it@[link removed]"},
		{"a link of Markdown", "[renew](evil.example/x?t=1)", "[renew[link removed]"},
		{"a stop for the dot", "Renew at evil。com now, or evil｡com", "Renew at [link removed] now, or [link removed]"},
		{"a stop for the dot before a name in Chinese", "打开 evil。中国", "打开 [link removed]"},
		{"stops of sentences", "请更新token。其他人可以使用。2分钟后再试。谢谢。GitHub：可以使用", "请更新token。其他人可以使用。2分钟后再试。谢谢。GitHub：可以使用"},
		{"other dots", "Renew at evil．com, evil․com", "Renew at [link removed] [link removed]"},
		{"a path", "Renew at intranet/login, intranet\\login", "Renew at [link removed] [link removed]"},
		{"a port", "Renew at localhost:80 please", "Renew at [link removed] please"},
		{"an address in hex", "Open 0x7f000001 or 0x7f000001/x", "Open [link removed] or [link removed]"},
		{"an address in one number", "Open 3232235777/x", "Open [link removed]"},
		{"an address of IPv6", "Open 2001:db8::1 or ::1", "Open [link removed] or [link removed]"},
		{"any scheme", "Open sms:+49123 or obsidian:vault", "Open [link removed] or [link removed]"},
		{"a host behind the mark of a secret", "Open [redacted:1a2b3c]evil", "Open [[link removed]"},
		{"what is no place", "note: renew token and/or key [redacted:1a2b3c] by 14:00, 24/7, in 1/2 hour.", "note: renew token and/or key [redacted:1a2b3c] by 14:00, 24/7, in 1/2 hour."},
		{"abbreviations", "e.g. in your account", "e.g. in your account"},
		{"too many words", strings.Repeat("renew ", 100), strings.Repeat("renew ", 32) + "renew…"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tameHint(tc.said, in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
