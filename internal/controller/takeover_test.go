package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// rowOf builds a row of alice's that a report took down.
func rowOf(scope v1alpha1.Scope, id, report string) *v1alpha1.ToolHealth {
	key := health.Key{Namespace: "p", Scope: scope, ScopeID: id, Tool: "search"}
	row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: key.Name(), UID: "row"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: scope, ScopeID: id}}
	health.Mark(health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.UserSpecificTechnical, Signature: "other", Note: "refuses alice", UserActionHint: "renew",
		Report: report, By: health.ByEngine("j"), RecoveryAt: t0.Add(time.Hour)})(&row.Status, t0)
	return row
}

// A manager that was lost between the row's write and the job's end has paid for a verdict, and it is in force.
func TestAVerdictThatWasWrittenIsNotPaidForAgain(t *testing.T) {
	for _, tc := range []struct {
		name         string
		row          *v1alpha1.ToolHealth
		attempts     int32
		want         string
		wantAttempts int32
		wantAsked    int
	}{
		{"the user's row was written", rowOf(v1alpha1.ScopeUser, "alice", "j"), 1, "DONE Diagnosed USER_SPECIFIC_TECHNICAL for USER: refuses alice, renew", 1, 0},
		{"the project's row was written", rowOf(v1alpha1.ScopeProject, "p", "j"), 1, "DONE Diagnosed USER_SPECIFIC_TECHNICAL for PROJECT: refuses alice, renew", 1, 0},
		{"the second manager was lost, too", rowOf(v1alpha1.ScopeUser, "alice", "j"), 2, "DONE Diagnosed USER_SPECIFIC_TECHNICAL for USER: refuses alice, renew", 2, 0},
		{"another report wrote the row", rowOf(v1alpha1.ScopeUser, "alice", "k"), 1, "DONE Diagnosed UNCLEAR for PROJECT", 2, 1},
		{"another report wrote it, and the second manager was lost, too", rowOf(v1alpha1.ScopeUser, "alice", "k"), 2, "STALE AttemptsExhausted", 2, 0},
		{"another user's row was written", rowOf(v1alpha1.ScopeUser, "bob", "j"), 1, "DONE Diagnosed UNCLEAR for PROJECT", 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job, asked := reportOf("j", "alice", running(tc.attempts)), 0
			job.Status.ErrorSignature = "http-5xx"
			r := reconciler(interceptor.Funcs{}, &asked, job, tc.row)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}); err != nil {
				t.Fatal(err)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
				t.Fatal(err)
			}
			got := string(job.Status.CloseReason) + " " + meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete).Reason
			if d := job.Status.Diagnosis; d != nil {
				got += " " + string(d.Classification) + " for " + string(d.Scope) + ": " + d.HumanNote + ", " + d.UserActionHint
			}
			if !strings.HasPrefix(got, tc.want) || job.Status.Attempts != tc.wantAttempts || asked != tc.wantAsked {
				t.Errorf("after %d attempts, with %d runs now: %s\nwant %d, %d: %s", job.Status.Attempts, asked, got, tc.wantAttempts, tc.wantAsked, tc.want)
			}
			if d := job.Status.Diagnosis; tc.wantAsked == 0 && d != nil && (!d.ExpectedRecoveryAt.Time.Equal(t0.Add(time.Hour)) || job.Status.Holder != "me" || job.Status.ErrorSignature != "http-5xx") {
				t.Errorf("status %+v", job.Status)
			}
		})
	}
}

// A cache that is late shows a job that has been closed as one that runs, with its verdict in the row: nothing is lost then.
func TestAJobThatIsClosedIsNotClosedAgain(t *testing.T) {
	closed, asked, writes := reportOf("j", "alice", running(1)), 0, 0
	late := closed.DeepCopy()
	closed.Status.Phase = v1alpha1.PhaseClosed
	r := reconciler(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			writes++
			return c.SubResource(sub).Update(ctx, o, opts...)
		}}, &asked, closed, rowOf(v1alpha1.ScopeUser, "alice", "j"))
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if job, ok := o.(*v1alpha1.DiagnosisJob); ok {
				late.DeepCopyInto(job)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		}})
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(closed)})
	if err != nil || asked != 0 || writes != 0 {
		t.Errorf("%v; %d runs, %d writes", err, asked, writes)
	}
}

// Whether there is a verdict has to be known before another run is paid for.
func TestNoSecondRunWhileItsRowCannotBeRead(t *testing.T) {
	job, asked := reportOf("j", "alice", running(1)), 0
	r := reconciler(interceptor.Funcs{}, &asked, job)
	r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isRow := o.(*v1alpha1.ToolHealth); isRow {
				return errors.New("etcd elects")
			}
			return c.Get(ctx, key, o, opts...)
		}})
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
	if getErr := r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); getErr != nil || err == nil || asked != 0 || job.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("%v; %d runs, phase %s (%v)", err, asked, job.Status.Phase, getErr)
	}
}

// A manager that another one took a job from while it ran it writes nothing.
func TestWhoLostAJobWritesNoRow(t *testing.T) {
	for name, taken := range map[string]func(*v1alpha1.DiagnosisJobStatus){
		"another manager runs it":      func(s *v1alpha1.DiagnosisJobStatus) { s.Holder, s.Attempts = "another", 2 },
		"another manager has ended it": func(s *v1alpha1.DiagnosisJobStatus) { s.Holder, s.Phase = "another", v1alpha1.PhaseClosed },
	} {
		t.Run(name, func(t *testing.T) {
			job, asked, rows := reportOf("j", "", nil), 0, 0
			r := reconciler(interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					err := c.SubResource(sub).Update(ctx, o, opts...)
					if claimed, ok := o.(*v1alpha1.DiagnosisJob); ok && claimed.Status.Holder == "me" {
						other := claimed.DeepCopy()
						taken(&other.Status)
						return errors.Join(err, c.SubResource(sub).Update(ctx, other, opts...))
					}
					return err
				},
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					rows++
					return c.Create(ctx, o, opts...)
				},
			}, &asked, job)
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			if !errors.Is(err, errTaken) || asked != 1 || rows != 0 {
				t.Errorf("%v; %d runs wrote %d rows", err, asked, rows)
			}
			stored := &v1alpha1.DiagnosisJob{}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), stored); err != nil || stored.Status.Holder == "me" {
				t.Errorf("%v: %+v", err, stored.Status)
			}
		})
	}
}
