package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxProblemsTold bounds the bad entries that a condition names.
const maxProblemsTold = 10

// ErrorPatternSetReconciler says which entries of a set are in force.
type ErrorPatternSetReconciler struct {
	Client            client.Client
	Cascade           *checker.Cascade
	Clock             clock.PassiveClock
	OperatorNamespace string
}

// Reconcile writes a set's Accepted condition.
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
		r.Cascade.Forget() // This controller may hear of a change before the cascade does.
	}
	rules, problems, err := r.Cascade.Compiled(ctx, tenancy.PlaceOf(namespace, r.OperatorNamespace))
	if err != nil {
		return ctrl.Result{}, err
	}
	before := set.Status.DeepCopy()
	set.Status.Entries = inForce(set, rules.Entries())
	set.Status.ObservedGeneration = set.Generation
	setConditions(&set.Status.Conditions, set.Generation, r.Clock.Now(), accepted(set, problems))
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
	var told []string
	for _, problem := range problems[:min(len(problems), maxProblemsTold)] {
		problem.Set = ""
		told = append(told, text.Plain(problem.String(), 300))
	}
	if more := len(problems) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonInvalidEntries, strings.Join(told, "; "))
}

// SetupWithManager registers the controller. A set that changes may take an id from a later one beside it.
func (r *ErrorPatternSetReconciler) SetupWithManager(mgr ctrl.Manager) error {
	beside := func(ctx context.Context, changed client.Object) []reconcile.Request {
		var sets v1alpha1.ErrorPatternSetList
		if err := r.Client.List(ctx, &sets, client.InNamespace(changed.GetNamespace())); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range sets.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
		}
		return requests
	}
	return ctrl.NewControllerManagedBy(mgr).Named("errorpatternset").For(&v1alpha1.ErrorPatternSet{}).
		Watches(&v1alpha1.ErrorPatternSet{}, handler.EnqueueRequestsFromMapFunc(beside)).
		WithOptions(cheap()).Complete(r)
}
