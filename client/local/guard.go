package local

import (
	"context"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// API returns what a client.Guard asks: health comes from the view, without a request, and reports go to another API, as
// to a client.Client.
func (v *View) API(reports client.API) client.API { return guarded{reports, v} }

type guarded struct {
	client.API
	view *View
}

// Health tells what the rows say, and never fails.
func (g guarded) Health(_ context.Context, tool string, caller client.Caller) (rest.Health, error) {
	return health.Told(tool, g.view.callers(tool, caller), g.view.time()), nil
}

// callers returns a caller's rows of a tool from narrow to wide, as far as they are kept.
func (v *View) callers(tool string, caller client.Caller) (rows []*v1alpha1.ToolHealth) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range health.CallerKeys(v.place, tool, tenancy.User(caller.User), caller.Session) {
		s := v.rows[key]
		if s == nil {
			continue
		}
		row := &v1alpha1.ToolHealth{}
		if state := s.state.Load(); state != nil {
			*row = *state
		}
		if cooldowns := s.cooldowns.Load(); cooldowns != nil {
			row.Status.Cooldowns = cooldowns.Status.Cooldowns
		}
		row.Spec.Scope = key.Scope
		rows = append(rows, row)
	}
	return rows
}
