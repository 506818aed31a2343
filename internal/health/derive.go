package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxStatusBytes bounds a row's status as JSON (design §3): schema lengths count characters, etcd counts bytes.
const maxStatusBytes = 32 << 10

// Derive sets a row's conditions from the rest of it and returns when they are next due to change; zero: never
// by themselves. Nothing else sets conditions.
func Derive(row *v1alpha1.ToolHealth, accepted metav1.Condition, now time.Time) (next time.Time) {
	status := &row.Status
	status.ObservedGeneration = row.Generation
	available, next := availability(row, now)
	wanted := []metav1.Condition{available, accepted}
	for _, c := range status.Cooldowns {
		wanted = append(wanted, cooldownCondition(c, now))
		if c.Until.After(now) {
			next = earlier(next, c.Until.Time)
		}
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(have metav1.Condition) bool {
		return !slices.ContainsFunc(wanted, func(want metav1.Condition) bool { return want.Type == have.Type })
	})
	for _, condition := range wanted {
		condition.ObservedGeneration = row.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return next
}

// Placed is the Accepted condition of a row that is where its identity belongs.
func Placed() metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonAccepted, Message: "The row is in force"}
}

// availability derives the Available condition and when it changes by itself.
func availability(row *v1alpha1.ToolHealth, now time.Time) (metav1.Condition, time.Time) {
	condition := metav1.Condition{Type: v1alpha1.ConditionAvailable}
	status := &row.Status
	override := activeOverride(row, now)
	state := status.State
	var next time.Time
	if override != nil {
		state = override.State
		if override.Until != nil {
			next = override.Until.Time
		}
	}
	switch {
	case override == nil && state == "":
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNoState
		condition.Message = "Nothing is known about the tool here; the row keeps cooldowns"
	case override == nil && pastRecovery(status, now):
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonRetesting
		condition.Message = fmt.Sprintf("Expected to work again since %s; the next call is the test", stamp(status.ExpectedRecoveryAt))
	default:
		condition.Status, condition.Reason = statusOf(state)
		condition.Message = explain(status)
	}
	if override != nil {
		condition.Reason = v1alpha1.ReasonOverridden
		condition.Message = text.Plain(fmt.Sprintf("Pinned to %s by %s: %s", state, cmp.Or(string(override.By), "spec.override"), override.Reason), 1024)
	} else if status.ExpectedRecoveryAt != nil && status.ExpectedRecoveryAt.After(now) && state != v1alpha1.StateOK {
		next = status.ExpectedRecoveryAt.Time
	}
	return condition, next
}

func statusOf(state v1alpha1.State) (metav1.ConditionStatus, string) {
	switch state {
	case v1alpha1.StateDown:
		return metav1.ConditionFalse, v1alpha1.ReasonDown
	case v1alpha1.StateDegraded:
		return metav1.ConditionTrue, v1alpha1.ReasonDegraded
	default:
		return metav1.ConditionTrue, v1alpha1.ReasonOK
	}
}

// explain tells a person why the state is what it is.
func explain(status *v1alpha1.ToolHealthStatus) string {
	if status.LastDiagnosis == nil {
		return ""
	}
	d := status.LastDiagnosis
	return text.Plain(fmt.Sprintf("%s: %s", d.Classification, d.Note), 1024)
}

func cooldownCondition(c v1alpha1.Cooldown, now time.Time) metav1.Condition {
	condition := metav1.Condition{
		Type:   v1alpha1.ConditionCooldownPrefix + string(c.ErrorSignature),
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonExpired,
		Message: fmt.Sprintf("%s cooled down until %s", c.Classification, stamp(&c.Until)),
	}
	if c.Until.After(now) {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonCoolingDown
		condition.Message = fmt.Sprintf("%s cools down until %s", c.Classification, stamp(&c.Until))
	}
	return condition
}

// Bound cuts what a status has too much of. No cooldown and no estimate lies further ahead than maxWait. Cooldowns
// that are no longer remembered go; over the limits ended cooldowns go, then old history, then the cooldown that ends
// first. The state is never dropped.
func Bound(status *v1alpha1.ToolHealthStatus, now time.Time, maxWait time.Duration) {
	boundWaits(status, now.Add(maxWait))
	status.Cooldowns = slices.DeleteFunc(status.Cooldowns, func(c v1alpha1.Cooldown) bool { return !remembered(c, now) })
	for len(status.Cooldowns) > v1alpha1.MaxCooldowns {
		dropFirstToEnd(status)
	}
	for size(status) > maxStatusBytes {
		switch {
		case len(status.Cooldowns) > 0 && !firstToEnd(status).Until.After(now):
			dropFirstToEnd(status)
		case len(status.History) > 0:
			status.History = status.History[:len(status.History)-1]
		case len(status.Cooldowns) > 0:
			dropFirstToEnd(status)
		default:
			return
		}
	}
	// The API server sorts nothing, and a map in another order would be a change that says nothing.
	slices.SortFunc(status.Cooldowns, func(a, b v1alpha1.Cooldown) int {
		return strings.Compare(string(a.ErrorSignature), string(b.ErrorSignature))
	})
}

func boundWaits(status *v1alpha1.ToolHealthStatus, latest time.Time) {
	for i := range status.Cooldowns {
		if c := &status.Cooldowns[i]; c.Until.After(latest) {
			c.Until = metav1.NewTime(latest)
		}
	}
	if at := status.ExpectedRecoveryAt; at != nil && at.After(latest) {
		status.ExpectedRecoveryAt = &metav1.Time{Time: latest}
	}
}

func firstToEnd(status *v1alpha1.ToolHealthStatus) v1alpha1.Cooldown {
	return slices.MinFunc(status.Cooldowns, func(a, b v1alpha1.Cooldown) int { return a.Until.Compare(b.Until.Time) })
}

func dropFirstToEnd(status *v1alpha1.ToolHealthStatus) {
	Uncool(OfSignature(firstToEnd(status).ErrorSignature))(status, time.Time{})
}

// perCooldownCondition is what the condition of a cooldown adds to the size of a status, at most.
const perCooldownCondition = 512

// size estimates the bytes of a status once its conditions are derived.
func size(status *v1alpha1.ToolHealthStatus) int {
	bare := *status
	bare.Conditions = nil
	data, err := json.Marshal(&bare)
	if err != nil { // Only strings, numbers and times: cannot happen.
		return 0
	}
	return len(data) + len(status.Cooldowns)*perCooldownCondition + 2*perCooldownCondition
}

// activeOverride returns the override that is in force.
func activeOverride(row *v1alpha1.ToolHealth, now time.Time) *v1alpha1.HealthOverride {
	if o := row.Spec.Override; o != nil && (o.Until == nil || o.Until.After(now)) {
		return o
	}
	return nil
}

// pastRecovery reports whether the tool was expected to work again by now.
func pastRecovery(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
	return status.State != v1alpha1.StateOK && status.ExpectedRecoveryAt != nil && !status.ExpectedRecoveryAt.After(now)
}

// earlier returns the earlier of two instants, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func stamp(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
