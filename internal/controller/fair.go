package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// turns is the order in which queued jobs get a worker. The tenant with the fewest jobs at work goes first; of equal
// ones that which has waited longest for a turn; of one tenant's jobs the one that came first. So a worker never idles
// while anything waits, a tenant holds more than its even share of the workers only while no other one waits, and
// however much one tenant queues, another one's first job waits for no more than one that already runs.
type turns struct {
	// tenantOf names the tenant of a namespace. It is asked once a job is queued, and must not block.
	tenantOf func(namespace string) string

	mu      sync.Mutex
	waiting map[string][]ctrl.Request // by tenant, never empty
	next    []string                  // the tenants that wait, longest without a turn first
	working map[string]int            // by tenant, never zero
	tenants map[ctrl.Request]string   // of the jobs at work
	queued  int
}

func newTurns(tenantOf func(namespace string) string) *turns {
	return &turns{tenantOf: tenantOf, waiting: map[string][]ctrl.Request{}, working: map[string]int{}, tenants: map[ctrl.Request]string{}}
}

// Touch is told of a job that is queued already: it keeps its place.
func (t *turns) Touch(ctrl.Request) {}

// Push queues a job.
func (t *turns) Push(job ctrl.Request) {
	tenant := t.tenantOf(job.Namespace)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[tenant]) == 0 {
		t.next = append(t.next, tenant)
	}
	t.waiting[tenant] = append(t.waiting[tenant], job)
	t.queued++
}

// Len returns how many jobs are queued.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queued
}

// Pop takes the job whose turn it is. There must be one.
func (t *turns) Pop() ctrl.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := 0
	for i, tenant := range t.next {
		if t.working[tenant] < t.working[t.next[turn]] {
			turn = i
		}
	}
	tenant := t.next[turn]
	t.next = append(t.next[:turn], t.next[turn+1:]...)
	job := t.waiting[tenant][0]
	if t.waiting[tenant] = t.waiting[tenant][1:]; len(t.waiting[tenant]) > 0 {
		t.next = append(t.next, tenant)
	} else {
		delete(t.waiting, tenant)
	}
	t.working[tenant]++
	t.tenants[job] = tenant
	t.queued--
	return job
}

// done tells that a job is no longer at work.
func (t *turns) done(job ctrl.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tenant := t.tenants[job]
	delete(t.tenants, job)
	if t.working[tenant]--; t.working[tenant] <= 0 {
		delete(t.working, tenant)
	}
}

// fairQueue is a controller's queue that takes turns.
type fairQueue struct {
	*workqueue.Typed[ctrl.Request]
	turns *turns
}

// Done tells that a job is no longer at work.
func (q fairQueue) Done(job ctrl.Request) {
	q.turns.done(job)
	q.Typed.Done(job)
}

// newFairQueue returns a controller.Options.NewQueue by which tenants take turns. It is the ordinary queue but for
// the order in which jobs leave it.
func newFairQueue(tenantOf func(namespace string) string) func(string, workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		turns := newTurns(tenantOf)
		queue := fairQueue{workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[ctrl.Request]{Name: name, Queue: turns}), turns}
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[ctrl.Request]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[ctrl.Request]{Name: name, Queue: queue}),
		})
	}
}

// tenants returns what names the tenant of a namespace that is in the cache. One that is not there stands for itself.
func tenants(cache client.Reader) func(namespace string) string {
	return func(name string) string {
		namespace := &corev1.Namespace{}
		if err := cache.Get(context.Background(), client.ObjectKey{Name: name}, namespace); err != nil {
			return name
		}
		return tenancy.PlaceOf(namespace, "").Tenant
	}
}
