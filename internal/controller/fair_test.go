package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// requestOf returns the request of a job that is written as namespace/name.
func requestOf(job string) ctrl.Request {
	namespace, name, _ := strings.Cut(job, "/")
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// tenantByLetter takes the first letter of a namespace for its tenant.
func tenantByLetter(namespace string) string { return namespace[:1] }

func TestTenantsTakeTurns(t *testing.T) {
	for _, tc := range []struct {
		name string
		// do is what happens in turn: +job is queued, > a worker takes one, -job is done.
		do   string
		want string
	}{
		{name: "one tenant's jobs go in their order", do: "+a/1 +a/2 +a/3 > > >", want: "a/1 a/2 a/3"},
		{name: "another tenant's first goes before one's second", do: "+a/1 +a/2 +b/1 > > >", want: "a/1 b/1 a/2"},
		{name: "projects of one tenant share its turn", do: "+a1/1 +a2/1 +b/1 > > >", want: "a1/1 b/1 a2/1"},
		{name: "who has fewer at work goes first", do: "+a/1 +a/2 +a/3 > > +b/1 +b/2 +b/3 > > >", want: "a/1 a/2 b/1 b/2 a/3"},
		{name: "of those with as many at work the one longest without a turn", do: "+a/1 +b/1 +c/1 > > -a/1 -b/1 +a/2 +b/2 > > >", want: "a/1 b/1 c/1 a/2 b/2"},
		{name: "alone a tenant takes every worker", do: "+a/1 +a/2 +a/3 > > > +b/1 -a/1 >", want: "a/1 a/2 a/3 b/1"},
		{name: "what is done no longer counts", do: "+a/1 +b/1 > > -a/1 +b/2 +a/2 > >", want: "a/1 b/1 a/2 b/2"},
		{name: "a job that comes back goes behind its tenant's others", do: "+a/1 +a/2 > -a/1 +a/1 > >", want: "a/1 a/2 a/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			turns, taken := newTurns(tenantByLetter), []string{}
			for _, step := range strings.Fields(tc.do) {
				switch step[0] {
				case '+':
					turns.Push(requestOf(step[1:]))
				case '-':
					turns.done(requestOf(step[1:]))
				default:
					taken = append(taken, turns.Pop().String())
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(taken, " ")); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// Ten thousand jobs of one tenant, a hundred of ten others that come at random moments, and four workers: nobody's
// first job waits for more than one that runs, no worker idles, and nobody takes more than an even share from others.
func TestNoTenantHoldsUpAnother(t *testing.T) {
	s := simulation{t: t, turns: newTurns(tenantByLetter), random: rand.New(rand.NewPCG(1, 2)), most: map[string]int{}}
	for i := range 10_000 {
		s.turns.Push(requestOf(fmt.Sprintf("a/%d", i)))
	}
	arrive := map[int][]ctrl.Request{}
	for i := range 100 {
		at := s.random.IntN(10_000)
		arrive[at] = append(arrive[at], requestOf(fmt.Sprintf("%c/%d", 'b'+rune(i%10), i)))
	}
	for now := 0; s.finished < 10_100; now++ {
		for _, job := range arrive[now] {
			s.arrives(job)
		}
		s.passes(4)
	}
	if len(s.turns.waiting)+len(s.turns.next)+len(s.turns.working)+len(s.turns.tenants) != 0 {
		t.Errorf("something is left: %+v", s.turns)
	}
}

// simulation lets workers take jobs that last a random time each.
type simulation struct {
	t        *testing.T
	turns    *turns
	random   *rand.Rand
	running  []simulated
	finished int
	// most holds for each tenant that waits with nothing at work how many jobs may end before its first begins: one,
	// and one for each such tenant that came before.
	most map[string]int
}

type simulated struct {
	job  ctrl.Request
	left int
}

func (s *simulation) arrives(job ctrl.Request) {
	s.turns.Push(job)
	if _, waits := s.most[job.Namespace]; !waits && s.turns.working[job.Namespace] == 0 {
		s.most[job.Namespace] = len(s.most) + 1
	}
}

// passes lets a moment pass: each job that ends makes place for the next one.
func (s *simulation) passes(workers int) {
	s.t.Helper()
	for i := len(s.running) - 1; i >= 0; i-- {
		if s.running[i].left--; s.running[i].left > 0 {
			continue
		}
		s.turns.done(s.running[i].job)
		s.running = append(s.running[:i], s.running[i+1:]...)
		s.finished++
		for tenant := range s.most {
			s.most[tenant]--
		}
		s.take(workers)
	}
	s.take(workers)
}

// take gives free workers the jobs whose turn it is, and checks that it is.
func (s *simulation) take(workers int) {
	s.t.Helper()
	for len(s.running) < workers && s.turns.Len() > 0 {
		job := s.turns.Pop()
		tenant := job.Namespace
		delete(s.most, tenant)
		s.running = append(s.running, simulated{job: job, left: 1 + s.random.IntN(10)})
		for other := range s.turns.waiting {
			if s.turns.working[other] < s.turns.working[tenant]-1 {
				s.t.Fatalf("%s has %d at work, and %s waits with %d", tenant, s.turns.working[tenant], other, s.turns.working[other])
			}
		}
	}
	for tenant, most := range s.most {
		if most <= 0 {
			s.t.Fatalf("%s waits although others' jobs have ended", tenant)
		}
	}
}

// The queue that controllers use keeps its promises: a job is at one worker at a time, one that is queued again while
// it is at work comes back, and all are taken.
func TestAFairQueueIsAQueue(t *testing.T) {
	queue := newFairQueue(tenantByLetter)("", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	const jobs, workers = 200, 4
	var mu sync.Mutex
	at, times := map[ctrl.Request]int{}, map[ctrl.Request]int{}
	var all, group sync.WaitGroup
	all.Add(2 * jobs)
	for range workers {
		group.Go(func() {
			for job, down := queue.Get(); !down; job, down = queue.Get() {
				mu.Lock()
				if at[job]++; at[job] > 1 {
					t.Errorf("%s is at two workers", job)
				}
				if times[job]++; times[job] == 1 {
					queue.Add(job)
					queue.Add(job) // Twice is once.
				}
				at[job]--
				mu.Unlock()
				queue.Forget(job)
				queue.Done(job)
				all.Done()
			}
		})
	}
	for i := range jobs {
		if job := requestOf(fmt.Sprintf("%c/%d", 'a'+rune(i%3), i)); i%2 == 0 {
			queue.Add(job)
		} else {
			queue.AddAfter(job, time.Millisecond)
		}
	}
	all.Wait()
	queue.ShutDown()
	group.Wait()
	if len(times) != jobs {
		t.Errorf("%d of %d jobs came to a worker", len(times), jobs)
	}
}

func TestTheTenantOfANamespace(t *testing.T) {
	cache := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{tenancy.TenantLabel: "acme"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}},
	).Build()
	for namespace, want := range map[string]string{"shop": "acme", "acme": "acme", "not-known-yet": "not-known-yet"} {
		if got := tenants(cache)(namespace); got != want {
			t.Errorf("the tenant of %s is %s, want %s", namespace, got, want)
		}
	}
}
