package health

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// View is what a caller is told about a tool.
type View struct {
	// State is OK where no row says otherwise.
	State v1alpha1.State
	// Row is the row that decides; nil: none says anything.
	Row *v1alpha1.ToolHealth
	// Overridden says that a person pinned the state.
	Overridden bool
	// Retesting says that the expected recovery has passed: the next real call is the test.
	Retesting bool
}

// Effective returns what counts for a caller, given the caller's rows from narrow to wide. The narrowest row that
// says something wins, except that an OK hides a wider trouble only if it was seen after that began, and that a
// row past its recovery hides nothing wider. Rows without state say nothing, so a row that exists only for a
// cooldown hides no outage.
func Effective(rows []*v1alpha1.ToolHealth, now time.Time) View {
	chosen := View{State: v1alpha1.StateOK}
	for _, row := range rows {
		if row == nil {
			continue
		}
		view, ok := viewOf(row, now)
		if !ok {
			continue
		}
		if chosen.Row == nil || view.troubles() && !chosen.hides(row) {
			chosen = view
		}
	}
	return chosen
}

// viewOf returns what one row says by itself.
func viewOf(row *v1alpha1.ToolHealth, now time.Time) (View, bool) {
	if o := activeOverride(row, now); o != nil {
		return View{State: o.State, Row: row, Overridden: true}, true
	}
	view := View{State: row.Status.State, Row: row, Retesting: pastRecovery(&row.Status, now)}
	return view, row.Status.State != ""
}

// troubles reports whether the caller is warned of something.
func (v View) troubles() bool { return v.State != v1alpha1.StateOK && !v.Retesting }

// hides reports whether a view stands before the trouble of a wider row.
func (v View) hides(wider *v1alpha1.ToolHealth) bool {
	switch {
	case v.Overridden:
		return true
	case v.Retesting:
		return false
	case v.State != v1alpha1.StateOK:
		return true
	default:
		seen, began := v.Row.Status.LastCheckedAt, wider.Status.Since
		return seen != nil && began != nil && seen.After(began.Time)
	}
}

// RecoveryAt returns when the tool is expected to work again; nil: unknown, or nothing is wrong.
func (v View) RecoveryAt() *metav1.Time {
	if v.Row == nil || !v.troubles() {
		return nil
	}
	if v.Overridden {
		return v.Row.Spec.Override.Until
	}
	return v.Row.Status.ExpectedRecoveryAt
}

// Suffix returns what is added to the tool's description for a model (specification companion §1); empty where
// there is nothing to say. Cooldowns never show.
func (v View) Suffix() string {
	switch {
	case !v.troubles():
		return ""
	case v.State == v1alpha1.StateDegraded:
		return "Currently intermittent: a call may fail and succeed when repeated."
	case v.RecoveryAt() != nil:
		return fmt.Sprintf("Currently unavailable until about %s: plan without it.", stamp(v.RecoveryAt()))
	case v.Overridden:
		return text.Plain("Currently unavailable: "+v.Row.Spec.Override.Reason, 300)
	case v.Row.Status.Since == nil: // It was written by hand.
		return "Currently unavailable: plan without it."
	default:
		return fmt.Sprintf("Unavailable since %s: plan without it.", stamp(v.Row.Status.Since))
	}
}
