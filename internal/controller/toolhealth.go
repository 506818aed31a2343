package controller

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// ToolHealthReconciler keeps the conditions of rows true as time passes: it flips them when a cooldown ends, a
// recovery is due or an override runs out. It never probes.
type ToolHealthReconciler struct {
	Client            client.Client
	Store             *health.Store
	Clock             clock.PassiveClock
	OperatorNamespace string
	// TTLs say when rows go that nobody needs any more.
	TTLs health.TTLs
}

// Reconcile derives a row's conditions and comes back when they are next due to change, or the row to go.
func (r *ToolHealthReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	row := &v1alpha1.ToolHealth{}
	if err := r.Client.Get(ctx, req.NamespacedName, row); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	expiry := r.TTLs.Expiry(row)
	if !expiry.IsZero() && !expiry.After(r.Clock.Now()) {
		return ctrl.Result{}, r.Store.Delete(ctx, row)
	}
	if unwritten(row, r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: creationGrace}, nil
	}
	next, err := r.Store.Refresh(ctx, row, placement(row, r.OperatorNamespace))
	if err != nil {
		return ctrl.Result{}, err
	}
	if !expiry.IsZero() && (next.IsZero() || expiry.Before(next)) {
		next = expiry
	}
	if next.IsZero() {
		return ctrl.Result{}, nil
	}
	// Times in status are whole seconds: a moment later is certainly past them.
	return ctrl.Result{RequeueAfter: max(next.Sub(r.Clock.Now()), 0) + 10*time.Millisecond}, nil
}

// creationGrace is how long a replica that created a row has for its status, before the conditions of an empty one are
// written.
const creationGrace = 2 * time.Second

// unwritten reports whether a row was created a moment ago, and its status, which says all of it, is on its way: to write
// conditions now would only make that write meet a conflict.
func unwritten(row *v1alpha1.ToolHealth, now time.Time) bool {
	return row.Spec.Override == nil && row.Status.State == "" && len(row.Status.Cooldowns) == 0 && len(row.Status.Conditions) == 0 &&
		now.Sub(row.CreationTimestamp.Time) < creationGrace
}

// placement says whether a row is where its identity belongs. Elsewhere nobody reads it.
func placement(row *v1alpha1.ToolHealth, operatorNamespace string) metav1.Condition {
	key := health.KeyOf(row)
	home := row.Namespace
	switch key.Scope {
	case v1alpha1.ScopeGlobal:
		home = operatorNamespace
	case v1alpha1.ScopeProject, v1alpha1.ScopeTenant:
		home = key.ScopeID
	}
	switch {
	case home != row.Namespace:
		return condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonWrongNamespace,
			fmt.Sprintf("The row is ignored: a %s row with scopeId %q belongs in namespace %s", key.Scope, key.ScopeID, home))
	case key.Name() != row.Name:
		return condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonWrongName,
			fmt.Sprintf("The row is ignored: the row of this identity is named %s", key.Name()))
	default:
		return health.Placed()
	}
}

// SetupWithManager registers the controller.
func (r *ToolHealthReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("toolhealth").For(&v1alpha1.ToolHealth{}).WithOptions(cheap()).Complete(r)
}
