package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxProblemsTold bounds the entries that a condition names.
const maxProblemsTold = 10

// ErrorPatternSetReconciler says which entries of a set are in force.
type ErrorPatternSetReconciler struct {
	Client            client.Client
	Cascade           *checker.Cascade
	Clock             clock.PassiveClock
	OperatorNamespace string
}

// Reconcile writes a set's conditions.
func (r *ErrorPatternSetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.ErrorPatternSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: set.Namespace}, namespace); err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace: %w", err)
	}
	if set.Status.ObservedGeneration != set.Generation {
		r.Cascade.Forget(set.Namespace) // This controller may hear of a change before the cascade does.
	}
	rules, problems, err := r.Cascade.Compiled(ctx, tenancy.PlaceOf(namespace, r.OperatorNamespace))
	if err != nil {
		return ctrl.Result{}, err
	}
	before := set.Status.DeepCopy()
	set.Status.Entries = inForce(set, rules.Entries())
	set.Status.ObservedGeneration = set.Generation
	setConditions(&set.Status.Conditions, set.Generation, r.Clock.Now(), accepted(set, problems), reachable(set, rules))
	return ctrl.Result{}, writeStatus(ctx, r.Client, set, before, &set.Status)
}

// problemsOf returns the problems of one set among those of its place.
func problemsOf(set *v1alpha1.ErrorPatternSet, all []classify.Problem) []classify.Problem {
	var own []classify.Problem
	for _, problem := range all {
		if problem.Set == set.Namespace+"/"+set.Name {
			own = append(own, problem)
		}
	}
	return own
}

// inForce counts the entries of a set among the effective ones.
func inForce(set *v1alpha1.ErrorPatternSet, effective []classify.EffectiveEntry) *int32 {
	var n int32
	for _, entry := range effective {
		if entry.Set == set.Namespace+"/"+set.Name {
			n++
		}
	}
	return &n
}

// accepted names the bad entries of a set by path.
func accepted(set *v1alpha1.ErrorPatternSet, all []classify.Problem) metav1.Condition {
	problems := problemsOf(set, all)
	if len(problems) == 0 {
		return condition(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, "Every entry is in force")
	}
	var lines []string
	for _, problem := range problems {
		problem.Set = ""
		lines = append(lines, problem.String())
	}
	return condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonInvalidEntries, told(lines))
}

// reachable names the entries of a set that an earlier one, or their own selectors, leave nothing to match.
func reachable(set *v1alpha1.ErrorPatternSet, rules *classify.Rules) metav1.Condition {
	var own []string
	for _, problem := range problemsOf(set, rules.Impossible()) {
		problem.Set = ""
		own = append(own, problem.String())
	}
	for _, shadow := range rules.Shadows() {
		if shadow.Entry.Set == set.Namespace+"/"+set.Name {
			shadow.Entry.Set = ""
			own = append(own, shadow.String())
		}
	}
	if len(own) == 0 {
		return condition(v1alpha1.ConditionReachable, true, v1alpha1.ReasonReachable, "Every entry in force can be reached")
	}
	return condition(v1alpha1.ConditionReachable, false, v1alpha1.ReasonShadowed, told(own))
}

// told joins the first of what is to be said about entries.
func told(all []string) string {
	var some []string
	for _, one := range all[:min(len(all), maxProblemsTold)] {
		some = append(some, text.Plain(one, 400))
	}
	if more := len(all) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(some, "; ")
}

// above returns the sets whose entries a changed one may take the place of, or leave nothing to match: those beside it
// and those of the projects to which it applies.
func (r *ErrorPatternSetReconciler) above(ctx context.Context, changed client.Object) []reconcile.Request {
	r.Cascade.Forget(changed.GetNamespace()) // Else these could be judged by lists that do not know the change yet.
	var sets v1alpha1.ErrorPatternSetList
	if err := r.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	concerned := map[string]bool{changed.GetNamespace(): true}
	var requests []reconcile.Request
	for i := range sets.Items {
		set := &sets.Items[i]
		concerns, known := concerned[set.Namespace]
		if !known {
			namespace := &corev1.Namespace{}
			if err := r.Client.Get(ctx, client.ObjectKey{Name: set.Namespace}, namespace); err == nil {
				place := tenancy.PlaceOf(namespace, r.OperatorNamespace)
				concerns = changed.GetNamespace() == place.Tenant || changed.GetNamespace() == place.Operator
			}
			concerned[set.Namespace] = concerns
		}
		if concerns {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return requests
}

// inside returns the sets of a namespace.
func (r *ErrorPatternSetReconciler) inside(ctx context.Context, namespace client.Object) []reconcile.Request {
	var sets v1alpha1.ErrorPatternSetList
	if err := r.Client.List(ctx, &sets, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
	}
	return requests
}

// SetupWithManager registers the controller. What only a set's status says concerns no other; a namespace that changes
// its tenant has other rules below its own.
func (r *ErrorPatternSetReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("errorpatternset").For(&v1alpha1.ErrorPatternSet{}).
		Watches(&v1alpha1.ErrorPatternSet{}, handler.EnqueueRequestsFromMapFunc(r.above), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inside), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(cheap()).Complete(r)
}
