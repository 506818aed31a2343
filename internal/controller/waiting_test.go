package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

func TestWhoeverWaitedLongestIsWoken(t *testing.T) {
	outage := fault{row: health.Key{Namespace: "p", Scope: v1alpha1.ScopeProject, ScopeID: "p", Tool: "search"}, signature: "http-5xx"}
	slow := outage
	slow.signature = "timeout"
	running := func(s *v1alpha1.DiagnosisJobStatus) { s.Phase = v1alpha1.PhaseRunning }
	update := func(job *v1alpha1.DiagnosisJob) any { return event.UpdateEvent{ObjectOld: job, ObjectNew: job} }
	ofTool := func(job *v1alpha1.DiagnosisJob, tool v1alpha1.ToolName) *v1alpha1.DiagnosisJob {
		job.Spec.ToolName = tool
		return job
	}
	for _, tc := range []struct {
		name  string
		event any
		want  string
	}{
		{name: "a job closes: the oldest of each fault of its tool", event: update(jobOf("x", 0, closedAt(0, 1, v1alpha1.CloseDone))), want: "b d"},
		{name: "a job is deleted", event: event.DeleteEvent{Object: jobOf("x", 0, running)}, want: "b d"},
		{name: "one that waits itself is deleted: the next", event: event.DeleteEvent{Object: jobOf("b", 0, nil)}, want: "a d"},
		{name: "a job goes on", event: update(jobOf("x", 0, running))},
		{name: "another tool's job closes", event: update(ofTool(jobOf("x", 0, closedAt(0, 1, v1alpha1.CloseDone)), "orders"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var w waiting
			w.add(jobOf("a", 3*time.Second, nil), outage)
			w.add(jobOf("b", 2*time.Second, nil), outage)
			w.add(jobOf("c", 5*time.Second, nil), slow)
			w.add(jobOf("d", 4*time.Second, nil), slow)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer queue.ShutDown()
			switch e := tc.event.(type) {
			case event.UpdateEvent:
				w.afterClose().Update(t.Context(), e, queue)
			case event.DeleteEvent:
				w.afterClose().Delete(t.Context(), e, queue)
			}
			var woken []string
			for queue.Len() > 0 {
				job, _ := queue.Get()
				woken = append(woken, job.Name)
			}
			slices.Sort(woken)
			if diff := cmp.Diff(tc.want, strings.Join(woken, " ")); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAJobThatHasEndedWaitsNoMore(t *testing.T) {
	gone, closed, asked := reportOf("gone", "", nil), reportOf("closed", "", closedAt(0, 1, v1alpha1.CloseDone)), 0
	r := reconciler(interceptor.Funcs{}, &asked, closed)
	for _, job := range []*v1alpha1.DiagnosisJob{gone, closed} {
		r.waiting.add(job, fault{signature: "http-5xx"})
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.waiting.jobs) != 0 || asked != 0 {
		t.Errorf("%d wait, %d runs", len(r.waiting.jobs), asked)
	}
}

func TestTheEndOfAFaultWakesTheNextOfIt(t *testing.T) {
	outage := fault{row: health.Key{Namespace: "acme", Scope: v1alpha1.ScopeTenant, ScopeID: "acme", Tool: "search"}, signature: "http-5xx"}
	var woken []string
	r := &DiagnosisReconciler{}
	r.release(outage) // Before the controller has started nothing is woken, and nothing breaks.
	r.wake = func(job types.NamespacedName) { woken = append(woken, job.String()) }
	for i, namespace := range []string{"shop", "desk"} { // One fault may be that of several projects.
		job := jobOf("j", time.Duration(2-i)*time.Second, nil)
		job.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "j", CreationTimestamp: job.CreationTimestamp}
		r.waiting.add(job, outage)
	}
	for range 3 {
		if !r.running.begin(outage) {
			t.Fatal("a fault that has ended still runs")
		}
		r.release(outage)
	}
	if diff := cmp.Diff([]string{"desk/j", "shop/j"}, woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
