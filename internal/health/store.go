package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// ErrIdentity says that the object under a row's name is about something else: somebody wrote it by hand.
var ErrIdentity = errors.New("the ToolHealth under this row's name has another identity: delete it")

// conflictRetries bounds how often a write is tried again after somebody else's.
const conflictRetries = 10

// lockStripes bounds the locks of the store. Two rows that share one wait for each other, which costs a moment.
const lockStripes = 256

// Store reads and writes ToolHealth rows. It is the only writer of them, so that every write keeps the limits,
// derives the conditions and carries the resourceVersion. One write per row is in flight at a time.
type Store struct {
	client   client.Client
	live     client.Reader
	clock    clock.PassiveClock
	recorder events.EventRecorder
	limits   *rowLimits
	overlay  *overlay
	maxWait  time.Duration
	locks    [lockStripes]chan struct{}
}

// StoreOptions are what a Store is made of.
type StoreOptions struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server, for what the cache may not know yet.
	Live client.Reader
	// Clock tells the time.
	Clock clock.PassiveClock
	// Recorder writes an Event on every change of state.
	Recorder events.EventRecorder
	// MaxRows and MaxUnknownToolRows bound the rows of a namespace: all of them, and those of tools without a
	// Tool. Zero: DefaultMaxRows and DefaultMaxUnknownToolRows.
	MaxRows, MaxUnknownToolRows int
	// MaxWait bounds every cooldown and every recovery estimate. Zero, or more: the constant MaxWait.
	MaxWait time.Duration
}

// NewStore returns a Store.
func NewStore(o StoreOptions) *Store {
	s := &Store{
		client: o.Client, live: o.Live, clock: o.Clock, recorder: o.Recorder,
		limits:  newRowLimits(o),
		overlay: newOverlay(o.Clock),
		maxWait: o.MaxWait,
	}
	if s.maxWait <= 0 || s.maxWait > MaxWait {
		s.maxWait = MaxWait
	}
	for i := range s.locks {
		s.locks[i] = make(chan struct{}, 1)
	}
	return s
}

// Get returns a row as it was last written, or nil if there is none. The row is shared: it must not be changed.
func (s *Store) Get(ctx context.Context, key Key) (*v1alpha1.ToolHealth, error) {
	row, err := s.read(ctx, s.client, key)
	if err != nil {
		return nil, err
	}
	if row = s.overlay.newest(key, row); row != nil && KeyOf(row) != key {
		return nil, nil // ErrIdentity matters to writers; to readers the row says nothing.
	}
	return row, nil
}

// Caller returns the rows of a caller in the order of the keys; nil where there is none.
func (s *Store) Caller(ctx context.Context, keys []Key) ([]*v1alpha1.ToolHealth, error) {
	rows := make([]*v1alpha1.ToolHealth, len(keys))
	for i, key := range keys {
		row, err := s.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		rows[i] = row
	}
	return rows, nil
}

// Apply changes a row, creating it first where it is missing, and writes it if the change changed something. It
// returns ErrFull if the namespace holds as many rows as it may, ErrIdentity if the row's name is taken.
func (s *Store) Apply(ctx context.Context, key Key, change Change) error {
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	row, err := s.Get(ctx, key)
	for range conflictRetries {
		if err != nil {
			return err
		}
		if err = s.applyOnce(ctx, key, row, change); err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		row, err = s.read(ctx, s.live, key)
	}
	return fmt.Errorf("write ToolHealth %s: changed by others %d times in a row", key, conflictRetries)
}

// applyOnce changes the row as it was read and writes it.
func (s *Store) applyOnce(ctx context.Context, key Key, row *v1alpha1.ToolHealth, change Change) error {
	now := s.clock.Now()
	next := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name()}, Spec: key.spec()}
	if row != nil {
		next = row.DeepCopy()
	}
	if KeyOf(next) != key {
		return fmt.Errorf("%w (%s/%s)", ErrIdentity, next.Namespace, next.Name)
	}
	before := next.Status
	if !change(&next.Status, now) {
		return nil
	}
	if row == nil {
		status := next.Status
		if err := s.create(ctx, key, next); err != nil {
			return err
		}
		next.Status = status
	}
	Bound(&next.Status, now, s.maxWait)
	Derive(next, Placed(), now)
	if err := s.client.Status().Update(ctx, next); err != nil {
		return fmt.Errorf("write status of ToolHealth %s: %w", key, err)
	}
	s.overlay.put(key, next)
	s.announce(next, before)
	return nil
}

func (s *Store) create(ctx context.Context, key Key, row *v1alpha1.ToolHealth) error {
	if err := s.limits.admit(ctx, key); err != nil {
		return err
	}
	if err := s.client.Create(ctx, row); err != nil {
		return fmt.Errorf("create ToolHealth %s: %w", key, err)
	}
	return nil
}

// read returns a row, or nil if there is none.
func (s *Store) read(ctx context.Context, from client.Reader, key Key) (*v1alpha1.ToolHealth, error) {
	row := &v1alpha1.ToolHealth{}
	err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name()}, row)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ToolHealth %s: %w", key, err)
	}
	return row, nil
}

