package leader

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// behind is a manager whose cache is behind for as long as it is told to be.
type behind struct {
	manager.Manager
	is    func(client.Object) error // what it knows of an object
	looks chan struct{}
	over  atomic.Bool
}

func (m *behind) GetClient() client.Client { return behindClient{m.Manager.GetClient(), m} }

type behindClient struct {
	client.Client
	m *behind
}

func (c behindClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if c.m.over.Load() || !strings.HasPrefix(key.Name, "waited-for") {
		return c.Client.Get(ctx, key, object, options...)
	}
	c.m.looks <- struct{}{}
	return c.m.is(object)
}

// After an outage the lease may be won before the cache knows what others did meanwhile.
func TestATermBeginsWhenTheCacheHasCaughtUp(t *testing.T) {
	notFound := func(client.Object) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "tools"}, "waited-for")
	}
	old := func(object client.Object) error { object.SetResourceVersion("1"); return nil }
	for _, tc := range []struct {
		name  string
		knows func(client.Object) error
		// then says what ends the wait: it is known, or it is gone.
		then func(*behind, *v1alpha1.Tool) error
	}{
		{"of a new object", notFound, func(m *behind, _ *v1alpha1.Tool) error { m.over.Store(true); return nil }},
		{"of a change", old, func(m *behind, _ *v1alpha1.Tool) error { m.over.Store(true); return nil }},
		{"of nothing that is gone", notFound, func(_ *behind, tool *v1alpha1.Tool) error { return env.Admin.Delete(context.Background(), tool) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "waited-for"}}
			if err := env.Admin.Create(t.Context(), tool); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.IgnoreNotFound(env.Admin.Delete(context.Background(), tool)) })
			mgr := &behind{Manager: newManager(t), is: tc.knows, looks: make(chan struct{})}
			m, _, _ := start(t, mgr, Options{
				Kinds: []client.Object{&v1alpha1.Tool{}},
				SetUp: func(mgr manager.Manager) error {
					return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }))
				},
			})
			for range 3 {
				await(t, "a look at the cache", mgr.looks)
			}
			select {
			case <-m.Elected():
				t.Error("a term began behind the times")
			default:
			}
			if err := tc.then(mgr, tool); err != nil {
				t.Fatal(err)
			}
			for begun := false; !begun; {
				select {
				case <-mgr.looks: // One may be under way.
				case <-m.Elected():
					begun = true
				case <-time.After(30 * time.Second):
					t.Fatal("waited in vain for the term")
				}
			}
		})
	}
}

// A list of many pages is read to its end.
func TestTheCacheCatchesUpWithAllPages(t *testing.T) {
	var names []string
	for i := range 2*page + 1 {
		tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, GenerateName: "many-"}}
		if err := env.Admin.Create(t.Context(), tool); err != nil {
			t.Fatalf("Tool %d: %v", i, err)
		}
		names = append(names, tool.Name)
	}
	t.Cleanup(func() {
		if err := env.Admin.DeleteAllOf(context.Background(), &v1alpha1.Tool{}, client.InNamespace(testenv.OperatorNamespace)); err != nil {
			t.Error(err)
		}
	})
	last := slices.Max(names)
	asked := make(chan string, len(names)+16)
	mgr := &asking{newManager(t), asked}
	m, _, _ := start(t, mgr, Options{Kinds: []client.Object{&v1alpha1.Tool{}}, SetUp: func(mgr manager.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }))
	}})
	await(t, "the term", m.Elected())
	close(asked)
	var seen []string
	for name := range asked {
		seen = append(seen, name)
	}
	if len(seen) < len(names) || !slices.Contains(seen, last) {
		t.Errorf("the cache was asked about %d of %d", len(seen), len(names))
	}
}

// asking is a manager that tells which objects its cache is asked about.
type asking struct {
	manager.Manager
	asked chan<- string
}

func (m *asking) GetClient() client.Client { return askingClient{m.Manager.GetClient(), m.asked} }

type askingClient struct {
	client.Client
	asked chan<- string
}

func (c askingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.asked <- key.Name
	return c.Client.Get(ctx, key, object, options...)
}
