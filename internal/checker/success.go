package checker

import (
	"context"
	"slices"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Caller is on whose behalf a tool of a project was called.
type Caller struct {
	// Project is the namespace.
	Project string
	// User and Session are for whom and in which session; empty: nobody's, none.
	User, Session string
}

// Success is a call that worked.
type Success struct {
	// ID identifies the report of it, so that recording it twice changes nothing the second time.
	ID string
	// Signature is that of the error which the call had before; empty: not known.
	Signature v1alpha1.ErrorSignature
	// Note is kept where a state is cleared.
	Note string
	// By is the user who tells it; empty: a rule does.
	By string
}

// Succeeded returns what is to be written since a call of a tool worked; nothing: there is nothing to clear.
func (c *Checker) Succeeded(ctx context.Context, caller Caller, tool string, s Success) ([]Write, error) {
	place, err := c.Place(ctx, caller.Project)
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(ctx, place, caller, tool)
	if err != nil {
		return nil, err
	}
	return c.writes(cleared(s, place, tool, rows, c.Clock.Now())), nil
}

// Health returns what is in force for a caller of a tool.
func (c *Checker) Health(ctx context.Context, caller Caller, tool string) (health.View, error) {
	rows, err := c.Rows(ctx, caller, tool)
	return health.Effective(rows, c.Clock.Now()), err
}

// Rows returns the caller's rows of a tool from narrow to wide, nil where there is none. They are shared and must not be
// changed.
func (c *Checker) Rows(ctx context.Context, caller Caller, tool string) ([]*v1alpha1.ToolHealth, error) {
	place, err := c.Place(ctx, caller.Project)
	if err != nil {
		return nil, err
	}
	return c.rows(ctx, place, caller, tool)
}

func (c *Checker) rows(ctx context.Context, place tenancy.Place, caller Caller, tool string) ([]*v1alpha1.ToolHealth, error) {
	return c.Store.Caller(ctx, health.CallerKeys(place, tool, tenancy.User(caller.User), caller.Session))
}

// cleared returns what a call that worked clears: cooldowns of the caller's SESSION, USER and PROJECT rows, and the
// trouble of the narrowest of them. One caller's success never clears what concerns the tenant or everybody: where
// that is all the trouble there is, the project gets an OK of its own, which is newer.
func cleared(s Success, place tenancy.Place, tool string, rows []*v1alpha1.ToolHealth, now time.Time) []effect {
	works := health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, Signature: s.Signature,
		Note: s.Note, By: health.For(health.BySuccess, s.By), Report: s.ID})
	var out []effect
	flipped := false
	for _, row := range rows {
		if row == nil || row.Spec.Scope.Width() > v1alpha1.ScopeProject.Width() {
			continue
		}
		var changes []health.Change
		if ends := endedBy(s, row.Spec.Scope); slices.ContainsFunc(row.Status.Cooldowns, ends) {
			changes = append(changes, health.Uncool(ends))
		}
		if last := row.Status.LastDiagnosis; last != nil && s.ID != "" && last.Report == s.ID {
			flipped = true // By this very report, which is being answered again: nothing wider becomes OK for it.
		}
		if state := row.Status.State; !flipped && state != "" && state != v1alpha1.StateOK {
			flipped = true
			changes = append(changes, newerThan(trouble(rows, row.Spec.Scope), works))
		}
		if len(changes) > 0 {
			out = append(out, effect{key: health.KeyOf(row), change: health.All(changes...)})
		}
	}
	if view := health.Effective(rows, now); !flipped && view.State != v1alpha1.StateOK && !view.Overridden {
		if key, ok := health.KeyFor(place, v1alpha1.ScopeProject, tool, "", ""); ok {
			out = append(out, effect{key: key, change: newerThan(trouble(rows, v1alpha1.ScopeProject), works)})
		}
	}
	return out
}

// trouble returns when the newest trouble of the rows wider than a scope began; zero: there is none.
func trouble(rows []*v1alpha1.ToolHealth, scope v1alpha1.Scope) (began time.Time) {
	for _, row := range rows {
		if row == nil || row.Spec.Scope.Width() <= scope.Width() || row.Status.State == v1alpha1.StateOK {
			continue
		}
		if since := row.Status.Since; since != nil && since.After(began) {
			began = since.Time
		}
	}
	return began
}

// newerThan makes a change at a time that is after another one as the API server keeps them, in whole seconds: a call that
// worked after an outage began is newer than that, though both are of one second, or of two replicas whose clocks differ.
func newerThan(other time.Time, change health.Change) health.Change {
	earliest := other.Add(time.Second)
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if now.Before(earliest) {
			now = earliest
		}
		return change(status, now)
	}
}

// endedBy matches the cooldowns of a row that a success ends: those of its error; where that is not known, all that
// are the caller's own, and of the project's those that say something about the tool.
func endedBy(s Success, scope v1alpha1.Scope) func(v1alpha1.Cooldown) bool {
	switch {
	case s.Signature != "":
		return health.OfSignature(s.Signature)
	case scope != v1alpha1.ScopeProject:
		return func(v1alpha1.Cooldown) bool { return true }
	default:
		return func(c v1alpha1.Cooldown) bool { return !c.Classification.BlamesUser() }
	}
}
