package checker

import (
	"slices"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// effect is a change of one row.
type effect struct {
	key    health.Key
	change health.Change
}

// effects returns what a clear verdict writes.
func effects(d Decision, f facts) []effect {
	if d.Verdict.Class == v1alpha1.Working {
		return success(d, f)
	}
	return []effect{{key: rowFor(d.place, f.report, d.Verdict.Class), change: verdictChange(d, f.report.ID)}}
}

// rowFor returns the row that a verdict of the rules is written to (design §4). The class and the report choose
// it together; it is never wider than the report asks.
func rowFor(place tenancy.Place, r Report, class v1alpha1.Classification) health.Key {
	scope := v1alpha1.ScopeProject
	switch {
	case tenancy.IsClientTool(r.Tool) && r.Session != "":
		scope = v1alpha1.ScopeSession
	case class.BlamesUser() && r.User != "":
		scope = v1alpha1.ScopeUser
	case class != v1alpha1.Unclear && r.Scope.Width() >= 0:
		scope = r.Scope
	}
	key, ok := health.KeyFor(place, scope, r.Tool, r.User, r.Session)
	if !ok {
		key, _ = health.KeyFor(place, v1alpha1.ScopeProject, r.Tool, r.User, r.Session)
	}
	return key
}

// verdictChange starts the cooldown of a verdict and, where its rule says so, writes the state. The tool is
// expected to recover when the cooldown ends.
func verdictChange(d Decision, report string) health.Change {
	v := d.Verdict
	cool := health.Cool(health.Trigger{Signature: v.Signature, Class: v.Class, Wait: v.Wait, Report: report})
	states := map[v1alpha1.HealthAction]v1alpha1.State{
		v1alpha1.HealthActionMarkUnavailable: v1alpha1.StateDown,
		v1alpha1.HealthActionMarkDegraded:    v1alpha1.StateDegraded,
	}
	state, marks := states[v.Action]
	if !marks {
		return cool
	}
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		cooled := cool(status, now)
		marked := health.Mark(health.Finding{
			State: state, Classification: v.Class, Signature: v.Signature, Note: v.Note,
			By: health.ByChecker(v.RuleID), Report: report, RecoveryAt: until(status, v.Signature),
		})(status, now)
		return cooled || marked
	}
}

// until returns when an error's cooldown ends.
func until(status *v1alpha1.ToolHealthStatus, signature v1alpha1.ErrorSignature) time.Time {
	i := slices.IndexFunc(status.Cooldowns, health.OfSignature(signature))
	if i < 0 {
		return time.Time{}
	}
	return status.Cooldowns[i].Until.Time
}

// success returns what a call that worked writes: the cooldown of the error goes from the caller's rows, and the
// narrowest of SESSION, USER and PROJECT that is not OK becomes OK. Where there is nothing to clear, nothing.
func success(d Decision, f facts) []effect {
	var out []effect
	flipped := false
	for _, row := range f.rows {
		if row == nil || row.Spec.Scope.Width() > v1alpha1.ScopeProject.Width() {
			continue
		}
		changes := []health.Change{health.Uncool(health.OfSignature(d.Verdict.Signature))}
		if state := row.Status.State; !flipped && state != "" && state != v1alpha1.StateOK {
			flipped = true
			changes = append(changes, health.Mark(health.Finding{
				State: v1alpha1.StateOK, Classification: v1alpha1.Working, Signature: d.Verdict.Signature,
				Note: d.Verdict.Note, By: health.BySuccess, Report: f.report.ID,
			}))
		}
		out = append(out, effect{key: health.KeyOf(row), change: health.All(changes...)})
	}
	return out
}
