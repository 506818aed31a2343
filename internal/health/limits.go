package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/registry"
)

const (
	// DefaultMaxRows bounds the rows of a namespace (design §4).
	DefaultMaxRows = 5000
	// DefaultMaxUnknownToolRows bounds those of tools without a Tool, which any reporter can make up (design §4).
	DefaultMaxUnknownToolRows = 100
	// fullEventEvery is how often a full namespace is told of (design §4).
	fullEventEvery = time.Hour
)

// ErrFull says that a namespace holds as many rows as it may. Errors are answered all the same, and not stored.
var ErrFull = errors.New("the namespace holds as many ToolHealth rows as it may")

// IsUnstorable reports whether a row is not kept for good, since there is no place for it: ErrFull or ErrIdentity. Whoever
// reported is answered all the same.
func IsUnstorable(err error) bool { return errors.Is(err, ErrFull) || errors.Is(err, ErrIdentity) }

// rowLimits keeps reporters from filling etcd with rows.
type rowLimits struct {
	cache               client.Reader
	clock               clock.PassiveClock
	recorder            events.EventRecorder
	maxRows, maxUnknown int
	mu                  sync.Mutex
	toldAt              map[string]time.Time
}

func newRowLimits(o StoreOptions) *rowLimits {
	l := &rowLimits{cache: o.Client, clock: o.Clock, recorder: o.Recorder,
		maxRows: o.MaxRows, maxUnknown: o.MaxUnknownToolRows, toldAt: map[string]time.Time{}}
	if l.maxRows <= 0 {
		l.maxRows = DefaultMaxRows
	}
	if l.maxUnknown <= 0 {
		l.maxUnknown = DefaultMaxUnknownToolRows
	}
	return l
}

// admit decides whether a namespace may have one row more.
func (l *rowLimits) admit(ctx context.Context, key Key) error {
	var rows v1alpha1.ToolHealthList
	// Only counted, never changed: no copies of up to maxRows objects.
	if err := l.cache.List(ctx, &rows, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("count ToolHealth rows: %w", err)
	}
	if len(rows.Items) >= l.maxRows {
		return l.full(key.Namespace, fmt.Sprintf("%d rows are the limit (--max-rows)", l.maxRows))
	}
	if len(rows.Items) < l.maxUnknown || !inProject(key.Scope) {
		return nil
	}
	known, err := registry.Names(ctx, l.cache, key.Namespace)
	if err != nil || known[key.Tool] {
		return err
	}
	unknown := 0
	for i := range rows.Items {
		if row := &rows.Items[i]; inProject(row.Spec.Scope) && !known[string(row.Spec.ToolName)] {
			unknown++
		}
	}
	if unknown >= l.maxUnknown {
		return l.full(key.Namespace, fmt.Sprintf("%d rows of tools without a Tool are the limit (--max-unknown-tool-rows)", l.maxUnknown))
	}
	return nil
}

// inProject reports whether rows of the scope lie beside the Tools that they are about.
func inProject(scope v1alpha1.Scope) bool {
	return scope != v1alpha1.ScopeTenant && scope != v1alpha1.ScopeGlobal
}

// full tells people once an hour that rows are not stored.
func (l *rowLimits) full(namespace, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for ns, at := range l.toldAt {
		if now.Sub(at) >= fullEventEvery {
			delete(l.toldAt, ns)
		}
	}
	if _, told := l.toldAt[namespace]; !told {
		l.toldAt[namespace] = now
		object := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		l.recorder.Eventf(object, nil, corev1.EventTypeWarning, "TooManyRows", "Store", "Errors are answered but not stored: %s. Delete ToolHealths that nobody needs, or raise the limit", why)
	}
	return fmt.Errorf("%w: %s", ErrFull, why)
}
