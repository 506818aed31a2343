package local

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/google/go-cmp/cmp"
	"github.com/sony/gobreaker/v2"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

var (
	place = tenancy.Place{Project: "shop", Tenant: "acme", Operator: "agrajag-system"}
	began = time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	alice = client.Caller{User: "alice", Session: "s1"}
)

// rowOf returns a row of the tool search for alice, changed at began.
func rowOf(scope v1alpha1.Scope, changes ...health.Change) *v1alpha1.ToolHealth {
	key, _ := health.KeyFor(place, scope, "search", alice.User, alice.Session)
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name()},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: key.Scope, ScopeID: key.ScopeID}}
	health.All(changes...)(&row.Status, began)
	return row
}

func found(state v1alpha1.State, recovery time.Duration) health.Change {
	f := health.Finding{State: state, Classification: v1alpha1.TechnicallyBroken, By: "test", UserActionHint: "Wait."}
	if recovery > 0 {
		f.RecoveryAt = began.Add(recovery)
	}
	return health.Mark(f)
}

func TestACheckFollowsTheRows(t *testing.T) {
	v := newView(place, began)
	tool := v.Tool("search", alice)
	check := func(what, state string, usable bool) {
		t.Helper()
		if got := tool.Check(); got.State != state || got.Usable != usable {
			t.Errorf("%s: %s, usable %t", what, got.State, got.Usable)
		}
	}
	check("nothing is known", "OK", true)
	down := rowOf(v1alpha1.ScopeProject, found(v1alpha1.StateDown, time.Minute))
	v.apply(down)
	check("an outage", "DOWN", false)
	if got := tool.Check(); !strings.HasPrefix(got.Text(), "Currently unavailable until about") || got.UserActionHint() != "Wait." {
		t.Errorf("a model is told %q, the user %q", got.Text(), got.UserActionHint())
	}
	v.now.Store(began.Add(time.Minute).UnixNano())
	check("its recovery is due: the call is the test", "DOWN", true)
	v.remove(down)
	check("the row went", "OK", true)
	v.apply(rowOf(v1alpha1.ScopeTenant, found(v1alpha1.StateDegraded, 0)))
	check("the tenant's", "DEGRADED", true)
	other := rowOf(v1alpha1.ScopeUser, found(v1alpha1.StateDown, 0))
	other.Namespace = "elsewhere"
	v.apply(other)
	check("a row in the wrong place says nothing", "DEGRADED", true)
}

func TestCooldown(t *testing.T) {
	v := newView(place, began)
	tool, bobs := v.Tool("search", alice), v.Tool("search", client.Caller{User: "bob"})
	v.apply(rowOf(v1alpha1.ScopeUser, health.Cool(health.Trigger{Signature: "http-403", Class: v1alpha1.UserPermission, Wait: time.Hour})))
	if got := tool.Cooldown("http-403"); got != time.Hour {
		t.Errorf("alice's: %s", got)
	}
	if bobs.Cooldown("http-403") != 0 || tool.Cooldown("http-404") != 0 {
		t.Error("others cool down, too")
	}
	v.now.Store(began.Add(time.Hour).UnixNano())
	if got := tool.Cooldown("http-403"); got != 0 {
		t.Errorf("ended: %s", got)
	}
}

// reports is an API that only takes reports.
type reports struct {
	client.API
	took []rest.Report
}

func (r *reports) Report(_ context.Context, report rest.Report) (rest.Verdict, error) {
	r.took = append(r.took, report)
	return rest.Verdict{}, nil
}

func TestAGuardAsksTheView(t *testing.T) {
	v, taker := newView(place, time.Now()), &reports{}
	g := client.NewGuard(v.API(taker), client.GuardOptions{Budget: time.Minute, FreshFor: time.Nanosecond})
	ctx := client.WithCaller(t.Context(), alice)
	if err := g.Before(ctx, "search"); err != nil {
		t.Errorf("nothing is known: %v", err)
	}
	v.apply(rowOf(v1alpha1.ScopeProject, found(v1alpha1.StateDown, 0)))
	if err := g.Before(ctx, "search"); !client.IsRefused(err) {
		t.Errorf("a tool that is DOWN: %v", err)
	}
	g.Failed(ctx, "search", rest.ToolError{HTTPStatus: 503})
	if err := g.Close(t.Context()); err != nil || len(taker.took) != 1 {
		t.Errorf("%v, reported %+v", err, taker.took)
	}
}

