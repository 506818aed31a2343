package restapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agrajag-dev/agrajag/internal/health"
)

const (
	// maxLate bounds what waits to be written. Its keys are faults, not reports.
	maxLate = 4096
	// lateEvery is how often it is tried while the API server is away.
	lateEvery = time.Second
	// lateFor is how long it is tried.
	lateFor = 15 * time.Minute
)

// What callers are told of writes that did not happen in time.
const (
	storedLater = "the API server did not take it in time: it is written as soon as that is back"
	notStored   = "the API server does not take it, and too much waits to be written: report it again later"
)

// Late does writes at once where it can, and else again and again until they succeed, so that an API server that is
// away costs no caller more than a moment. What waits is lost with the process, so callers are told.
type Late struct {
	clock clock.WithTicker
	// writing makes reports of one fault that come at once wait for one write.
	writing singleflight.Group

	mu sync.Mutex
	// waiting holds what is to be done, once for each key.
	waiting map[string]lateWrite
	// away is when a write last did not succeed in time.
	away time.Time
}

type lateWrite struct {
	do    func(context.Context) error
	since time.Time
}

// NewLate returns a Late. Start must run for it to catch up.
func NewLate(clock clock.WithTicker) *Late {
	return &Late{clock: clock, waiting: map[string]lateWrite{}}
}

// Do does a write now, or later. It returns "" if it is done, else what the caller is to be told. While the same waits
// already, or the API server was away a moment ago, nothing is tried.
func (l *Late) Do(ctx context.Context, key string, do func(context.Context) error) string {
	if !l.waits(key) && l.mayTry() {
		_, err, _ := l.writing.Do(key, func() (any, error) { return nil, l.try(ctx, do) })
		if err == nil {
			return ""
		}
		if !isAway(err) {
			return refused(ctx, err)
		}
	}
	return l.keep(key, do)
}

// errAway says that a write was not tried, since the API server was away a moment ago.
var errAway = errors.New("the API server was away a moment ago")

// Now does a write now or not at all: what need not be true any more later. The caller is told to come again.
func (l *Late) Now(ctx context.Context, do func(context.Context) error) error {
	if !l.mayTry() {
		return errAway
	}
	return l.try(ctx, do)
}

// waits reports whether a write is kept for later.
func (l *Late) waits(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.waiting[key]
	return waits
}

// mayTry reports whether a write is worth a try. While the API server is away one a second is, which finds out whether it is
// back: each holds its request for as long as a write may take.
func (l *Late) mayTry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away.IsZero() {
		return true
	}
	if l.clock.Since(l.away) < lateEvery {
		return false
	}
	l.away = l.clock.Now()
	return true
}

// try does a write, and remembers whether the API server was there.
func (l *Late) try(ctx context.Context, do func(context.Context) error) error {
	// Not the caller's context: others wait for the same write, and who leaves takes no report back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	err := do(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case health.IsUnstorable(err): // The API server was not asked.
	case err != nil && isAway(err):
		l.away = l.clock.Now()
	default:
		l.away = time.Time{}
	}
	return err
}

func (l *Late) keep(key string, do func(context.Context) error) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.waiting[key]; waits {
		return storedLater
	}
	if len(l.waiting) >= maxLate {
		return notStored
	}
	l.waiting[key] = lateWrite{do: do, since: l.clock.Now()}
	return storedLater
}

// isAway reports whether an error says that the API server cannot be reached or does not answer, rather than that it
// refuses.
func isAway(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	if health.IsUnstorable(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // No answer: the connection failed.
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err)
}

// refused says what the caller is told of a write that is refused for good, without what the API server quotes.
func refused(ctx context.Context, err error) string {
	if health.IsUnstorable(err) { // People are told by an Event.
		return "it cannot be stored: " + err.Error()
	}
	logf.FromContext(ctx).Error(logged(err), "Not stored")
	why := "see the manager's log"
	if r := apierrors.ReasonForError(err); r != "" {
		why = string(r)
	}
	return "it cannot be stored: " + why
}

// NeedLeaderElection says that every replica catches up on its own.
func (l *Late) NeedLeaderElection() bool { return false }

// Start catches up until ctx ends.
func (l *Late) Start(ctx context.Context) error {
	ticker := l.clock.NewTicker(lateEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			l.catchUp(ctx)
		}
	}
}

// catchUp tries what waits, until the first write that does not succeed.
func (l *Late) catchUp(ctx context.Context) {
	for key, write := range l.snapshot() {
		if ctx.Err() != nil {
			return
		}
		err := l.try(ctx, write.do)
		if err != nil && isAway(err) && l.clock.Since(write.since) < lateFor {
			return
		}
		if err != nil {
			logf.FromContext(ctx).Error(logged(err), "Not stored", "since", write.since)
		}
		l.mu.Lock()
		delete(l.waiting, key)
		l.mu.Unlock()
	}
}

func (l *Late) snapshot() map[string]lateWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]lateWrite, len(l.waiting))
	for key, write := range l.waiting {
		all[key] = write
	}
	return all
}
