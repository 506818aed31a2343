package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

var (
	alice = Caller{Project: "shop", User: "alice", Session: "s1"}
	bob   = Caller{Project: "shop", User: "bob", Session: "s2"}
)

// coolsAs begins a cooldown of an hour for a class, named after it.
func coolsAs(class v1alpha1.Classification) health.Change {
	return health.Cool(health.Trigger{Signature: v1alpha1.ErrorSignature(class), Class: class, Wait: time.Hour})
}

func coolsAll() health.Change {
	var all []health.Change
	for _, class := range []v1alpha1.Classification{v1alpha1.TechnicallyBroken, v1alpha1.Intermittent, v1alpha1.Unclear,
		v1alpha1.UserPermission, v1alpha1.UserInput, v1alpha1.UserSpecificTechnical} {
		all = append(all, coolsAs(class))
	}
	return health.All(all...)
}

func TestWhatASuccessEnds(t *testing.T) {
	for _, tc := range []struct {
		name      string
		scope     v1alpha1.Scope
		signature v1alpha1.ErrorSignature
		want      []v1alpha1.ErrorSignature // what still cools down
	}{
		{"the error that the call had before, on the user's row", v1alpha1.ScopeUser, "USER_INPUT",
			[]v1alpha1.ErrorSignature{"TECHNICALLY_BROKEN", "INTERMITTENT", "UNCLEAR", "USER_PERMISSION", "USER_SPECIFIC_TECHNICAL"}},
		{"and on the project's, whatever its class", v1alpha1.ScopeProject, "USER_PERMISSION",
			[]v1alpha1.ErrorSignature{"TECHNICALLY_BROKEN", "INTERMITTENT", "UNCLEAR", "USER_INPUT", "USER_SPECIFIC_TECHNICAL"}},
		{"an error that is not known: all of the session", v1alpha1.ScopeSession, "", nil},
		{"all of the user", v1alpha1.ScopeUser, "", nil},
		{"and of the project what one caller can disprove", v1alpha1.ScopeProject, "",
			[]v1alpha1.ErrorSignature{"USER_PERMISSION", "USER_INPUT", "USER_SPECIFIC_TECHNICAL"}},
		{"nothing of the tenant", v1alpha1.ScopeTenant, "",
			[]v1alpha1.ErrorSignature{"TECHNICALLY_BROKEN", "INTERMITTENT", "UNCLEAR", "USER_PERMISSION", "USER_INPUT", "USER_SPECIFIC_TECHNICAL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := rowOf(tc.scope, coolsAll())
			for _, e := range cleared(Success{ID: "r1", Signature: tc.signature}, place, "search", []*v1alpha1.ToolHealth{row}, t0) {
				e.change(&row.Status, t0.Add(time.Second))
			}
			var got []v1alpha1.ErrorSignature
			for _, c := range row.Status.Cooldowns {
				got = append(got, c.ErrorSignature)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// do does what is to be written, and returns how much that is.
func (w *world) do(writes []Write, err error) int {
	w.t.Helper()
	for i := 0; i < len(writes) && err == nil; i++ {
		err = writes[i](w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return len(writes)
}

// succeed records a success of the tool search and returns what is in force then.
func (w *world) succeed(caller Caller, s Success) health.View {
	w.t.Helper()
	w.do(w.Succeeded(w.t.Context(), caller, "search", s))
	view, err := w.Health(w.t.Context(), caller, "search")
	if err != nil {
		w.t.Fatal(err)
	}
	return view
}

func TestASuccessIsWrittenOnlyWhereThereIsSomethingToClear(t *testing.T) {
	w := newWorld(t)
	if view := w.succeed(alice, Success{ID: "s1"}); view.State != v1alpha1.StateOK || len(w.took()) != 0 {
		t.Errorf("a success of a tool that works: %s, writes %v", view.State, w.took())
	}
	w.check(Decide, "r1", 403)
	w.took()
	if view := w.succeed(bob, Success{ID: "s2"}); view.State != v1alpha1.StateOK || len(w.took()) != 0 {
		t.Error("bob's success touched alice's row")
	}
	w.succeed(alice, Success{ID: "s3"})
	if got := w.took(); len(got) != 1 {
		t.Errorf("alice's success is one write, not %v", got)
	}
	if d := w.check(DryRun, "r2", 403); d.Outcome != Classified {
		t.Errorf("after it her error is answered anew, not %s", d.Outcome)
	}
	w.succeed(alice, Success{ID: "s4"})
	if got := w.took(); len(got) != 0 {
		t.Errorf("a second success writes %v", got)
	}
}

func TestASuccessUnderATenantsOutageClearsTheProjectAlone(t *testing.T) {
	down := rowOf(v1alpha1.ScopeTenant, found("http-5xx", 0))
	w := newWorld(t, down)
	w.clock.Step(2 * time.Second)
	if view := w.succeed(alice, Success{ID: "s1"}); view.State != v1alpha1.StateOK {
		t.Errorf("in force after it: %s", view.State)
	}
	other, err := w.Health(t.Context(), Caller{Project: "solo"}, "search")
	if err != nil || other.State != v1alpha1.StateOK {
		t.Errorf("another tenant's project: %v, %v", other.State, err)
	}
	row, err := w.Store.Get(t.Context(), health.KeyOf(down))
	if err != nil || row.Status.State != v1alpha1.StateDown {
		t.Errorf("the tenant's row is %v, %v: it must stay", row, err)
	}
	if got := w.took(); len(got) != 2 {
		t.Errorf("writes %v, want a row and its status", got)
	}
}

// The API server keeps whole seconds, and replicas have clocks of their own: what worked after an outage began counts as newer.
func TestASuccessIsNewerThanTheOutageThatItDisproves(t *testing.T) {
	user, project, tenant, global := v1alpha1.ScopeUser, v1alpha1.ScopeProject, v1alpha1.ScopeTenant, v1alpha1.ScopeGlobal
	for _, tc := range []struct {
		name  string
		rows  []v1alpha1.Scope // which are DOWN since t0
		after time.Duration    // when the call worked
		want  time.Duration    // when it is kept as seen
		hides v1alpha1.Scope   // whose row is OK then
	}{
		{"in the second in which everybody's began", []v1alpha1.Scope{global}, 900 * time.Millisecond, time.Second, project},
		{"in that in which the tenant's began", []v1alpha1.Scope{tenant}, 0, time.Second, project},
		{"where the project's own row flips", []v1alpha1.Scope{project, global}, 0, time.Second, project},
		{"where the user's row flips", []v1alpha1.Scope{user, project, tenant}, 0, time.Second, user},
		{"by a clock that is behind", []v1alpha1.Scope{global}, -3 * time.Second, time.Second, project},
		{"later it is seen when it was", []v1alpha1.Scope{global}, 5 * time.Second, 5 * time.Second, project},
		{"with nothing wider it is seen when it was", []v1alpha1.Scope{project}, 0, 0, project},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rows []client.Object
			for _, scope := range tc.rows {
				rows = append(rows, rowOf(scope, found("http-5xx", 0)))
			}
			w := newWorld(t, rows...)
			w.clock.SetTime(t0.Add(tc.after))
			view := w.succeed(alice, Success{ID: "s1"})
			if view.State != v1alpha1.StateOK || view.Row.Spec.Scope != tc.hides || !view.Row.Status.LastCheckedAt.Time.Equal(t0.Add(tc.want)) {
				t.Errorf("in force after it: %s by %+v", view.State, view.Row)
			}
		})
	}
}

func TestConnections(t *testing.T) {
	closed := Connection{ID: "e1", Tools: []string{"client_open", "client_save"}}
	reopened := Connection{ID: "e2", Tools: closed.Tools, Open: true}
	w := newWorld(t)
	state := func(caller Caller, tool string) v1alpha1.State {
		t.Helper()
		view, err := w.Health(t.Context(), caller, tool)
		if err != nil {
			t.Fatal(err)
		}
		return view.State
	}
	connect := func(caller Caller, e Connection) {
		t.Helper()
		w.do(w.Connected(t.Context(), caller, e))
	}
	connect(alice, reopened)
	if got := w.took(); len(got) != 0 {
		t.Errorf("a connection that never closed writes %v", got)
	}
	connect(alice, closed)
	if got := w.took(); len(got) != 4 {
		t.Errorf("two tools are two rows and their statuses, not %v", got)
	}
	if got := fmt.Sprintf("%s %s %s", state(alice, "client_open"), state(alice, "client_save"), state(bob, "client_open")); got != "DOWN DOWN OK" {
		t.Errorf("a client's tools are DOWN in its session alone: %s", got)
	}
	connect(alice, Connection{ID: "e3", Tools: closed.Tools})
	if got := w.took(); len(got) != 0 {
		t.Errorf("closed once more it writes %v", got)
	}
	connect(alice, reopened)
	if got := state(alice, "client_open"); got != v1alpha1.StateOK || len(w.took()) != 2 {
		t.Errorf("open again it is %s", got)
	}
	connect(alice, Connection{ID: "e4", Tools: []string{"search"}})
	if got := state(bob, "search"); got != v1alpha1.StateDown {
		t.Errorf("an MCP tool whose connection closed is %s for others in the project", got)
	}
	if _, err := w.Connected(t.Context(), Caller{Project: "shop"}, closed); err == nil || len(w.took()) != 2 {
		t.Error("a client's tool without a session is an error and writes nothing")
	}
}

// The rows say who told it, within their bounds, and whoever tells that it is open again clears what somebody else told.
func TestRowsSayWhoToldIt(t *testing.T) {
	for _, tc := range []struct{ name, who, want string }{
		{"an account", "system:serviceaccount:shop:runtime", "agrajag-event for system:serviceaccount:shop:runtime"},
		{"one whose name is too long", strings.Repeat("long", 100), "agrajag-event for " + strings.Repeat("long", 58) + "lon…"},
		{"a name with what shows nothing", "al\x1b[31mice\n", "agrajag-event for alice"},
		{"nobody who is known", "", "agrajag-event"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for _, step := range []struct {
				open bool
				by   string
				want v1alpha1.State
			}{{false, tc.who, v1alpha1.StateDown}, {true, "bob", v1alpha1.StateOK}} {
				event := Connection{ID: fmt.Sprint(step.open), Tools: []string{"search"}, Open: step.open, By: step.by}
				w.do(w.Connected(t.Context(), alice, event))
				if view, err := w.Health(t.Context(), alice, "search"); err != nil || view.State != step.want {
					t.Errorf("told by %q it is %s, %v", step.by, view.State, err)
				}
			}
			view, err := w.Health(t.Context(), alice, "search")
			if err != nil || view.Row.Status.LastDiagnosis.By != "agrajag-event for bob" || view.Row.Status.History[1].By != tc.want {
				t.Errorf("%v: %+v", err, view.Row.Status)
			}
		})
	}
}

func TestAReopenedConnectionClearsNothingElse(t *testing.T) {
	row := rowOf(v1alpha1.ScopeProject, found("http-5xx", 0))
	w := newWorld(t, row)
	w.do(w.Connected(t.Context(), alice, Connection{ID: "e1", Tools: []string{"search"}, Open: true}))
	if view, err := w.Health(t.Context(), alice, "search"); err != nil || view.State != v1alpha1.StateDown {
		t.Errorf("what a diagnosis found is %s, %v", view.State, err)
	}
}

func TestASessionEndsWithItsRows(t *testing.T) {
	kept := rowOf(v1alpha1.ScopeSession)
	kept.Spec.ToolName = "pinned"
	kept.Name = health.KeyOf(kept).Name()
	kept.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateDown}
	w := newWorld(t, kept)
	for _, caller := range []Caller{alice, bob} {
		w.do(w.Connected(t.Context(), caller, Connection{ID: "e1", Tools: []string{"client_a", "client_b"}}))
	}
	if n := w.do(w.SessionEnded(t.Context(), alice)); n != 2 {
		t.Errorf("%d rows", n)
	}
	var rows v1alpha1.ToolHealthList
	if err := w.client.List(t.Context(), &rows); err != nil || len(rows.Items) != 3 {
		t.Errorf("%d rows are left, want bob's two and the pinned one (%v)", len(rows.Items), err)
	}
	if view, err := w.Health(t.Context(), alice, "client_a"); err != nil || view.State != v1alpha1.StateOK {
		t.Errorf("a deleted row haunts: %s, %v", view.State, err)
	}
}
