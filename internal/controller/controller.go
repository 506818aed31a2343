// Package controller reconciles the kinds of the API, one controller a kind. Controllers read, ask a pure function
// or the checker what follows, write status once, and speak to each other through the API alone.
package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// The manager's rights. Writing health is the store's (internal/health), answering reports the webhooks'. Events are
// written to events.k8s.io, but for those of the leader election, which are core Events in the operator's namespace.
//
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=tools;errorpatternsets;diagnosisrecipes,verbs=get;list;watch
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=tools/status;errorpatternsets/status;diagnosisrecipes/status,verbs=update
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=toolhealths,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=toolhealths/status,verbs=update
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=diagnosisjobs,verbs=create;get;list;watch;update;delete;stamp-reporter
// +kubebuilder:rbac:groups=tools.agrajag.dev,resources=diagnosisjobs/status,verbs=update;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agrajag-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=agrajag-system,resources=events,verbs=create;patch

const (
	// cheapWorkers is how many objects of a kind are reconciled at once, paid diagnoses apart.
	cheapWorkers = 4
	// cheapTimeout bounds one reconciliation that runs no diagnosis.
	cheapTimeout = 30 * time.Second
)

// cheap are the options of controllers that run no diagnosis.
func cheap() controller.Options {
	return controller.Options{MaxConcurrentReconciles: cheapWorkers, ReconciliationTimeout: cheapTimeout}
}

// setConditions sets conditions of an object as of its present generation.
func setConditions(all *[]metav1.Condition, generation int64, now time.Time, conditions ...metav1.Condition) {
	for _, condition := range conditions {
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(all, condition)
	}
}

// condition builds a condition that is True or False.
func condition(kind string, holds bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// writeStatus writes an object's status if it differs from what it was, with the resourceVersion that was read.
func writeStatus(ctx context.Context, c client.Client, object client.Object, before, after any) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := c.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("write status of %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}
