package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// account returns what a project's tenant may spend; nil where nothing is counted: the built-in diagnostician is free.
func (r *DiagnosisReconciler) account(chat llm.Chat, place tenancy.Place) *budget.Account {
	if _, free := chat.(llm.Builtin); free {
		return nil
	}
	return r.Budget.Account(place.Tenant)
}

// afford asks, before a job is claimed, whether its first call can be paid. If not, the outcome is that of a run which a
// budget ended before it began.
func (r *DiagnosisReconciler) afford(ctx context.Context, in diagnose.Input) (diagnose.Outcome, error) {
	if in.Account == nil {
		return diagnose.Outcome{}, nil
	}
	err := in.Account.Afford(ctx, diagnose.FirstCall(in, r.Clock.Now()))
	var exhausted *budget.ExhaustedError
	switch {
	case errors.As(err, &exhausted):
		return diagnose.Outcome{Fallback: err.Error(), Exhausted: true}, nil
	case errors.Is(err, budget.ErrNotKept):
		return diagnose.Outcome{}, &stalledError{v1alpha1.ReasonBudgetNotKept, v1alpha1.FailurePolicy, diagnose.FailedBudget, err}
	default:
		return diagnose.Outcome{}, err
	}
}

// judgeCost says in a job's conditions whether its diagnosis cost more than it should, if it cost anything: the built-in
// diagnostician is free.
func (r *DiagnosisReconciler) judgeCost(job *v1alpha1.DiagnosisJob, target int64) {
	if job.Status.Usage == nil {
		return
	}
	used := job.Status.Usage.PromptTokens + job.Status.Usage.CompletionTokens
	if used == 0 {
		return
	}
	reason, message := v1alpha1.ReasonWithinTokenTarget, fmt.Sprintf("The diagnosis cost %d tokens; the target is %d", used, target)
	if used > target {
		reason = v1alpha1.ReasonTokenTargetExceeded
	}
	setConditions(&job.Status.Conditions, job.Generation, r.Clock.Now(), condition(v1alpha1.ConditionWithinTokenTarget, used <= target, reason, message))
}
