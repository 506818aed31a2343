package health

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// overlayAge is how long a written row may stand before the cache: far longer than a watch lags, and short
	// enough that a row deleted meanwhile does not haunt.
	overlayAge = 10 * time.Second
	// overlaySize bounds the rows that are remembered.
	overlaySize = 4096
)

// overlay remembers what was just written until the cache has caught up, so that a report never meets the state
// before the last one.
type overlay struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	rows  map[Key]overlayRow
}

type overlayRow struct {
	row     *v1alpha1.ToolHealth
	expires time.Time
}

func newOverlay(clock clock.PassiveClock) *overlay {
	return &overlay{clock: clock, rows: map[Key]overlayRow{}}
}

// put remembers a row that was just written.
func (o *overlay) put(key Key, row *v1alpha1.ToolHealth) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	if len(o.rows) >= overlaySize {
		for k, entry := range o.rows {
			if !entry.expires.After(now) || len(o.rows) >= overlaySize {
				delete(o.rows, k)
			}
		}
	}
	o.rows[key] = overlayRow{row: row, expires: now.Add(overlayAge)}
}

// forget drops what is remembered of a row that was deleted.
func (o *overlay) forget(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rows, key)
}

// newest returns the cached row or the remembered one, whichever was written later.
func (o *overlay) newest(key Key, cached *v1alpha1.ToolHealth) *v1alpha1.ToolHealth {
	o.mu.Lock()
	defer o.mu.Unlock()
	entry, ok := o.rows[key]
	if !ok {
		return cached
	}
	if entry.expires.After(o.clock.Now()) && (cached == nil || newer(entry.row, cached)) {
		return entry.row
	}
	delete(o.rows, key)
	return cached
}

// newer reports whether a was written after b. Versions that cannot be compared count as not newer: the cache is
// then at worst a moment behind, and the write's resourceVersion still guards.
func newer(a, b *v1alpha1.ToolHealth) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}
