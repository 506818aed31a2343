package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Bounds of a verdict's text, in bytes (specification §5.3).
const (
	maxNote = 500
	maxHint = 200
	// maxReasons leaves room in the note for what the model said.
	maxReasons = 320
)

// verdict is an output on its way through the guard rails of design §5. After rail it may be applied.
type verdict struct {
	in       Input
	evidence evidence
	now      time.Time

	class       v1alpha1.Classification
	scope       v1alpha1.Scope
	key         health.Key // the row of scope
	hasRow      bool       // false: the caller has no row of scope, so nothing is written
	noState     bool       // the row gets cooldowns, but no state
	recovery    time.Time  // zero: unknown
	hint        string
	said        string   // the model's note
	reasons     []string // what the rails changed, and why
	adjustments []adjustment
}

// adjustment is a cooldown that may be applied.
type adjustment struct {
	v1alpha1.CooldownAdjustment
	key  health.Key
	wait time.Duration
}

// evidence sums up the probes of a run.
type evidence struct {
	failed                               bool
	userWorks, userFails, userRefused    bool // refused: the failure is one of authentication
	systemWorks, systemFails, challenged bool
}

func sumUp(list []Evidence) evidence {
	var sum evidence
	for _, e := range list {
		sum.failed = sum.failed || e.Failed
		sum.challenged = sum.challenged || e.Challenged
		if e.As == v1alpha1.ProbeAsUser {
			sum.userWorks, sum.userFails = sum.userWorks || e.Success, sum.userFails || e.Failed
			sum.userRefused = sum.userRefused || e.Failed && isAuth(e.Signature)
			continue
		}
		sum.systemWorks, sum.systemFails = sum.systemWorks || e.Success, sum.systemFails || e.Failed
	}
	return sum
}

// isAuth reports whether an error is about who is calling.
func isAuth(signature v1alpha1.ErrorSignature) bool {
	return strings.HasPrefix(string(signature), "http-401") || signature == "http-403"
}

// onlyUser reports whether the probes show trouble for the user and none for others.
func (e evidence) onlyUser() bool {
	return e.userFails && !e.userWorks && !e.systemFails && (e.systemWorks || e.userRefused)
}

// rail holds an output to what the job allows and the evidence supports. It is the one place where a model's words
// become something that may be applied.
func rail(in Input, out Outcome, now time.Time) *verdict {
	v := &verdict{in: in, evidence: sumUp(out.Evidence), now: now}
	output := out.Output
	if out.Fallback != "" {
		output = Output{Classification: v1alpha1.Unclear}
		v.because("no usable verdict: " + out.Fallback)
	}
	v.class, v.said = output.Classification, tame(output.HumanNote, maxNote)
	if !known(v.class) {
		v.class = v1alpha1.Unclear
	}
	recovery := output.ExpectedRecoveryAt
	if lowered, reason := v.supported(); reason != "" {
		v.because(fmt.Sprintf("lowered from %s: %s", v.class, reason))
		v.class, recovery = lowered, time.Time{}
	}
	v.setScope(v.allowedScope(output.Scope))
	v.setRecovery(recovery)
	switch {
	case !v.hasRow:
		v.because(fmt.Sprintf("the report names nobody for the scope %s, so that nothing is written", v.scope))
	case v.class == v1alpha1.Unclear && v.state() == "":
		v.because("nobody reported an error and no probe met one, so that the state stays")
	}
	if v.class == v1alpha1.UserSpecificTechnical {
		v.hint = tame(output.UserActionHint, maxHint)
	}
	if v.class != v1alpha1.Working {
		v.adjust(output.CooldownAdjustments)
	}
	return v
}

func (v *verdict) because(reason string) { v.reasons = append(v.reasons, reason) }

func (v *verdict) setScope(scope v1alpha1.Scope) {
	v.scope = scope
	v.key, v.hasRow = v.in.row(scope)
}

// supported returns why the evidence does not support the class, and what it is lowered to; "" if it does.
func (v *verdict) supported() (v1alpha1.Classification, string) {
	e := v.evidence
	lowered := v1alpha1.Unclear
	if e.failed {
		lowered = v1alpha1.Intermittent
	}
	switch v.class {
	case v1alpha1.Working:
		if e.userFails && !e.userWorks {
			return lowered, "the probe as the user failed"
		}
		if !e.userWorks && !e.systemWorks {
			return lowered, "no probe succeeded"
		}
		return v.class, ""
	case v1alpha1.TechnicallyBroken:
		if e.failed && !e.userWorks || v.seenBefore() {
			return v.class, ""
		}
	case v1alpha1.UserSpecificTechnical:
		if e.userFails && (e.systemWorks || e.challenged && e.userRefused) || !e.userWorks && v.seenBefore() {
			return v.class, ""
		}
	default:
		return v.class, ""
	}
	if !v.in.Job.Spec.Trigger.IsRecheck() {
		lowered = v1alpha1.Intermittent // the reported call failed
	}
	switch {
	case e.userWorks:
		return lowered, "the probe as the user succeeded"
	case v.class == v1alpha1.UserSpecificTechnical:
		return lowered, "no probe failed as the user beside one that succeeded, and no history matches"
	default:
		return lowered, "no probe failed, and no history matches"
	}
}

