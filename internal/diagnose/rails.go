package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// verdict is an output on its way through the guard rails of design §5. After rail it may be applied.
type verdict struct {
	in       Input
	evidence evidence
	now      time.Time
	// asked is what the model answered. Nothing of it is applied but through a rail.
	asked Output

	class       v1alpha1.Classification
	scope       v1alpha1.Scope
	key         health.Key // the row of scope
	hasRow      bool       // false: nothing is written to the row of scope
	noState     bool       // the row gets cooldowns, but no state
	recovery    time.Time  // zero: unknown
	hint        string
	adjustments []adjustment
	reasons     []string // what the rails changed, and why
}

// adjustment is a cooldown that may be applied.
type adjustment struct {
	v1alpha1.CooldownAdjustment
	key  health.Key
	wait time.Duration
}

// rails hold one part of a verdict each to what the job allows and the evidence supports. Later ones build on what
// earlier ones decided.
var rails = []func(*verdict){holdClass, holdScope, holdWorking, holdRow, holdRecovery, holdHint, holdAdjustments}

// rail is the one place where a model's words become something that may be applied. It depends on nothing but its
// arguments: the job, the history and the recipe in in, the probes and the parsed output in out.
func rail(in Input, out Outcome, now time.Time) *verdict {
	v := &verdict{in: in, evidence: sumUp(in, out.Evidence), now: now, asked: out.Output}
	if out.Fallback != "" {
		v.asked = Output{Classification: v1alpha1.Unclear}
		v.because("no usable verdict: " + out.Fallback)
		v.noState = (out.Exhausted || out.Unpaid) && !v.evidence.failed // An empty purse says nothing about the tool.
	}
	v.class = v.asked.Classification
	for _, hold := range rails {
		hold(v)
	}
	v.because(v.asked.Unreadable...)
	return v
}

func (v *verdict) because(reasons ...string) {
	for _, reason := range reasons {
		if !slices.Contains(v.reasons, reason) {
			v.reasons = append(v.reasons, reason)
		}
	}
}

func (v *verdict) setScope(scope v1alpha1.Scope) {
	v.scope = scope
	v.key, v.hasRow = v.in.row(scope)
}

// holdScope sets the scope of the verdict: what was asked for where that is not too wide, and the user's where the
// verdict or the evidence is about the user.
func holdScope(v *verdict) {
	widest := v.in.widest()
	if v.class.BlamesUser() {
		v.setScope(v.userScope(widest))
		return
	}
	scope := v.asked.Scope
	_, exists := v.in.row(scope)
	switch {
	case scope.Width() < 0:
		scope = widest
	case scope.Width() > widest.Width():
		v.because(fmt.Sprintf("%s is wider than allowed", scope))
		scope = widest
	case !exists:
		v.because(fmt.Sprintf("the report names nobody for the scope %s", scope))
		scope = widest
	}
	harms := v.class != v1alpha1.Working
	if user := v1alpha1.ScopeUser; harms && v.evidence.onlyUser() && scope.Width() > user.Width() {
		v.because("the probes show trouble for this user alone")
		scope = user
	}
	v.setScope(scope)
}

// userScope returns the scope of a verdict about the user: the user's row, which lies within every wider scope.
func (v *verdict) userScope(widest v1alpha1.Scope) v1alpha1.Scope {
	if v.in.user() != "" {
		return narrower(v1alpha1.ScopeUser, widest)
	}
	v.noState = true
	v.because(fmt.Sprintf("the report names no user: no state is written, only a cooldown for scope %s", widest))
	return widest
}

func narrower(a, b v1alpha1.Scope) v1alpha1.Scope {
	if a.Width() < b.Width() {
		return a
	}
	return b
}

// holdWorking sets the row that a working tool clears: the narrowest one in trouble of the caller's SESSION, USER and
// PROJECT rows, else the job's (companion §2: success flips only the narrowest row). A row that blames the user's
// own credential is not cleared by a probe as somebody else, and no row by a probe that did not make the tool's call.
func holdWorking(v *verdict) {
	if v.class != v1alpha1.Working {
		return
	}
	scope := v.in.widest()
	for _, row := range v.in.Rows {
		if row == nil || row.Status.State == "" || row.Status.State == v1alpha1.StateOK {
			continue
		}
		width := row.Spec.Scope.Width()
		if width > v.in.widest().Width() || width > v1alpha1.ScopeProject.Width() || v.mayNotClear(row) {
			continue
		}
		scope = row.Spec.Scope
		break
	}
	v.setScope(scope)
	switch row := v.rowOf(scope); {
	case v.evidence.onlyReads:
		v.hasRow = false
		v.because("the tool writes and the probes only read: every row stays as it is")
	case row != nil && v.mayNotClear(row):
		v.hasRow = false
		v.because("the tool works, but was not tried as this user: the user's own row stays")
	}
}

