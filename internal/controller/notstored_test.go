package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// A verdict that the API server does not take, however often it is asked, is neither lost nor paid for again.
func TestAVerdictThatIsNeverTakenIsToldAndNotPaidForAgain(t *testing.T) {
	before := afterRun
	afterRun = wait.Backoff{Steps: 3}
	t.Cleanup(func() { afterRun = before })
	report := jobOf("j", 0, nil)
	report.Spec.Error = &v1alpha1.ToolError{HTTPStatus: new(int32(500))}
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "search", UID: "row"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, ScopeID: "p"}}
	tries := 0
	refuses := interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		if _, isRow := o.(*v1alpha1.ToolHealth); isRow {
			tries++
			return errors.New("the quota of disk pages is used up")
		}
		return c.SubResource(sub).Update(ctx, o, opts...)
	}}
	c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithInterceptorFuncs(refuses).
		WithObjects(report, row, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "p"}}).WithStatusSubresource(report, row).
		WithIndex(&v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool).
		WithIndex(&v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs).Build()
	now, recorder := testclock.NewFakePassiveClock(t0), events.NewFakeRecorder(10)
	asked := 0
	r := &DiagnosisReconciler{
		Client: c, Live: c, Clock: now, Recorder: recorder, Holder: "me",
		Checker: &checker.Checker{Cache: c, Live: c, Cascade: checker.NewCascade(c), Clock: now, OperatorNamespace: "agrajag-system",
			Store: health.NewStore(health.StoreOptions{Client: c, Live: c, Clock: now, Recorder: recorder})},
		Engine: &diagnose.Engine{Prober: probe.New(probe.Options{Clock: now}), Credentials: probe.Credentials{Reader: c}, Clock: now},
		Chats: func(context.Context, *diagnose.AI) (llm.Chat, error) {
			asked++
			return llm.Builtin{}, nil
		},
	}
	for range 2 { // The second time finds the job closed.
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(report)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(report), report); err != nil {
		t.Fatal(err)
	}
	d := report.Status.Decision
	if report.Status.Phase != v1alpha1.PhaseClosed || report.Status.Attempts != 1 || asked != 1 || tries != 3 || d == nil || d.Action != v1alpha1.RunPreserve ||
		report.Status.Diagnosis != nil || !strings.Contains(d.Message, "disk pages") || !strings.Contains(d.Message, "UNCLEAR for scope PROJECT") {
		t.Errorf("after %d runs and %d tries: %+v, decided %+v", asked, tries, report.Status, d)
	}
}
