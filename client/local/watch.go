package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clients "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Options say whose rows are watched. The program needs the verbs list and watch on toolhealths in each namespace.
type Options struct {
	// Config says how to reach the API server.
	Config *rest.Config
	// Project is the namespace whose tools are called.
	Project string
	// Tenant is the namespace of the project's tenant, if its rows may be watched; empty: TENANT rows are not seen.
	Tenant string
	// OperatorNamespace is the operator's, if its rows may be watched; empty: GLOBAL rows are not seen.
	OperatorNamespace string
}

// Watch fills a View and keeps it up to date until ctx ends. It returns once all rows are known; a View whose API server
// goes away later answers from what was known last. An error says that rows cannot be watched at all.
func Watch(ctx context.Context, o Options) (v *View, err error) {
	if o.Config == nil || o.Project == "" {
		return nil, errors.New("give a Config and a Project")
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := clients.NewWithWatch(o.Config, clients.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel() // Of several namespaces, those that are watched already.
		}
	}()
	v = newView(tenancy.Place{Project: o.Project, Tenant: o.Tenant, Operator: o.OperatorNamespace}, time.Now())
	namespaces := map[string]bool{o.Project: true}
	for _, namespace := range []string{o.Tenant, o.OperatorNamespace} {
		if namespace != "" {
			namespaces[namespace] = true
		}
	}
	for namespace := range namespaces {
		if err := v.fill(ctx, c, namespace); err != nil {
			return nil, err
		}
	}
	go v.run(ctx)
	return v, nil
}

// fill watches the rows of a namespace until ctx ends, and returns once they are known.
func (v *View) fill(ctx context.Context, c clients.WithWatch, namespace string) error {
	// Once in the open, so that a missing right is an error and not a View that never fills.
	if err := c.List(ctx, &v1alpha1.ToolHealthList{}, clients.InNamespace(namespace), clients.Limit(1)); err != nil {
		return fmt.Errorf("list toolhealths in namespace %s: %w", namespace, err)
	}
	rows := &namespaceRows{view: v, filled: make(chan struct{})}
	go cache.NewReflector(listWatch(c, namespace), &v1alpha1.ToolHealth{}, rows, 0).RunWithContext(ctx)
	select {
	case <-rows.filled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run keeps the time.
func (v *View) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			v.now.Store(now.UnixNano())
		}
	}
}

func listWatch(c clients.WithWatch, namespace string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.ToolHealthList{}
			return list, c.List(ctx, list, &clients.ListOptions{Namespace: namespace, Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &v1alpha1.ToolHealthList{}, &clients.ListOptions{Namespace: namespace, Raw: &o})
		},
	}
}

// namespaceRows hands the rows of a namespace to a View.
type namespaceRows struct {
	view   *View
	filled chan struct{}
	once   sync.Once
	known  map[string]*v1alpha1.ToolHealth
}

// Add takes a row. The reflector calls one method at a time.
func (n *namespaceRows) Add(object any) error {
	row, ok := object.(*v1alpha1.ToolHealth)
	if !ok {
		return fmt.Errorf("%T is no ToolHealth", object)
	}
	n.view.apply(row)
	n.known[row.Name] = identity(row)
	return nil
}

// Update takes a row as it is now.
func (n *namespaceRows) Update(object any) error { return n.Add(object) }

// Delete forgets a row.
func (n *namespaceRows) Delete(object any) error {
	row, ok := object.(*v1alpha1.ToolHealth)
	if !ok {
		return fmt.Errorf("%T is no ToolHealth", object)
	}
	n.view.remove(row)
	delete(n.known, row.Name)
	return nil
}

// Replace takes all rows that there are.
func (n *namespaceRows) Replace(objects []any, _ string) error {
	former := n.known
	n.known = make(map[string]*v1alpha1.ToolHealth, len(objects))
	for _, object := range objects {
		if err := n.Add(object); err != nil {
			return err
		}
	}
	for name, row := range former {
		if n.known[name] == nil || health.KeyOf(n.known[name]) != health.KeyOf(row) {
			n.view.remove(row)
		}
	}
	n.once.Do(func() { close(n.filled) })
	return nil
}

// Resync has nothing to do.
func (n *namespaceRows) Resync() error { return nil }

// identity returns what a row is known by.
func identity(row *v1alpha1.ToolHealth) *v1alpha1.ToolHealth {
	return &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name},
		Spec: v1alpha1.ToolHealthSpec{ToolName: row.Spec.ToolName, Scope: row.Spec.Scope, ScopeID: row.Spec.ScopeID}}
}
