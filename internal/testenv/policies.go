package testenv

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// awaitPolicies waits until the API server enforces the policies: it compiles them a moment after they are created.
func (e *Env) awaitPolicies(ctx context.Context) error {
	const tester = "policy-tester"
	config, err := e.User(tester)
	if err != nil {
		return err
	}
	for _, role := range []string{"agrajag-reporter", "agrajag-editor"} {
		if err := e.Bind(ctx, OperatorNamespace, role, tester); err != nil {
			return fmt.Errorf("bind %s: %w", tester, err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: e.Scheme})
	if err != nil {
		return err
	}
	status := int32(500)
	report := func() *v1alpha1.DiagnosisJob {
		return &v1alpha1.DiagnosisJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: tester},
			Spec:       v1alpha1.DiagnosisJobSpec{ToolName: tester, Error: &v1alpha1.ToolError{HTTPStatus: &status}},
		}
	}
	// Reports for another user are refused once the validating policy is there; a plain one, and a pin, are stamped once
	// the mutating policies are.
	var last error
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		foreign, own := report(), report()
		foreign.Spec.OriginatingUserID = "somebody-else"
		if last = c.Create(ctx, foreign, client.DryRunAll); !apierrors.IsForbidden(last) {
			return false, nil
		}
		if last = c.Create(ctx, own, client.DryRunAll); last != nil || own.Spec.Reporter != tester {
			return false, nil
		}
		pin := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: tester},
			Spec: v1alpha1.ToolHealthSpec{ToolName: tester, Scope: v1alpha1.ScopeGlobal, Override: &v1alpha1.HealthOverride{State: v1alpha1.StateOK}}}
		last = c.Create(ctx, pin, client.DryRunAll)
		return last == nil && pin.Spec.Override.By == tester, nil
	})
	if err != nil {
		return fmt.Errorf("policies are not enforced: %w (last answer: %w)", err, last)
	}
	return nil
}
