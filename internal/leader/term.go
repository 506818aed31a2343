package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// lead runs one term until ctx ends, and waits until nothing of it runs any more.
func (m *Manager) lead(ctx context.Context) error {
	if err := m.catchUp(ctx); err != nil {
		return nil // The term was over before it began.
	}
	t := &term{Manager: m.Manager}
	defer t.end()
	if err := m.options.SetUp(t); err != nil {
		return fmt.Errorf("set up what a leader runs: %w", err)
	}
	group, running := errgroup.WithContext(ctx)
	for _, r := range t.runnables {
		group.Go(func() error { return cmp.Or(r.Start(running), errEnded) })
	}
	m.once.Do(func() { close(m.elected) })
	err := group.Wait()
	if ctx.Err() != nil {
		return nil // Whatever they say: they were told to end.
	}
	return err
}

// term is a manager whose runnables and watches last for one term. All else of it is the manager's own.
type term struct {
	manager.Manager
	runnables []manager.Runnable

	mu      sync.Mutex
	over    bool
	watches []func() error // ends each of them
}

// Add keeps what the term runs, instead of having the manager run it for good.
func (t *term) Add(r manager.Runnable) error {
	t.runnables = append(t.runnables, r)
	return nil
}

// GetCache returns the manager's cache. What is watched through it is watched until the term ends: controllers
// themselves never take their handlers from the informers, which outlive the term.
func (t *term) GetCache() cache.Cache { return termCache{t.Manager.GetCache(), t} }

// end ends the watches.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, end := range t.watches {
		if err := end(); err != nil {
			t.GetLogger().Error(err, "Watch of a former term not ended")
		}
	}
}

type termCache struct {
	cache.Cache
	term *term
}

// GetInformer returns an informer whose handlers last for the term.
func (c termCache) GetInformer(ctx context.Context, kind client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, kind, options...)
	if err != nil {
		return nil, err
	}
	return termInformer{informer, c.term}, nil
}

type termInformer struct {
	cache.Informer
	term *term
}

// AddEventHandlerWithOptions adds a handler that lasts for the term. Controllers add theirs by this one.
func (i termInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.term.mu.Lock()
	defer i.term.mu.Unlock()
	if i.term.over {
		return nil, errors.New("the term is over")
	}
	registration, err := i.Informer.AddEventHandlerWithOptions(handler, options)
	if err == nil {
		i.term.watches = append(i.term.watches, func() error { return i.RemoveEventHandler(registration) })
	}
	return registration, err
}
