package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// holdAdjustments takes the cooldowns that may be applied, at most maxAdjustments. One for the user goes to the
// user's row, any other to the verdict's. A verdict that found nothing out, or that the tool works, sets none.
func holdAdjustments(v *verdict) {
	asked := v.asked.CooldownAdjustments
	if len(asked) > 0 && (v.class == v1alpha1.Working || v.class == v1alpha1.Unclear) {
		v.because(fmt.Sprintf("cooldowns dropped: %s sets none", v.class))
		return
	}
	var dropped []string
	for i, a := range asked {
		if i >= maxAdjustments {
			dropped = append(dropped, fmt.Sprintf("all after the %dth", maxAdjustments))
			break
		}
		adjusted, why := v.adjustment(a)
		switch {
		case why == "":
			v.adjustments = append(v.adjustments, adjusted)
		case !slices.Contains(dropped, why):
			dropped = append(dropped, why)
		}
	}
	if len(dropped) > 0 {
		v.because("cooldowns dropped: " + strings.Join(dropped, ", "))
	}
}

// adjustment returns a cooldown as it may be applied, or why it may not.
func (v *verdict) adjustment(a v1alpha1.CooldownAdjustment) (adjusted adjustment, why string) {
	wait, err := classify.ParseDuration(a.Duration)
	key, exists := v.key, v.hasRow
	switch {
	case !a.ErrorSignature.Valid() || a.ErrorSignature == v1alpha1.SignatureRecheck:
		return adjusted, "without an error signature"
	case err != nil || wait < time.Second:
		return adjusted, "without a duration of a second or more"
	case a.UserID != "" && string(a.UserID) != v.in.user():
		return adjusted, "of another user"
	case !v.met(a.ErrorSignature):
		return adjusted, "of an error that nobody met"
	case a.UserID != "":
		key, exists = v.in.row(narrower(v1alpha1.ScopeUser, v.in.widest()))
	}
	again := slices.ContainsFunc(v.adjustments, func(b adjustment) bool { return b.key == key && b.ErrorSignature == a.ErrorSignature })
	switch {
	case !exists:
		return adjusted, "without a row"
	case again:
		return adjusted, "set twice"
	case wait > v.in.maxWait():
		wait = v.in.maxWait()
		a.Duration = "PT" + strings.ToUpper(short(wait))
		v.because("cooldowns cut to the longest wait, " + short(wait))
	case len(a.Duration) > 32:
		a.Duration = fmt.Sprintf("PT%dS", int64(wait/time.Second))
	}
	return adjustment{CooldownAdjustment: a, key: key, wait: wait}, ""
}

// met reports whether an error may cool down at a verdict's word: it was reported, a probe failed with it, or the model was shown
// that it cools down or that it was met before. Else a verdict could silence errors for all that nobody has, before they come.
func (v *verdict) met(signature v1alpha1.ErrorSignature) bool {
	if signature == v.in.Signature || slices.Contains(v.evidence.signatures, signature) {
		return true
	}
	return slices.ContainsFunc(v.in.Rows, func(row *v1alpha1.ToolHealth) bool {
		return row != nil && (slices.ContainsFunc(running(row, v.now), health.OfSignature(signature)) ||
			slices.ContainsFunc(lately(row), func(e v1alpha1.HealthHistoryEntry) bool { return e.ErrorSignature == signature }))
	})
}