func TestTheViewTellsWhatTheAPIDoes(t *testing.T) {
	v := newView(place, began)
	rows := []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeUser, health.Cool(health.Trigger{Signature: "http-403", Class: v1alpha1.UserPermission, Wait: time.Hour})),
		rowOf(v1alpha1.ScopeProject, found(v1alpha1.StateDown, time.Minute))}
	for _, row := range rows {
		v.apply(row)
	}
	got, err := v.API(nil).Health(t.Context(), "search", alice)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(health.Told("search", rows, began), got); diff != "" || got.State != "DOWN" || len(got.Cooldowns) != 1 {
		t.Errorf("(-api +view):\n%s", diff)
	}
}

func TestToolsThatNobodyKeepsLeaveNothingBehind(t *testing.T) {
	v := newView(place, began)
	for i := range 10_000 {
		v.Tool(fmt.Sprint("tool-", i), alice).Check()
	}
	slots := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.slots)
	}
	for deadline := time.Now().Add(30 * time.Second); slots() > 100 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		runtime.GC()
	}
	if got := slots(); got > 100 {
		t.Errorf("%d slots are left", got)
	}
}

func TestWatch(t *testing.T) {
	env, err := testenv.Start(testenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(env.Namespace(t.Context(), "shop", ""))
	must(env.Bind(t.Context(), "shop", "agrajag-reporter", "agent"))
	config, err := env.User("agent")
	must(err)
	if _, err := Watch(t.Context(), Options{Config: config, Project: "shop", OperatorNamespace: testenv.OperatorNamespace}); err == nil {
		t.Error("rows that may not be watched are no error")
	}
	row := rowOf(v1alpha1.ScopeProject, found(v1alpha1.StateDown, 0))
	write := func(row *v1alpha1.ToolHealth) {
		t.Helper()
		status := row.Status
		must(env.Admin.Create(t.Context(), row))
		row.Status = status
		must(env.Admin.Status().Update(t.Context(), row))
	}
	write(row)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v, err := Watch(ctx, Options{Config: config, Project: "shop"})
	must(err)
	tool := v.Tool("search", alice)
	if got := tool.Check(); got.State != "DOWN" {
		t.Errorf("what was there before: %s", got.State)
	}
	eventually := func(state string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); tool.Check().State != state; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", state)
			}
		}
	}
	must(env.Admin.Delete(t.Context(), row))
	eventually("OK")
	write(rowOf(v1alpha1.ScopeUser, found(v1alpha1.StateDegraded, 0)))
	eventually("DEGRADED")
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	goleak.VerifyTestMain(m, testenv.Machinery()...)
}

// million returns a View of a million users' cooldowns, and some of their tools.
func million(b *testing.B) []*Tool {
	b.Helper()
	v := newView(place, began)
	tools := make([]*Tool, 1024)
	for i := range 1_000_000 {
		caller := client.Caller{User: fmt.Sprint("user-", i)}
		key, _ := health.KeyFor(place, v1alpha1.ScopeUser, "search", caller.User, "")
		row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name()},
			Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: key.Scope, ScopeID: key.ScopeID}}
		health.Cool(health.Trigger{Signature: "http-403", Class: v1alpha1.UserPermission})(&row.Status, began)
		v.apply(row)
		if i%(1_000_000/len(tools)) == 0 && i/(1_000_000/len(tools)) < len(tools) {
			tools[i/(1_000_000/len(tools))] = v.Tool("search", caller)
		}
	}
	v.apply(rowOf(v1alpha1.ScopeProject, found(v1alpha1.StateDown, time.Hour)))
	return tools
}

// BenchmarkCheck measures one check of a tool's health in the process at a million cooldowns, and beside it what two
// circuit breakers need to say whether a call may be made. The goal is 50 ns and no allocation.
func BenchmarkCheck(b *testing.B) {
	tools := million(b)
	b.Run("agrajag", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if tools[i%len(tools)].Check().Usable {
				b.Fatal("the tool is DOWN")
			}
			i++
		}
	})
	b.Run("agrajag-cooldown", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if tools[i%len(tools)].Cooldown("http-403") == 0 {
				b.Fatal("no cooldown")
			}
			i++
		}
	})
	b.Run("gobreaker", func(b *testing.B) {
		breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{})
		b.ReportAllocs()
		for b.Loop() {
			done, err := breaker.Allow()
			if err != nil {
				b.Fatal(err)
			}
			done(nil)
		}
	})
	b.Run("failsafe-go", func(b *testing.B) {
		breaker := circuitbreaker.NewWithDefaults[any]()
		b.ReportAllocs()
		for b.Loop() {
			if !breaker.TryAcquirePermit() {
				b.Fatal("open")
			}
			breaker.RecordSuccess()
		}
	})
}