// seenBefore reports whether the history that the model saw holds the same trouble, or an outage.
func (v *verdict) seenBefore() bool {
	for _, row := range v.in.Rows {
		if row == nil {
			continue
		}
		for _, entry := range lately(row) {
			same := entry.ErrorSignature == v.in.Signature && v.in.Signature != v1alpha1.SignatureRecheck
			broken := entry.Status == v1alpha1.StateDown || entry.Classification == v1alpha1.TechnicallyBroken
			if entry.Status != v1alpha1.StateOK && (same || broken) {
				return true
			}
		}
	}
	return false
}

// allowedScope returns the scope of the verdict: what was asked for where that is not too wide, and the user's where the
// verdict or the evidence is about the user.
func (v *verdict) allowedScope(asked v1alpha1.Scope) v1alpha1.Scope {
	widest := v.in.widest()
	if v.class.BlamesUser() {
		return v.userScope(widest)
	}
	scope := asked
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
	return scope
}

// userScope returns the scope of a verdict about the user: the user's row, which lies within every wider scope.
func (v *verdict) userScope(widest v1alpha1.Scope) v1alpha1.Scope {
	if v.in.user() == "" {
		if v.class == v1alpha1.UserSpecificTechnical {
			v.because("the report names no user, so that no state is written")
		}
		v.noState = true
		return widest
	}
	return narrower(v1alpha1.ScopeUser, widest)
}

func narrower(a, b v1alpha1.Scope) v1alpha1.Scope {
	if a.Width() < b.Width() {
		return a
	}
	return b
}

// setRecovery takes an estimate as far as it is one, and fills in the short ones of companion §1.
func (v *verdict) setRecovery(at time.Time) {
	if v.state() == v1alpha1.StateOK || v.state() == "" {
		return
	}
	if at.After(v.now) {
		v.recovery = at
		if latest := v.now.Add(health.MaxWait); at.After(latest) {
			v.recovery = latest
		}
		return
	}
	switch v.class {
	case v1alpha1.Intermittent:
		v.recovery = v.now.Add(intermittentRecovery)
	case v1alpha1.Unclear:
		v.recovery = v.now.Add(unclearRecovery)
	}
}

// signature is what the API accepts as ErrorSignature.
var signature = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,118}[A-Za-z0-9])?$`)

// adjust takes the cooldowns that may be applied. One for the user goes to the user's row, any other to the verdict's.
func (v *verdict) adjust(list []v1alpha1.CooldownAdjustment) {
	for _, a := range list[:min(len(list), maxAdjustments)] {
		wait, err := classify.ParseDuration(a.Duration)
		if err != nil || wait < time.Second || !signature.MatchString(string(a.ErrorSignature)) || a.ErrorSignature == v1alpha1.SignatureRecheck {
			continue
		}
		key, ok := v.key, v.hasRow
		if a.UserID != "" {
			if string(a.UserID) != v.in.user() {
				continue
			}
			key, ok = v.in.row(narrower(v1alpha1.ScopeUser, v.in.widest()))
		}
		if wait > health.MaxWait {
			wait, a.Duration = health.MaxWait, "PT24H"
		}
		if len(a.Duration) > 32 {
			a.Duration = fmt.Sprintf("PT%dS", int64(wait/time.Second))
		}
		if ok {
			v.adjustments = append(v.adjustments, adjustment{CooldownAdjustment: a, key: key, wait: wait})
		}
	}
}

// note returns what the model said and what was changed about it. The reasons are never cut off by the model's words.
func (v *verdict) note() string {
	if len(v.reasons) == 0 {
		return v.said
	}
	reasons := tame("["+strings.Join(slices.Compact(v.reasons), "; ")+"]", maxReasons)
	return strings.TrimSpace(text.Plain(v.said, maxNote-len(reasons)-1) + " " + reasons)
}

// link finds addresses, with or without a scheme, so that no text leads a reader somewhere.
var link = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*:/+\S*` +
	`|\b(?:mailto|javascript|data|tel):\S+` +
	`|\bwww\.\S+` +
	`|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::[0-9]+)?/\S*`)

// tame returns text of a model as one plain line without secrets and links, of at most limit bytes.
func tame(s string, limit int) string {
	return text.Plain(link.ReplaceAllString(redact.Text(text.Plain(s, maxField)), "[link removed]"), limit)
}
