package controller

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
)

// stalledError says why nothing can be diagnosed until a person mends something.
type stalledError struct {
	// reason is one of the condition Complete.
	reason   string
	category v1alpha1.RunFailureCategory
	kind     string
	err      error
}

func (e *stalledError) Error() string { return e.err.Error() }
func (e *stalledError) Unwrap() error { return e.err }

// ending is how the job ends that was about to run.
func (e *stalledError) ending(job *v1alpha1.DiagnosisJob) ending {
	return failed(e.reason, runfailure.Failure{
		Category: e.category, Stage: v1alpha1.StagePrepare, Kind: e.kind, Message: e.Error(), Attempt: job.Status.Attempts + 1,
	})
}

// prepare reads all that a diagnosis needs. A stalledError says that it cannot be had.
func (r *DiagnosisReconciler) prepare(ctx context.Context, job *v1alpha1.DiagnosisJob, d checker.Decision) (diagnose.Input, llm.Chat, error) {
	in := diagnose.Input{Job: job, Signature: d.Key.Signature, Rows: d.Rows, MaxWait: r.Checker.MaxWait}
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
		return in, nil, &stalledError{v1alpha1.ReasonRecipeInvalid, v1alpha1.FailureProviderRequest, diagnose.FailedRecipe, err}
	}
	in.Limits, in.AI = limits, ai
	chat, err := r.Chats(ctx, ai)
	if isServerTrouble(err) {
		return in, nil, err // It is tried again, and costs nothing.
	}
	if err != nil {
		return in, nil, &stalledError{v1alpha1.ReasonModelUnavailable, v1alpha1.FailureCredentials, diagnose.FailedCredential, err}
	}
	in.Account = r.account(chat, in.Place)
	return in, chat, nil
}

// isServerTrouble reports whether a credential could not be read because the API server did not answer as it should. What
// is wrong with a credential, or with a file, comes as another error.
func isServerTrouble(err error) bool {
	var status apierrors.APIStatus
	var transport *url.Error
	return errors.As(err, &status) || errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
