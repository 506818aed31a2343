package health_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, testenv.Options{}, func(e *testenv.Env) { env = e }))
}

// world is a namespace and a store that writes there as the manager.
type world struct {
	t         *testing.T
	namespace string
	store     *health.Store
	recorder  *events.FakeRecorder
	clock     *testclock.FakePassiveClock
	// writes counts the writes of the store.
	writes *atomic.Int32
}

var namespaces atomic.Int32

func newWorld(t *testing.T, o health.StoreOptions, reads interceptor.Funcs) world {
	t.Helper()
	w := world{t: t, namespace: fmt.Sprintf("store-%d", namespaces.Add(1)), recorder: events.NewFakeRecorder(1000),
		clock: testclock.NewFakePassiveClock(time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)), writes: &atomic.Int32{}}
	if err := env.Namespace(t.Context(), w.namespace, ""); err != nil {
		t.Fatal(err)
	}
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	reads.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		w.writes.Add(1)
		return c.Create(ctx, obj, opts...)
	}
	reads.SubResourceUpdate = func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		w.writes.Add(1)
		return c.SubResource(sub).Update(ctx, obj, opts...)
	}
	o.Client, o.Live, o.Recorder = interceptor.NewClient(live, reads), live, w.recorder
	o.Clock = w.clock
	w.store = health.NewStore(o)
	return w
}

func (w world) key(tool string) health.Key {
	return health.Key{Namespace: w.namespace, Scope: v1alpha1.ScopeProject, ScopeID: w.namespace, Tool: tool}
}

// stored returns the row as the API server has it.
func (w world) stored(tool string) *v1alpha1.ToolHealth {
	w.t.Helper()
	row := &v1alpha1.ToolHealth{}
	if err := env.Admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.key(tool).Name()}, row); err != nil {
		w.t.Fatal(err)
	}
	return row
}

// editor returns a client of a person who may pin.
func (w world) editor(name string) client.Client {
	w.t.Helper()
	config, err := env.User(name)
	if err == nil {
		err = env.Bind(w.t.Context(), w.namespace, "agrajag-editor", name)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func down(report string) health.Change {
	return health.Mark(health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Note: "refused", By: "test", Report: report})
}

// stale makes reads answer what was there when it was last refreshed.
func stale() (interceptor.Funcs, func()) {
	var mu sync.Mutex
	known := map[client.ObjectKey]*v1alpha1.ToolHealth{}
	caughtUp := false
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			mu.Lock()
			defer mu.Unlock()
			row, isRow := obj.(*v1alpha1.ToolHealth)
			if !isRow || caughtUp {
				return c.Get(ctx, key, obj, opts...)
			}
			if old, ok := known[key]; ok {
				if old == nil {
					return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("toolhealths").GroupResource(), key.Name)
				}
				old.DeepCopyInto(row)
				return nil
			}
			err := c.Get(ctx, key, obj, opts...)
			known[key] = nil
			if err == nil {
				known[key] = row.DeepCopy()
			}
			return err
		}}, func() {
			mu.Lock()
			defer mu.Unlock()
			caughtUp = true
		}
}

