package budget

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// The manager's rights on the account. RBAC cannot narrow a create to a name.
//
// +kubebuilder:rbac:groups="",namespace=agrajag-system,resources=configmaps,resourceNames=agrajag-daily-tokens,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=agrajag-system,resources=configmaps,verbs=create

// ConfigMapName names the account in the operator's namespace.
const ConfigMapName = "agrajag-daily-tokens"

const (
	// writeAttempts bounds how often a write is tried again after somebody else's.
	writeAttempts = 10
	// writeTimeout bounds one read or write, since others wait for it.
	writeTimeout = 10 * time.Second
)

// ErrNotKept says that the account cannot be kept until a person mends something, so that nothing may be spent.
var ErrNotKept = errors.New("the account of the daily token budget cannot be kept: see ConfigMap " + ConfigMapName + " in the operator's namespace and the manager's role there")

// Keeper keeps the account. It is safe for concurrent use. Two of them on one ConfigMap never spend more than there is
// either, because each spends only what it has stored itself.
type Keeper struct {
	// Client writes, Live reads from the API server: ConfigMaps are not watched.
	Client client.Writer
	Live   client.Reader
	// Clock tells the day.
	Clock clock.PassiveClock
	// Recorder tells of an account that cannot be read.
	Recorder events.EventRecorder
	// Namespace is the operator's.
	Namespace string
	// Limits are the budgets.
	Limits Limits

	once   sync.Once
	gate   chan struct{} // full while somebody uses what follows, be it over calls of the API server
	ledger *ledger
	stored *corev1.ConfigMap // as it was last read or written; nil: there is none

	mu      sync.Mutex // never held over a call
	settled []settlement
}

// settlement is a hold that ended while somebody else used the account.
type settlement struct {
	hold  *Hold
	spent int64
}

// Account is what one tenant may spend. A nil Account counts nothing and refuses nothing.
type Account struct {
	keeper *Keeper
	tenant string
}

// Account returns a tenant's account; nil where there are no budgets. Nil may be asked as well.
func (k *Keeper) Account(tenant string) *Account {
	if k == nil || k.Limits == (Limits{}) {
		return nil
	}
	return &Account{keeper: k, tenant: tenant}
}

// Hold is what was taken from a budget for one call.
type Hold struct {
	// Tokens is how much the call may cost.
	Tokens int64

	keeper   *Keeper
	ledger   *ledger
	own      *account
	withheld int64
}

// Hold takes up to most tokens for one call, and no less than least. An ExhaustedError says that so much is not left,
// ErrNotKept that a person has to mend something; any other error may pass.
func (a *Account) Hold(ctx context.Context, least, most int64) (*Hold, error) {
	if a == nil {
		return &Hold{Tokens: most}, nil
	}
	return a.keeper.hold(ctx, a.tenant, least, most)
}

// Afford asks whether so many tokens are left.
func (a *Account) Afford(ctx context.Context, tokens int64) error {
	hold, err := a.Hold(ctx, tokens, tokens)
	if err == nil {
		hold.Settle(ctx, 0)
	}
	return err
}

func (k *Keeper) hold(ctx context.Context, tenant string, least, most int64) (*Hold, error) {
	if err := k.enter(ctx); err != nil {
		return nil, err
	}
	defer k.leave()
	if k.ledger == nil {
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	for range writeAttempts {
		k.turn()
		granted, exhausted := k.ledger.hold(tenant, least, most, k.Limits, k.Clock.Now())
		if exhausted != nil {
			return nil, exhausted
		}
		h := &Hold{Tokens: granted, keeper: k, ledger: k.ledger, own: k.ledger.of(tenant), withheld: granted}
		if err = k.write(ctx, h.own); err == nil {
			return h, nil
		}
		h.release(0)
		if errors.Is(err, ErrNotKept) || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// Settle says what the call cost instead of what was held for it. It may be called once. A call that began yesterday
// counts for yesterday, as much as its block.
func (h *Hold) Settle(ctx context.Context, spent int64) {
	k := h.keeper
	if k == nil {
		return
	}
	h.keeper = nil
	k.mu.Lock()
	k.settled = append(k.settled, settlement{h, spent})
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if k.enter(ctx) != nil { // It takes too long: whoever comes next does it.
		return
	}
	defer k.leave()
	if err := k.write(ctx, h.own); err != nil { // It cost more than was held. The next hold writes first.
		logf.FromContext(ctx).Error(err, "Tokens above the hold not stored yet", "tokens", spent)
	}
}

// enter waits until nobody else uses the account, no longer than ctx allows: whoever does may wait for a slow API server.
// What was settled meanwhile is done first.
func (k *Keeper) enter(ctx context.Context) error {
	k.once.Do(func() { k.gate = make(chan struct{}, 1) })
	select {
	case k.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the account of the daily token budget: %w", context.Cause(ctx))
	}
	k.mu.Lock()
	settled := k.settled
	k.settled = nil
	k.mu.Unlock()
	for _, s := range settled {
		s.hold.release(s.spent)
		s.hold.own.raise(k.Limits.PerTenant)
		k.ledger.all.raise(k.Limits.All)
	}
	return nil
}

func (k *Keeper) leave() { <-k.gate }

// release exchanges what was held for what was spent.
func (h *Hold) release(spent int64) {
	spent = min(max(spent, 0), maxTokens)
	h.own.used += spent - h.withheld
	h.ledger.all.used += spent - h.withheld
	h.withheld = 0
}

// turn begins a new day. A clock that goes back does not.
func (k *Keeper) turn() {
	if today := dayOf(k.Clock.Now()); today > k.ledger.day {
		k.ledger = newLedger(today)
	}
}

// read reads the account and adds what others have stored.
func (k *Keeper) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found := &corev1.ConfigMap{}
	err := k.Live.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: ConfigMapName}, found)
	switch {
	case apierrors.IsNotFound(err):
		found, k.stored = &corev1.ConfigMap{}, nil
	case err != nil:
		return kept("read", err)
	default:
		k.stored = found
	}
	theirs, problems := parse(found.Data, k.Limits, k.Clock.Now())
	if k.ledger == nil {
		k.ledger = theirs
	} else {
		k.ledger = k.ledger.merge(theirs)
	}
	if len(problems) > 0 {
		said := text.Cut(strings.Join(problems, "; "), 900)
		logf.FromContext(ctx).Info("Account of the daily token budget not readable", "problems", said)
		k.Recorder.Eventf(found, nil, corev1.EventTypeWarning, "BudgetUnreadable", "Read", "%s", said)
	}
	return nil
}

// write stores the account, unless what is used by the tenant and by all is stored already.
func (k *Keeper) write(ctx context.Context, own *account) error {
	if own.used <= own.stored && k.ledger.all.used <= k.ledger.all.stored {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: ConfigMapName}}
	write := func() error { return k.Client.Create(ctx, next) }
	if k.stored != nil {
		next = k.stored.DeepCopy()
		write = func() error { return k.Client.Update(ctx, next) }
	}
	next.Data = k.ledger.data()
	err := write()
	if apierrors.IsNotFound(err) && k.stored == nil {
		return fmt.Errorf("%w: there is no namespace %s: %w", ErrNotKept, k.Namespace, err)
	}
	if err != nil {
		return kept("write", err)
	}
	k.stored = next
	k.ledger.wrote()
	return nil
}

// kept names what went wrong, and marks what does not pass by itself.
func kept(did string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return fmt.Errorf("%s ConfigMap %s: %w", did, ConfigMapName, err)
}
