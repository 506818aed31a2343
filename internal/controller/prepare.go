package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/registry"
)

// stalledError says why nothing can be diagnosed until a person mends something.
type stalledError struct {
	reason string
	err    error
}

func (e *stalledError) Error() string { return e.err.Error() }
func (e *stalledError) Unwrap() error { return e.err }

// prepare reads all that a diagnosis needs. A stalledError says that it cannot be had.
func (r *DiagnosisReconciler) prepare(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (diagnose.Input, llm.Chat, error) {
	in := diagnose.Input{Job: job, Signature: d.Key.Signature, Rows: d.Rows}
	var err error
	if in.Place, err = r.Checker.Place(ctx, job.Namespace); err != nil {
		return in, nil, err
	}
	if in.Rules, err = r.Checker.Cascade.Rules(ctx, in.Place); err != nil {
		return in, nil, err
	}
	if in.Tool, err = registry.Find(ctx, r.Client, job.Namespace, string(job.Spec.ToolName)); err != nil {
		return in, nil, err
	}
	project, err := r.recipe(ctx, in.Place.Project)
	if err != nil {
		return in, nil, err
	}
	tenant := project
	if in.Place.HasTenant() {
		if tenant, err = r.recipe(ctx, in.Place.Tenant); err != nil {
			return in, nil, err
		}
	}
	limits, ai, err := diagnose.ResolveRecipe(in.Place, project, tenant)
	if err != nil {
		return in, nil, &stalledError{v1alpha1.ReasonRecipeInvalid, err}
	}
	in.Limits = limits
	chat, err := r.Chats(ctx, ai)
	if err != nil {
		return in, nil, &stalledError{v1alpha1.ReasonModelUnavailable, err}
	}
	return in, chat, nil
}

// recipe returns the recipe of a namespace; nil: there is none.
func (r *DiagnosisReconciler) recipe(ctx context.Context, namespace string) (*v1alpha1.DiagnosisRecipe, error) {
	recipe := &v1alpha1.DiagnosisRecipe{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.RecipeName}, recipe)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read DiagnosisRecipe of namespace %s: %w", namespace, err)
	}
	return recipe, nil
}