func TestARowIsCreatedAndThenChanged(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	key := w.key("mcp_search")
	for i, want := range []int32{2, 3} {
		if err := w.store.Apply(t.Context(), key, down(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if got := w.writes.Load(); got != want {
			t.Errorf("change %d: %d writes so far, want %d", i, got, want)
		}
	}
	if err := w.store.Apply(t.Context(), key, down("1")); err != nil || w.writes.Load() != 3 {
		t.Errorf("a retry wrote (%d writes): %v", w.writes.Load(), err)
	}
	if err := w.store.Apply(t.Context(), w.key("other"), health.Uncool(health.OfHealth)); err != nil || w.writes.Load() != 3 {
		t.Errorf("a change of nothing created a row (%d writes): %v", w.writes.Load(), err)
	}
	row := w.stored("mcp_search")
	if row.Status.State != v1alpha1.StateDown || len(row.Status.History) != 2 || len(row.Status.Conditions) != 2 {
		t.Errorf("the row is %+v", row.Status)
	}
	// News are told once: the second finding changed no state.
	if got := len(w.recorder.Events); got != 1 {
		t.Errorf("%d Events, want 1", got)
	}
	if event := <-w.recorder.Events; !strings.Contains(event, "unknown to DOWN by test: TECHNICALLY_BROKEN: refused") {
		t.Errorf("the Event is %q", event)
	}
}

// A rule need not have a note: its signature says why then.
func TestAnEventSaysWhyWithoutANote(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	finding := health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Signature: "connect-refused", By: "agrajag-checker/connect-refused"}
	recovery := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	if err := w.store.Apply(t.Context(), w.key("mcp_search"), health.Mark(finding)); err != nil {
		t.Fatal(err)
	}
	want := "Warning StateChanged unknown to DOWN by agrajag-checker/connect-refused: TECHNICALLY_BROKEN: connect-refused"
	if diff := cmp.Diff(want, <-w.recorder.Events); diff != "" {
		t.Errorf("the Event (-want +got):\n%s", diff)
	}
	finding = health.Finding{State: v1alpha1.StateDegraded, Classification: v1alpha1.Intermittent, Note: "It is slow.", By: "ops", RecoveryAt: recovery}
	if err := w.store.Apply(t.Context(), w.key("mcp_search"), health.Mark(finding)); err != nil {
		t.Fatal(err)
	}
	want = "Warning StateChanged DOWN to DEGRADED by ops: INTERMITTENT: It is slow, expected to recover at 2026-05-23T15:00:00Z"
	if diff := cmp.Diff(want, <-w.recorder.Events); diff != "" {
		t.Errorf("the Event of a note that is a sentence (-want +got):\n%s", diff)
	}
}

func TestWhatAUserIsToDoIsToldOnce(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	key := health.Key{Namespace: w.namespace, Scope: v1alpha1.ScopeUser, ScopeID: "alice", Tool: "mcp_search"}
	said := func(report, hint string) (events []string) {
		t.Helper()
		finding := health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.UserSpecificTechnical, By: "test", Report: report, Note: "401", UserActionHint: hint}
		if err := w.store.Apply(t.Context(), key, health.Mark(finding)); err != nil {
			t.Fatal(err)
		}
		for len(w.recorder.Events) > 0 {
			events = append(events, <-w.recorder.Events)
		}
		return events
	}
	const renew = "Warning UserActionNeeded Renew the token"
	for _, step := range []struct {
		name, report, hint string
		want               []string
	}{
		{"the state changes and there is something to do", "1", "Renew the token", []string{"Warning StateChanged unknown to DOWN by test: USER_SPECIFIC_TECHNICAL: 401", renew}},
		{"the same again is no news", "2", "Renew the token", nil},
		{"something else to do is news, though the state stays", "3", "Ask for access", []string{"Warning UserActionNeeded Ask for access"}},
		{"nothing to do", "4", "", nil},
		{"what is to be done again is news again", "5", "Renew the token", []string{renew}},
		{"a retry tells nothing", "5", "Renew the token", nil},
	} {
		if diff := cmp.Diff(step.want, said(step.report, step.hint)); diff != "" {
			t.Errorf("%s: Events (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestTheStoreKnowsItsOwnWritesBeforeTheCacheDoes(t *testing.T) {
	reads, catchUp := stale()
	w := newWorld(t, health.StoreOptions{}, reads)
	for i := range 5 {
		if err := w.store.Apply(t.Context(), w.key("search"), down(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	row, err := w.store.Get(t.Context(), w.key("search"))
	if err != nil || row == nil || len(row.Status.History) != 5 {
		t.Fatalf("before the cache has caught up: %+v, %v", row, err)
	}
	if got := w.writes.Load(); got != 6 {
		t.Errorf("%d writes, want 6: an own write was met as a conflict", got)
	}
	catchUp()
	// Somebody else's later write counts as soon as the cache has it.
	later := w.stored("search")
	later.Status.State = v1alpha1.StateOK
	if err := env.Admin.Status().Update(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if row, err = w.store.Get(t.Context(), w.key("search")); err != nil || row.Status.State != v1alpha1.StateOK {
		t.Errorf("the store holds on to %s: %v", row.Status.State, err)
	}
	// A row that was deleted is not remembered for long.
	if err := env.Admin.Delete(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if row, err = w.store.Get(t.Context(), w.key("search")); err != nil || row != nil {
		t.Errorf("a deleted row haunts: %+v, %v", row, err)
	}
}

func TestConditionsAreDerivedFromWhatIsWrittenNow(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	key := w.key("search")
	apply := func(f health.Finding) {
		t.Helper()
		if err := w.store.Apply(t.Context(), key, health.Mark(f)); err != nil {
			t.Fatal(err)
		}
	}
	apply(health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, By: "test", Report: "r1", RecoveryAt: w.clock.Now().Add(time.Minute)})
	queued := w.stored("search") // As a controller has it that waits for its turn.
	apply(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: "test", Report: "r2"})
	if _, err := w.store.Get(t.Context(), key); err != nil { // The cache has caught up.
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute)) // The recovery of what was there before is due.
	before := w.writes.Load()
	if _, err := w.store.Refresh(t.Context(), queued, health.Placed()); err != nil || w.writes.Load() != before {
		t.Errorf("%d writes, %v", w.writes.Load()-before, err)
	}
	if err := env.Admin.Delete(t.Context(), queued); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Refresh(t.Context(), queued, health.Placed()); err != nil || w.writes.Load() != before {
		t.Errorf("of a row that is gone: %d writes, %v", w.writes.Load()-before, err)
	}
}

func TestAPinIsToldWhenItBeginsChangesAndEnds(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	if err := w.store.Apply(t.Context(), w.key("search"), health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: "test"})); err != nil {
		t.Fatal(err)
	}
	<-w.recorder.Events
	until := metav1.NewTime(w.clock.Now().Add(time.Hour))
	moving := &v1alpha1.HealthOverride{State: v1alpha1.StateDown, Reason: "moving house"}
	half := &v1alpha1.HealthOverride{State: v1alpha1.StateDegraded, Until: &until, Reason: "half moved"}
	people := map[string]client.Client{}
	for _, name := range []string{"alice", "bob"} {
		people[name] = w.editor(name)
	}
	for _, step := range []struct {
		name, who string
		override  *v1alpha1.HealthOverride
		after     time.Duration
		want      string // in the Event; empty: there is none
	}{
		{"nothing is pinned", "alice", nil, 0, ""},
		{"a pin", "alice", moving, 0, "Pinned to DOWN by alice: moving house; before: OK"},
		{"the same pin", "alice", moving, time.Minute, ""},
		{"the same pin by somebody else", "bob", moving, time.Minute, ""},
		{"another pin", "bob", half, 0, "Pinned to DEGRADED by bob: half moved, until 2026-05-23T15:00:00Z; before: Pinned to DOWN by alice: moving house"},
		{"its end", "bob", half, time.Hour, "spec.override ended at its time: what is reported counts again, now OK; before: Pinned to DEGRADED by bob: half moved"},
		{"one more", "bob", moving, 0, "Pinned to DOWN by bob: moving house; before: OK"},
		{"unpinned", "alice", nil, 0, "spec.override was taken away: what is reported counts again, now OK; before: Pinned to DOWN by bob: moving house"},
	} {
		row := w.stored("search")
		row.Spec.Override = step.override.DeepCopy()
		if err := people[step.who].Update(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		w.clock.SetTime(w.clock.Now().Add(step.after))
		if _, err := w.store.Refresh(t.Context(), w.stored("search"), health.Placed()); err != nil {
			t.Fatal(err)
		}
		told := ""
		select {
		case told = <-w.recorder.Events:
		default:
		}
		if (step.want == "") != (told == "") || !strings.Contains(told, step.want) {
			t.Errorf("%s: told %q, want %q", step.name, told, step.want)
		}
	}
}

func TestADeletedRowIsMadeAnew(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	if err := w.store.Apply(t.Context(), w.key("search"), down("1")); err != nil {
		t.Fatal(err)
	}
	if err := env.Admin.Delete(t.Context(), w.stored("search")); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Apply(t.Context(), w.key("search"), down("2")); err != nil {
		t.Fatal(err)
	}
	if row := w.stored("search"); len(row.Status.History) != 1 || row.Status.LastDiagnosis.Report != "2" {
		t.Errorf("the row is %+v", row.Status)
	}
}

func TestWritersAtOnceLoseNothing(t *testing.T) {
	a := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	b := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	key := a.key("search")
	var group sync.WaitGroup
	for i := range 16 {
		store := a.store
		if i%4 == 3 { // Another replica now and then.
			store = b.store
		}
		group.Go(func() {
			signature := v1alpha1.ErrorSignature(fmt.Sprintf("s%d", i))
			if err := store.Apply(context.Background(), key, health.Cool(health.Trigger{Signature: signature, Class: v1alpha1.UserInput})); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if got := len(a.stored("search").Status.Cooldowns); got != 16 {
		t.Errorf("%d cooldowns, want 16", got)
	}
}

func TestANameThatIsTakenIsNotOverwritten(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	impostor := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "search"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "other", Scope: v1alpha1.ScopeProject, ScopeID: w.namespace}}
	if err := env.Admin.Create(t.Context(), impostor); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Apply(t.Context(), w.key("search"), down("1")); !errors.Is(err, health.ErrIdentity) {
		t.Errorf("got %v, want ErrIdentity", err)
	}
	if row, err := w.store.Get(t.Context(), w.key("search")); row != nil || err != nil {
		t.Errorf("the impostor is read as the row: %+v, %v", row, err)
	}
}

func TestANamespaceThatIsFullTakesNoMoreRows(t *testing.T) {
	w := newWorld(t, health.StoreOptions{MaxRows: 4, MaxUnknownToolRows: 2}, interceptor.Funcs{})
	known := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "known"}}
	if err := env.Admin.Create(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		tool string
		full bool
	}{{"made-up-1", false}, {"made-up-2", false}, {"made-up-3", true}, {"known", false}, {"made-up-4", true}} {
		err := w.store.Apply(t.Context(), w.key(step.tool), down("1"))
		if errors.Is(err, health.ErrFull) != step.full || (err != nil && !step.full) {
			t.Errorf("%s: %v, want full: %v", step.tool, err, step.full)
		}
	}
	user := health.Key{Namespace: w.namespace, Scope: v1alpha1.ScopeUser, ScopeID: "alice", Tool: "known"}
	if err := w.store.Apply(t.Context(), user, down("1")); err != nil {
		t.Errorf("the fourth row: %v", err)
	}
	user.ScopeID = "bob"
	if err := w.store.Apply(t.Context(), user, down("1")); !errors.Is(err, health.ErrFull) {
		t.Errorf("the fifth row: %v, want ErrFull", err)
	}
	told := 0
	for len(w.recorder.Events) > 0 {
		if strings.Contains(<-w.recorder.Events, "TooManyRows") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("people were told %d times within the hour, want once", told)
	}
}

func TestAWriterDoesNotWaitForEver(t *testing.T) {
	w := newWorld(t, health.StoreOptions{}, interceptor.Funcs{})
	inside, leave := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.store.Apply(context.Background(), w.key("search"), func(*v1alpha1.ToolHealthStatus, time.Time) bool {
			close(inside)
			<-leave
			return false
		})
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.store.Apply(ctx, w.key("search"), down("1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	close(leave)
}