// lock waits until no other write to the row is in flight.
func (s *Store) lock(ctx context.Context, key Key) (unlock func(), err error) {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", key.Namespace, key.Name())
	lock := s.locks[h.Sum32()%lockStripes]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another write of ToolHealth %s: %w", key, ctx.Err())
	}
}

// announce writes an Event if the state changed: who found what, and until when. Refreshes are no news. What the user is
// asked to do is news of its own, once.
func (s *Store) announce(row *v1alpha1.ToolHealth, before v1alpha1.ToolHealthStatus) {
	d, state := row.Status.LastDiagnosis, row.Status.State
	if d == nil {
		return
	}
	if state != before.State {
		s.announceState(row, cmp.Or(before.State, "unknown"))
	}
	if d.UserActionHint != "" && (before.LastDiagnosis == nil || before.LastDiagnosis.UserActionHint != d.UserActionHint) {
		s.recorder.Eventf(row, nil, corev1.EventTypeWarning, v1alpha1.EventUserActionNeeded, "Notify", "%s", d.UserActionHint)
	}
}

func (s *Store) announceState(row *v1alpha1.ToolHealth, before v1alpha1.State) {
	d, state := row.Status.LastDiagnosis, row.Status.State
	kind, until := corev1.EventTypeWarning, ""
	if state == v1alpha1.StateOK {
		kind = corev1.EventTypeNormal
	}
	if at := row.Status.ExpectedRecoveryAt; at != nil {
		until = ", expected to recover at " + stamp(at)
	}
	// A rule need not have a note: then its signature says why.
	s.recorder.Eventf(row, nil, kind, v1alpha1.EventStateChanged, "Diagnose", "%s",
		text.Cut(fmt.Sprintf("%s to %s by %s: %s: %s%s", before, state, d.By, d.Classification, strings.TrimSuffix(cmp.Or(d.Note, string(d.ErrorSignature)), "."), until), 1000))
}

// latest returns a row as it was last written; nil: it is gone.
func (s *Store) latest(ctx context.Context, row *v1alpha1.ToolHealth) (*v1alpha1.ToolHealth, error) {
	cached := &v1alpha1.ToolHealth{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(row), cached); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if written := s.overlay.newest(KeyOf(cached), cached); written.UID == cached.UID {
		return written, nil
	}
	return cached, nil
}

// Refresh derives a row's conditions anew and writes them if they changed. It returns when they are next due to
// change by themselves; zero: never.
func (s *Store) Refresh(ctx context.Context, row *v1alpha1.ToolHealth, accepted metav1.Condition) (next time.Time, err error) {
	unlock, err := s.lock(ctx, KeyOf(row))
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	// Read again: what was written meanwhile may be in the cache by now, and so no longer in the overlay.
	if row, err = s.latest(ctx, row); err != nil || row == nil {
		return time.Time{}, err
	}
	fresh := row.DeepCopy()
	next = Derive(fresh, accepted, s.clock.Now())
	if equality.Semantic.DeepEqual(fresh.Status, row.Status) {
		return next, nil
	}
	if err := s.client.Status().Update(ctx, fresh); err != nil {
		return time.Time{}, fmt.Errorf("write conditions of ToolHealth %s: %w", KeyOf(row), err)
	}
	if accepted.Status == metav1.ConditionTrue {
		s.overlay.put(KeyOf(row), fresh)
		s.announcePin(fresh, row.Status.Conditions)
	}
	return next, nil
}

// announcePin writes an Event if a person's override began, changed or ended. Who took it away is in the API server's audit
// log alone: no object says it.
func (s *Store) announcePin(row *v1alpha1.ToolHealth, former []metav1.Condition) {
	now, before := meta.FindStatusCondition(row.Status.Conditions, v1alpha1.ConditionAvailable), meta.FindStatusCondition(former, v1alpha1.ConditionAvailable)
	pinned, was := now.Reason == v1alpha1.ReasonOverridden, before != nil && before.Reason == v1alpha1.ReasonOverridden
	state := string(cmp.Or(row.Status.State, "unknown"))
	var note string
	switch {
	case pinned && !was:
		note = pinNote(row, now) + "; before: " + state
	case pinned && before.Message != now.Message:
		note = pinNote(row, now) + "; before: " + before.Message
	case was && !pinned:
		how := "was taken away"
		if row.Spec.Override != nil {
			how = "ended at its time"
		}
		note = fmt.Sprintf("spec.override %s: what is reported counts again, now %s; before: %s", how, state, before.Message)
	default:
		return
	}
	s.recorder.Eventf(row, nil, corev1.EventTypeNormal, v1alpha1.EventStateChanged, "Override", "%s", text.Cut(note, 1000))
}

// pinNote tells what is pinned, by whom, why and until when.
func pinNote(row *v1alpha1.ToolHealth, available *metav1.Condition) string {
	if at := row.Spec.Override.Until; at != nil {
		return available.Message + ", until " + stamp(at)
	}
	return available.Message
}
