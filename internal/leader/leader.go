// Package leader runs controllers only while this process leads, and stands for election again when a lease was lost:
// the process, its caches and all that every replica does go on. (A manager of controller-runtime ends the process.)
package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crleader "sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Bounds of a lease, and what is usual. It is written to the Lease in whole seconds; one of less than MinLease is lost to
// a single slow answer.
const (
	DefaultLease = 15 * time.Second
	MinLease     = 3 * time.Second
	MaxLease     = 5 * time.Minute
)

// Options say how a leader is found and what it does.
type Options struct {
	// Elect says whether there is an election. Without one, this process leads from its start to its end.
	Elect bool
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	// Lease is how long after its last renewal another one may lead, from MinLease to MaxLease. One who cannot renew it
	// for four fifths of that stops leading. These are the shares of Kubernetes' own 15, 10 and 2 seconds.
	Lease time.Duration
	// Kinds are those that the cache must have caught up with before a term begins.
	Kinds []client.Object
	// SetUp builds what a term runs and adds it to the given manager, anew for each term: nothing of a former one may
	// count, since others may have led meanwhile.
	SetUp func(manager.Manager) error
}

// Manager is a manager that stands for election.
type Manager struct {
	manager.Manager

	options Options
	lock    resourcelock.Interface // nil: no election
	elected chan struct{}
	once    sync.Once // closes elected
}

// New makes a manager stand for election, which must have none of its own and not have started yet.
func New(mgr manager.Manager, o Options) (*Manager, error) {
	if o.Elect && (o.Lease < MinLease || o.Lease > MaxLease) {
		return nil, fmt.Errorf("a lease must last from %s to %s, not %s", MinLease, MaxLease, o.Lease)
	}
	m := &Manager{Manager: mgr, options: o, elected: make(chan struct{})}
	var err error
	m.lock, err = crleader.NewResourceLock(mgr.GetConfig(), mgr, crleader.Options{
		LeaderElection: o.Elect, LeaderElectionNamespace: o.Namespace, LeaderElectionID: o.Name, RenewDeadline: m.renewWithin(),
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the election: %w", err)
	}
	return m, mgr.Add(candidate{m})
}

// Elected is closed once this process leads for the first time.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// renewWithin is how long a leader tries to renew its lease before it stops leading.
func (m *Manager) renewWithin() time.Duration { return m.options.Lease * 2 / 3 }

// candidate stands for election as long as the manager runs.
type candidate struct{ *Manager }

// NeedLeaderElection says that every replica stands.
func (candidate) NeedLeaderElection() bool { return false }

// Start stands for election again and again until ctx ends. An error is one of what a term runs.
func (c candidate) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, c.GetLogger().WithName("leader"))
	if c.lock == nil {
		return c.lead(ctx)
	}
	for ctx.Err() == nil {
		if err := c.stand(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stand waits to be elected and leads for one term. When it returns nothing of the term runs any more.
func (c candidate) stand(ctx context.Context) error {
	// The lease outlasts ctx: it is given up after the term has ended.
	standing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	var term sync.Once // Whoever is second waits for the term, or keeps it from beginning.
	var ended error
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, Name: c.options.Name,
		LeaseDuration: c.options.Lease, RenewDeadline: c.renewWithin(), RetryPeriod: c.options.Lease * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				term.Do(func() { ended = c.leadBetween(ctx, leading) })
				if leading.Err() == nil { // The lease is held, but no longer needed.
					resign()
				}
			},
			OnStoppedLeading: func() {},
		},
		// No ReleaseOnCancel: of a lease that cannot be renewed it tries to get rid first, for as long as a renewal may
		// take, and only then it ends the term: too late, another one may lead by then.
	})
	if err != nil {
		return fmt.Errorf("prepare the election: %w", err)
	}
	defer context.AfterFunc(ctx, func() { term.Do(resign) })()
	elector.Run(standing)
	term.Do(func() {})
	if standing.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Lost the lease: standing for election again")
		return ended
	}
	if elector.IsLeader() {
		c.release(ctx)
	}
	return ended
}

// leadBetween leads until ctx or leading ends.
func (c candidate) leadBetween(ctx, leading context.Context) error {
	leading, stop := context.WithCancel(leading)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	return c.lead(leading)
}

// release gives the lease up, so that another one need not wait for its end.
func (c candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.renewWithin())
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // A last renewal may have been under way.
		record, _, err := c.lock.Get(ctx)
		if err != nil || record.HolderIdentity != c.lock.Identity() {
			return err
		}
		now := metav1.Now()
		return c.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Lease not given up: it ends by itself", "lease", c.options.Lease)
	}
}

// errEnded says that something of a term ended by itself, which nothing of it should.
var errEnded = errors.New("a controller ended while this process leads")
