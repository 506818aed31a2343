package checker

import (
	"context"
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

// Write is what is to be done to one row. Done once more it changes nothing.
type Write func(context.Context) error

// writes returns the writes of changes.
func (c *Checker) writes(changes []effect) []Write {
	writes := make([]Write, len(changes))
	for i, e := range changes {
		writes[i] = func(ctx context.Context) error { return c.Store.Apply(ctx, e.key, e.change) }
	}
	return writes
}

// write does what follows from a decision. A row for which there is no place keeps no other from being written.
func (c *Checker) write(ctx context.Context, changes []effect) (unstorable error) {
	for _, write := range c.writes(changes) {
		switch err := write(ctx); {
		case health.IsUnstorable(err):
			unstorable = err
		case err != nil:
			return err
		}
	}
	return unstorable
}

// effects returns what a clear verdict writes.
func effects(d Decision, f facts) []effect {
	if d.Verdict.Class == v1alpha1.Working {
		return cleared(Success{ID: f.report.ID, Signature: d.Verdict.Signature, Note: d.Verdict.Note}, d.Place, f.report.Tool, f.rows, f.now)
	}
	key, ok := rowFor(d.Place, f.report, d.Verdict.Class)
	if !ok {
		return nil
	}
	return []effect{{key: key, change: verdictChange(d, f)}}
}

// rowFor returns the row that a verdict of the rules is written to (design §4). The class and the report choose
// it together; it is never wider than the report asks. ok is false if there is no such row: the report asks for
// the USER scope on behalf of nobody.
func rowFor(place tenancy.Place, r Report, class v1alpha1.Classification) (key health.Key, ok bool) {
	scope := r.Scope
	switch {
	case tenancy.IsClientTool(r.Tool) && r.Session != "":
		scope = v1alpha1.ScopeSession
	case class.BlamesUser() && r.User != "":
		scope = narrower(scope, v1alpha1.ScopeUser)
	case class == v1alpha1.Unclear || scope.Width() < 0:
		scope = narrower(scope, v1alpha1.ScopeProject)
	}
	return health.KeyFor(place, scope, r.Tool, r.User, r.Session)
}

// narrower returns the narrower of a scope that was asked for and one that is allowed.
func narrower(asked, allowed v1alpha1.Scope) v1alpha1.Scope {
	if width := asked.Width(); width >= 0 && width < allowed.Width() {
		return asked
	}
	return allowed
}

// verdictChange starts the cooldown of a verdict and, where its rule says so, writes the state. The tool is
// expected to recover when the cooldown ends.
func verdictChange(d Decision, f facts) health.Change {
	v, report := d.Verdict, f.report.ID
	asked := extending(v, f.maxWait)
	start := health.Cool(health.Trigger{Signature: v.Signature, Class: v.Class, Wait: v.Wait, Report: report})
	cool := func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		// One that runs by now was started by a report that came at once: they are one, and grow no wait.
		if left := until(status, v.Signature).Sub(now); left > 0 && asked <= left {
			return false
		}
		return start(status, now)
	}
	states := map[v1alpha1.HealthAction]v1alpha1.State{
		v1alpha1.HealthActionMarkUnavailable: v1alpha1.StateDown,
		v1alpha1.HealthActionMarkDegraded:    v1alpha1.StateDegraded,
	}
	state, marks := states[v.Action]
	if !marks {
		return cool
	}
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if !cool(status, now) {
			return false // The same report once more, or another that came at once: all of it is written already.
		}
		health.Mark(health.Finding{
			State: state, Classification: v.Class, Signature: v.Signature, Note: v.Note,
			By: health.ByChecker(v.RuleID), Report: report, RecoveryAt: until(status, v.Signature),
		})(status, now)
		return true
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
