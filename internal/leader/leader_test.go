package leader

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(testenv.Run(m, testenv.Options{}, func(e *testenv.Env) { env = e }))
}

// newManager returns a manager that has not started.
func newManager(t *testing.T) manager.Manager {
	t.Helper()
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: env.Scheme, Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// elected are the options of a manager that stands for election and runs one function while it leads.
func elected(name string, run manager.RunnableFunc) Options {
	return Options{
		Elect: true, Namespace: testenv.OperatorNamespace, Name: name, Lease: MinLease,
		SetUp: func(mgr manager.Manager) error { return mgr.Add(run) },
	}
}

// start runs a manager until stop is called or the test ends. What it ended with comes by ended.
func start(t *testing.T, mgr manager.Manager, o Options) (m *Manager, stop func(), ended <-chan error) {
	t.Helper()
	m, err := New(mgr, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		done <- m.Start(ctx)
	}()
	stop = func() { cancel(); <-gone }
	t.Cleanup(stop)
	return m, stop, done
}

func await[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
	return got
}

// holder tells who holds a lease.
func holder(t *testing.T, name string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := env.Admin.Get(context.Background(), client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: name}, lease); err != nil {
		t.Error(err)
		return ""
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Who leads next begins at once, and not before all that the last one ran has ended.
func TestTheLeaseIsGivenUpWhenTheTermIsOver(t *testing.T) {
	const name = "given-up"
	var m *Manager
	atTheEnd := make(chan string, 1)
	m, stop, ended := start(t, newManager(t), elected(name, func(ctx context.Context) error {
		<-ctx.Done()
		atTheEnd <- holder(t, name)
		return nil
	}))
	await(t, "the election", m.Elected())
	stop()
	if err := await(t, "the end", ended); err != nil {
		t.Errorf("it ended with: %v", err)
	}
	if got := await(t, "the end of the term", atTheEnd); got != m.lock.Identity() {
		t.Errorf("while the term still ran %q held the lease, not %q", got, m.lock.Identity())
	}
	if got := holder(t, name); got != "" {
		t.Errorf("after the end %q holds the lease", got)
	}
}

// Who waits to be elected stops at once, and takes nobody's lease.
func TestWhoWaitsToBeElectedCanBeStopped(t *testing.T) {
	const name = "waited-for"
	wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
	first, _, _ := start(t, newManager(t), elected(name, wait))
	await(t, "the election", first.Elected())
	second, stop, ended := start(t, newManager(t), elected(name, wait))
	stop()
	if err := await(t, "the end", ended); err != nil {
		t.Errorf("it ended with: %v", err)
	}
	select {
	case <-second.Elected():
		t.Error("two lead at once")
	default:
	}
	if got := holder(t, name); got != first.lock.Identity() {
		t.Errorf("%q holds the lease", got)
	}
}

// A controller that cannot run, though its process leads, is no reason to go on without it.
func TestAFailureOfTheTermEndsTheProcess(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		setUp func(manager.Manager) error
		want  error
	}{
		"cannot-be-set-up": {func(manager.Manager) error { return broken }, broken},
		"fails": {func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return broken }))
		}, broken},
		"ends-for-no-cause": {func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
		}, errEnded},
	} {
		t.Run(name, func(t *testing.T) {
			o := elected(name, nil)
			o.SetUp = tc.setUp
			_, _, ended := start(t, newManager(t), o)
			if err := await(t, "the end", ended); !errors.Is(err, tc.want) {
				t.Errorf("it ended with: %v", err)
			}
			if got := holder(t, name); got != "" {
				t.Errorf("%q still holds the lease", got)
			}
		})
	}
}

func TestALeaseHasBounds(t *testing.T) {
	for lease, elect := range map[time.Duration]bool{0: true, MinLease - 1: true, MaxLease + 1: true, MaxLease: false} {
		o := elected("bounded", nil)
		o.Lease, o.Elect = lease, elect
		if _, err := New(newManager(t), o); (err != nil) != elect {
			t.Errorf("a lease of %s, with an election: %t: %v", lease, elect, err)
		}
	}
}

// counted is a manager that counts the handlers which watch through its cache.
type counted struct {
	manager.Manager
	handlers atomic.Int32
}

func (m *counted) GetCache() cache.Cache { return countedCache{m.Manager.GetCache(), m} }

type countedCache struct {
	cache.Cache
	m *counted
}

func (c countedCache) GetInformer(ctx context.Context, kind client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, kind, options...)
	return countedInformer{informer, c.m}, err
}

type countedInformer struct {
	cache.Informer
	m *counted
}

func (i countedInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.m.handlers.Add(1)
	return i.Informer.AddEventHandlerWithOptions(handler, options)
}

func (i countedInformer) RemoveEventHandler(handler toolscache.ResourceEventHandlerRegistration) error {
	i.m.handlers.Add(-1)
	return i.Informer.RemoveEventHandler(handler)
}

// Each term has controllers of its own, which see all objects anew; none of them stays behind.
func TestEachTermHasItsOwnControllers(t *testing.T) {
	tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "looked-at"}}
	if err := env.Admin.Create(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 16)
	mgr := &counted{Manager: newManager(t)}
	o := Options{SetUp: func(mgr manager.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).Named("looker").For(&v1alpha1.Tool{}).Complete(reconcile.Func(
			func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
				seen <- r.Name
				return reconcile.Result{}, nil
			}))
	}}
	m, _, _ := start(t, mgr, o)
	await(t, "the manager's own term", m.Elected())
	await(t, "its look at the Tool", seen)
	for range 3 { // Beside it, so that they can be ended one by one.
		ctx, end := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- m.lead(ctx) }()
		if name := await(t, "a look at the Tool", seen); name != tool.Name {
			t.Errorf("%s was looked at", name)
		}
		if n := mgr.handlers.Load(); n != 2 {
			t.Errorf("%d handlers watch during the term", n)
		}
		end()
		if err := await(t, "the end of the term", over); err != nil {
			t.Errorf("the term ended with: %v", err)
		}
		if n := mgr.handlers.Load(); n != 1 {
			t.Errorf("%d handlers watch after the term", n)
		}
	}
}
