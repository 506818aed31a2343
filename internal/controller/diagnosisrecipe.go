package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// DiagnosisRecipeReconciler says whether all of a recipe is in force.
type DiagnosisRecipeReconciler struct {
	Client            client.Client
	Clock             clock.PassiveClock
	OperatorNamespace string
}

// Reconcile writes a recipe's Accepted condition.
func (r *DiagnosisRecipeReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	recipe := &v1alpha1.DiagnosisRecipe{}
	if err := r.Client.Get(ctx, req.NamespacedName, recipe); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: recipe.Namespace}, namespace); err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace: %w", err)
	}
	before := recipe.Status.DeepCopy()
	recipe.Status.ObservedGeneration = recipe.Generation
	setConditions(&recipe.Status.Conditions, recipe.Generation, r.Clock.Now(), recipeAccepted(recipe, tenancy.PlaceOf(namespace, r.OperatorNamespace)))
	return ctrl.Result{}, writeStatus(ctx, r.Client, recipe, before, &recipe.Status)
}

// recipeAccepted says whether all of a recipe is in force in its place.
func recipeAccepted(recipe *v1alpha1.DiagnosisRecipe, place tenancy.Place) metav1.Condition {
	if recipe.Spec.AI != nil && place.HasTenant() {
		return condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonAINotAllowed, fmt.Sprintf(
			"spec.ai is ignored: the project belongs to tenant %s, whose own recipe names the model; the limits are in force", place.Tenant))
	}
	message := "The recipe is in force"
	if ceiling := recipe.Spec.TokenCeiling; ceiling != nil && *ceiling < diagnose.WorstFirstCall {
		message += fmt.Sprintf(", but spec.tokenCeiling of %d may not pay for the first call of a long report with long histories, which may cost %d: what does not fit is not diagnosed",
			*ceiling, diagnose.WorstFirstCall)
	}
	return condition(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, message)
}

// SetupWithManager registers the controller. A namespace that joins a tenant loses the say on the model.
func (r *DiagnosisRecipeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofNamespace := func(_ context.Context, namespace client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace.GetName(), Name: v1alpha1.RecipeName}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("diagnosisrecipe").For(&v1alpha1.DiagnosisRecipe{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(ofNamespace)).
		WithOptions(cheap()).Complete(r)
}
