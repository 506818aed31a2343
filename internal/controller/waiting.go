package controller

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
)

// waiting are the jobs that another one of their fault goes before. They hold no worker. When a job closes, the
// oldest that waits for it is looked at again; when that one closes in turn, the next. A job is added before it is
// asked whether another one goes first, so that none of them can close unnoticed in between. The zero value is empty.
type waiting struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]waiter
}

type waiter struct {
	job   *v1alpha1.DiagnosisJob // no more of it than waiting asks for
	fault fault
}

func (w *waiting) add(job *v1alpha1.DiagnosisJob, one fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[types.NamespacedName]waiter{}
	}
	w.jobs[client.ObjectKeyFromObject(job)] = waiter{fault: one, job: &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, CreationTimestamp: job.CreationTimestamp},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: job.Spec.ToolName},
		Status:     v1alpha1.DiagnosisJobStatus{Attempts: job.Status.Attempts},
	}}
}

func (w *waiting) remove(job types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, job)
}

// take removes and returns the oldest waiting job of each fault, of those that match.
func (w *waiting) take(matches func(waiter) bool) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest := map[fault]*v1alpha1.DiagnosisJob{}
	for _, one := range w.jobs {
		if first := oldest[one.fault]; matches(one) && (first == nil || checker.ComesFirst(one.job, first)) {
			oldest[one.fault] = one.job
		}
	}
	var taken []types.NamespacedName
	for _, job := range oldest {
		key := client.ObjectKeyFromObject(job)
		delete(w.jobs, key)
		taken = append(taken, key)
	}
	return taken
}

// afterClose wakes those that wait for a job once the cache knows that it is closed or gone.
func (w *waiting) afterClose() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	wake := func(gone client.Object, q queue) {
		job, ok := gone.(*v1alpha1.DiagnosisJob)
		if !ok {
			return
		}
		w.remove(client.ObjectKeyFromObject(job))
		for _, next := range w.take(func(one waiter) bool {
			return one.job.Namespace == job.Namespace && one.job.Spec.ToolName == job.Spec.ToolName
		}) {
			q.Add(ctrl.Request{NamespacedName: next})
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if job, ok := e.ObjectNew.(*v1alpha1.DiagnosisJob); ok && job.Status.Phase == v1alpha1.PhaseClosed {
				wake(job, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(e.Object, q) },
	}
}