func (v *verdict) mayNotClear(row *v1alpha1.ToolHealth) bool {
	last := row.Status.LastDiagnosis
	return !v.evidence.userWorks && row.Status.State != v1alpha1.StateOK && last != nil && last.Classification.BlamesUser()
}

// rowOf returns the caller's row of a scope as it was read; nil if there is none.
func (v *verdict) rowOf(scope v1alpha1.Scope) *v1alpha1.ToolHealth {
	i := slices.IndexFunc(v.in.Rows, func(row *v1alpha1.ToolHealth) bool { return row != nil && row.Spec.Scope == scope })
	if i < 0 {
		return nil
	}
	return v.in.Rows[i]
}

// holdRow says why a verdict leaves the row of its scope as it is, or the state in it.
func holdRow(v *verdict) {
	_, exists := v.in.row(v.scope)
	switch {
	case !exists:
		v.because(fmt.Sprintf("the report names nobody for the scope %s: nothing is written", v.scope))
	case v.class == v1alpha1.Unclear && v.state() == "":
		v.because("nobody reported an error and no probe met one: the state stays")
	case v.keepsDown() && v.isDown():
		v.because("nothing shows that the tool recovers: it stays DOWN")
	}
}

// keepsDown reports whether a verdict that would only degrade the tool has nothing to set against an earlier DOWN: for
// that a probe must have made the tool's call, or met trouble that comes and goes.
func (v *verdict) keepsDown() bool {
	if v.state() != v1alpha1.StateDegraded || v.evidence.contradicts() {
		return false
	}
	return v.class != v1alpha1.Intermittent || !v.evidence.failed && !v.evidence.challenged
}

// isDown reports whether the row of the verdict is DOWN, as far as was known when the diagnosis began.
func (v *verdict) isDown() bool {
	row := v.rowOf(v.scope)
	return row != nil && holdsDown(row.Status, v.now)
}

// holdsDown reports whether a row says DOWN, and not only until an instant that has passed.
func holdsDown(status v1alpha1.ToolHealthStatus, now time.Time) bool {
	return status.State == v1alpha1.StateDown && (status.ExpectedRecoveryAt == nil || status.ExpectedRecoveryAt.After(now))
}

// noTime is an unknown time.
var noTime time.Time

// holdRecovery takes an estimate as far as it is one, and fills in the short ones of companion §1.
func holdRecovery(v *verdict) {
	asked := v.asked.ExpectedRecoveryAt
	switch state := v.state(); {
	case state == v1alpha1.StateOK || state == "":
		if !asked.IsZero() {
			v.because(fmt.Sprintf("%s has no expectedRecoveryAt", v.class))
		}
		return
	case v.keepsDown() && v.isDown():
		if at := v.rowOf(v.scope).Status.ExpectedRecoveryAt; at != nil {
			v.recovery = at.Time
		}
		return
	}
	latest := v.now.Add(v.in.maxWait())
	switch {
	case asked.After(latest):
		v.because("expectedRecoveryAt cut to the longest wait, " + short(v.in.maxWait()))
		v.recovery = latest
		return
	case !asked.Before(v.now.Add(time.Second)): // Times in status are whole seconds.
		v.recovery = asked
		return
	case !asked.IsZero():
		v.because("expectedRecoveryAt dropped: it is not in the future")
	}
	switch v.class {
	case v1alpha1.Intermittent:
		v.recovery = v.now.Add(min(intermittentRecovery, v.in.maxWait()))
	case v1alpha1.Unclear:
		v.recovery = v.now.Add(min(unclearRecovery, v.in.maxWait()))
	}
}

// short prints a duration without zero parts at its end, as in 1h30m.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// holdHint takes the hint where somebody is to be told it: the user whose row the verdict is written to.
func holdHint(v *verdict) {
	hint := tameHint(v.asked.UserActionHint, v.in)
	switch {
	case hint == "":
	case v.class != v1alpha1.UserSpecificTechnical:
		v.because("userActionHint dropped: only for USER_SPECIFIC_TECHNICAL")
	case !v.hasRow || v.noState:
		v.because("userActionHint dropped: nobody is there to read it")
	default:
		v.hint = hint
	}
}
