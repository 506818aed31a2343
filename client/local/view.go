// Package local answers from memory whether a tool can be used, for programs that may watch ToolHealths: no request
// for each call. Reports go to the REST API all the same (package client), or as DiagnosisJobs.
package local

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// tick is how exact the time is by which recoveries and cooldowns end. Reading the clock would cost more than the rest
// of a check.
const tick = 50 * time.Millisecond

// View holds what the watched rows say. It is safe for concurrent use.
type View struct {
	place tenancy.Place
	now   atomic.Int64 // in nanoseconds since 1970

	mu sync.Mutex
	// slots are the rows that exist, and those that a Tool would look at if they did.
	slots map[health.Key]weak.Pointer[slot]
	// rows keep the slots of those that exist.
	rows map[health.Key]*slot
}

// slot is where a row is, if it exists: apart what it says about the tool and which errors cool down, since most rows
// have only the one or the other.
type slot struct {
	state, cooldowns atomic.Pointer[v1alpha1.ToolHealth]
}

// set takes a row as it is now; nil: it went.
func (s *slot) set(row *v1alpha1.ToolHealth) {
	var state, cooldowns *v1alpha1.ToolHealth
	if row != nil && (row.Status.State != "" || row.Spec.Override != nil) {
		state = &v1alpha1.ToolHealth{Spec: *row.Spec.DeepCopy(), Status: v1alpha1.ToolHealthStatus{State: row.Status.State, Since: row.Status.Since,
			LastCheckedAt: row.Status.LastCheckedAt, ExpectedRecoveryAt: row.Status.ExpectedRecoveryAt, LastDiagnosis: row.Status.LastDiagnosis}}
	}
	if row != nil && len(row.Status.Cooldowns) > 0 {
		cooldowns = &v1alpha1.ToolHealth{Status: v1alpha1.ToolHealthStatus{Cooldowns: row.Status.Cooldowns}}
	}
	s.state.Store(state)
	s.cooldowns.Store(cooldowns)
}

func newView(place tenancy.Place, now time.Time) *View {
	v := &View{place: place, slots: map[health.Key]weak.Pointer[slot]{}, rows: map[health.Key]*slot{}}
	v.now.Store(now.UnixNano())
	return v
}

// slot returns the slot of a row. Nobody needs to give it back: it goes when no row and no Tool uses it.
func (v *View) slot(key health.Key) *slot {
	if s := v.slots[key].Value(); s != nil {
		return s
	}
	s := &slot{}
	v.slots[key] = weak.Make(s)
	runtime.AddCleanup(s, v.forget, key)
	return s
}

func (v *View) forget(key health.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.slots[key].Value() == nil { // Else it was made anew meanwhile.
		delete(v.slots, key)
	}
}

// apply takes a row as it is now.
func (v *View) apply(row *v1alpha1.ToolHealth) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := health.KeyOf(row)
	if key.Name() != row.Name || !v.placed(key) {
		return // A row that is not where its identity belongs says nothing.
	}
	s := v.rows[key]
	if s == nil {
		s = v.slot(key)
		v.rows[key] = s
	}
	s.set(row)
}

// remove forgets a row.
func (v *View) remove(row *v1alpha1.ToolHealth) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.rows[health.KeyOf(row)]; s != nil {
		s.set(nil)
		delete(v.rows, health.KeyOf(row))
	}
}

// placed reports whether the row of a key belongs where it is.
func (v *View) placed(key health.Key) bool {
	if key.Namespace != v.place.Namespace(key.Scope) {
		return false
	}
	switch key.Scope {
	case v1alpha1.ScopeProject, v1alpha1.ScopeTenant:
		return key.ScopeID == key.Namespace
	default:
		return true
	}
}

// maxRows is how many rows speak to a caller.
const maxRows = 5

// Tool is a tool for a caller. Keep it and ask it before each call: a check costs a few dozen nanoseconds. It is safe
// for concurrent use, and needs no closing.
type Tool struct {
	view  *View
	name  string
	slots [maxRows]*slot // from narrow to wide
	count int
}

// Tool returns a tool for a caller.
func (v *View) Tool(name string, caller client.Caller) *Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := &Tool{view: v, name: name}
	for _, key := range health.CallerKeys(v.place, name, tenancy.User(caller.User), caller.Session) {
		t.slots[t.count] = v.slot(key)
		t.count++
	}
	return t
}

// State is what a check finds.
type State struct {
	// State is OK, DEGRADED or DOWN.
	State string
	// Usable is false if the tool is DOWN and its recovery is not due yet: plan without it.
	Usable bool
	view   health.View
}

// Text returns what is added to the tool's description for a model; empty: nothing.
func (s State) Text() string { return s.view.Suffix() }

// UserActionHint returns what the user can do about it; empty: nothing.
func (s State) UserActionHint() string {
	if s.view.Row == nil || s.view.Overridden || s.view.Row.Status.LastDiagnosis == nil {
		return ""
	}
	return s.view.Row.Status.LastDiagnosis.UserActionHint
}

// Check returns what is in force now.
func (t *Tool) Check() State {
	var rows [maxRows]*v1alpha1.ToolHealth
	count := 0
	for i := range t.count {
		if row := t.slots[i].state.Load(); row != nil {
			rows[count] = row
			count++
		}
	}
	view := health.Effective(rows[:count], t.view.time())
	return State{State: string(view.State), Usable: view.State != v1alpha1.StateDown || view.Retesting, view: view}
}

// Cooldown returns how much longer an error of the tool is not to be looked at again; 0: it does not cool down.
func (t *Tool) Cooldown(signature string) time.Duration {
	now := t.view.time()
	for i := range t.count {
		if c := health.ActiveCooldown(t.slots[i].cooldowns.Load(), v1alpha1.ErrorSignature(signature), now); c != nil {
			return c.Until.Sub(now)
		}
	}
	return 0
}

func (v *View) time() time.Time { return time.Unix(0, v.now.Load()) }
