package controller

import (
	"container/heap"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// shelf keeps objects as etcd does, with resource versions, for what the controllers here do with them: an API server would
// take hours for the objects of two days.
type shelf struct {
	client.Client // Nil: nothing else is called.
	version       int
	objects       map[client.ObjectKey]client.Object
}

// statuses writes the statuses of what is on a shelf.
type statuses struct {
	client.SubResourceWriter
	of *shelf
}

// Status returns what writes statuses.
func (s *shelf) Status() client.SubResourceWriter { return statuses{of: s} }

func (s *shelf) put(object client.Object) {
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[client.ObjectKeyFromObject(object)] = object
}

// Get returns an object.
func (s *shelf) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := s.objects[key].(type) {
	case *v1alpha1.ToolHealth:
		object.DeepCopyInto(into.(*v1alpha1.ToolHealth))
	case *v1alpha1.DiagnosisJob:
		object.DeepCopyInto(into.(*v1alpha1.DiagnosisJob))
	default:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return nil
}

// Update writes a status.
func (s statuses) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	if s.of.objects[client.ObjectKeyFromObject(object)].GetResourceVersion() != object.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), nil)
	}
	s.of.put(object)
	return nil
}

// Delete removes an object that is as its caller believes.
func (s *shelf) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	key, with := client.ObjectKeyFromObject(object), (&client.DeleteOptions{}).ApplyOptions(opts)
	have, ok := s.objects[key]
	switch p := with.Preconditions; {
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	case *p.UID != have.GetUID() || *p.ResourceVersion != have.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{}, key.Name, nil)
	}
	delete(s.objects, key)
	return nil
}

// due is when an object is looked at again.
type due struct {
	at  time.Time
	by  reconcile.Reconciler
	key client.ObjectKey
}

// agenda is all that is due, the next first.
type agenda []due

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push and Pop are the heap's.
func (a *agenda) Push(x any) { *a = append(*a, x.(due)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// days are the days of a project in which sessions come and go.
type days struct {
	t      *testing.T
	clock  *testclock.FakePassiveClock
	shelf  *shelf
	agenda agenda
	rows   *ToolHealthReconciler
	jobs   *DiagnosisJobReconciler
}

func newDays(t *testing.T) *days {
	t.Helper()
	d := &days{t: t, clock: testclock.NewFakePassiveClock(t0), shelf: &shelf{objects: map[client.ObjectKey]client.Object{}}}
	store := health.NewStore(health.StoreOptions{Client: d.shelf, Live: d.shelf, Clock: d.clock, Recorder: events.NewFakeRecorder(1)})
	d.rows = &ToolHealthReconciler{Client: d.shelf, Store: store, Clock: d.clock, OperatorNamespace: "agrajag-system",
		TTLs: health.TTLs{Session: 24 * time.Hour, User: 24 * time.Hour}}
	d.jobs = &DiagnosisJobReconciler{Client: d.shelf, Clock: d.clock, TTL: time.Hour}
	return d
}

// look reconciles an object, and notes when to look again.
func (d *days) look(by reconcile.Reconciler, key client.ObjectKey) {
	result, err := by.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		d.t.Fatalf("%s at %s: %v", key, d.clock.Now(), err)
	}
	if result.RequeueAfter > 0 {
		heap.Push(&d.agenda, due{at: d.clock.Now().Add(result.RequeueAfter), by: by, key: key})
	}
}

// until lets the time pass, in which all that is due is done.
func (d *days) until(now time.Time) {
	for len(d.agenda) > 0 && !d.agenda[0].at.After(now) {
		next := heap.Pop(&d.agenda).(due)
		d.clock.SetTime(next.at)
		d.look(next.by, next.key)
	}
	d.clock.SetTime(now)
}

func (d *days) add(object client.Object, by reconcile.Reconciler) {
	object.SetNamespace("p")
	object.SetUID(types.UID(object.GetName()))
	object.SetCreationTimestamp(metav1.NewTime(d.clock.Now()))
	d.shelf.put(object)
	d.look(by, client.ObjectKeyFromObject(object))
}

// session is one of a user who comes once: a tool of the client is down, the user did something wrong and then it worked, and
// an unclear error was diagnosed.
func (d *days) session(i int) {
	now, user := d.clock.Now(), fmt.Sprint("user-", i)
	place := tenancy.Place{Project: "p", Tenant: "p", Operator: "agrajag-system"}
	row := func(scope v1alpha1.Scope, tool string, changes ...health.Change) {
		key, _ := health.KeyFor(place, scope, tool, user, "s1")
		object := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Name: key.Name()},
			Spec: v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(tool), Scope: scope, ScopeID: key.ScopeID}}
		health.All(changes...)(&object.Status, now)
		d.add(object, d.rows)
	}
	row(v1alpha1.ScopeSession, "client_x", health.Mark(health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, By: health.ByEvent}))
	row(v1alpha1.ScopeUser, "search", health.Cool(health.Trigger{Signature: "http-400", Class: v1alpha1.UserInput}),
		health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, By: health.BySuccess}))
	at := metav1.NewTime(now)
	d.add(&v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("diag-", i)}, Status: v1alpha1.DiagnosisJobStatus{
		Phase: v1alpha1.PhaseClosed, CloseReason: v1alpha1.CloseDone, ClosedAt: &at, Attempts: 1}}, d.jobs)
}

// count counts what is kept.
func (d *days) count() map[string]int {
	kept := map[string]int{}
	for _, object := range d.shelf.objects {
		if row, ok := object.(*v1alpha1.ToolHealth); ok {
			kept[string(row.Spec.Scope)]++
		} else {
			kept["jobs"]++
		}
	}
	return kept
}

// Each day brings 100,000 sessions, of which each leaves a row of its own and one of its user, and a job. What is kept is that
// of one day, and the jobs of an hour, however many days there are, and nothing once no more sessions come.
func TestNothingGrowsWithTheSessionsOfManyDays(t *testing.T) {
	const perDay, hours = 100_000, 26
	d := newDays(t)
	for i := range perDay * hours / 24 {
		d.session(i)
		d.until(t0.Add(time.Duration(i+1) * (24 * time.Hour / perDay)))
		if (i+1)%(perDay/16) != 0 {
			continue
		}
		day := min(i+1, perDay)
		want := map[string]int{"SESSION": day, "USER": day, "jobs": perDay / 24}
		kept := d.count()
		for kind, n := range want {
			if got := kept[kind]; got < n-2 || got > n+2 { // Who comes and who goes at one instant.
				t.Errorf("after %d sessions there are %d %s, want %d", i+1, got, kind, n)
			}
		}
	}
	d.until(d.clock.Now().Add(25 * time.Hour))
	if kept := d.count(); len(kept) != 0 || len(d.agenda) != 0 {
		t.Errorf("a day after the last session %v are kept and %d looks are due", kept, len(d.agenda))
	}
}
