package diagnose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
)

// Kinds of failure that are not the model's.
const (
	// FailedDeadline means that the diagnosis took longer than its recipe allows.
	FailedDeadline = "DeadlineExceeded"
	// FailedRecipe means that the recipe cannot be used.
	FailedRecipe = "RecipeInvalid"
	// FailedCredential means that the model's key cannot be had.
	FailedCredential = "CredentialUnusable"
	// FailedBudget means that the account of the daily token budget cannot be kept.
	FailedBudget = "BudgetNotKept"
	// FailedStore means that the verdict could not be written into ToolHealth.
	FailedStore = "NotStored"
	// FailedManager means that the manager was lost during the run.
	FailedManager = "ManagerLost"
)

// FailureOf says what kind of failure an Outcome's Err is, and what can be done about it.
func FailureOf(in Input, err error) runfailure.Failure {
	f := runfailure.Failure{Category: v1alpha1.FailureUnknown, Stage: v1alpha1.StageAsk, Kind: string(llm.Unknown)}
	advice := modelFailures[llm.Unknown].advice
	var failure *llm.Failure
	switch {
	case errors.Is(err, errDeadline):
		f.Category, f.Kind = v1alpha1.FailureTimeout, FailedDeadline
		advice = "raise activeDeadlineSeconds of the DiagnosisRecipe, or take a faster model"
	case errors.As(err, &failure):
		known := modelFailures[failure.Kind]
		f.Category, f.Stage, f.Kind, f.Wait, advice = known.category, known.stage, string(failure.Kind), failure.Wait, known.advice
		if failure.Kind == llm.RateLimited && failure.Wait > runfailure.MaxDelay {
			// What is used up for longer than a retry may wait is an allowance.
			f.Category = v1alpha1.FailureProviderBudget
		}
	}
	if errors.Is(err, errShort) {
		advice = "raise spec.tokenCeiling of the DiagnosisRecipe or the daily token budget"
	}
	f.Message = in.AI.name(advice) + " (" + err.Error() + ")"
	return f
}

// modelFailures say for each kind of a model's failure where it belongs, how far the run got, and what can be done.
// In the advice, {key}, {endpoint} and {models} stand for where those are configured.
var modelFailures = map[llm.FailureKind]struct {
	category v1alpha1.RunFailureCategory
	stage    v1alpha1.RunStage
	advice   string
}{
	llm.RateLimited: {v1alpha1.FailureProviderTransient, v1alpha1.StageAsk,
		"the model's endpoint asks for fewer requests: raise the account's limits, or add a model to {models}"},
	llm.Overloaded: {v1alpha1.FailureProviderTransient, v1alpha1.StageAsk,
		"the model's endpoint is overloaded or out of order: wait until it works again, or mend {endpoint}"},
	llm.Unreachable: {v1alpha1.FailureProviderTransient, v1alpha1.StageAsk,
		"the model's endpoint cannot be reached: check {endpoint} and the network"},
	llm.TimedOut: {v1alpha1.FailureTimeout, v1alpha1.StageAsk,
		"the model took too long to answer: put a faster one into {models}"},
	llm.KeyRefused: {v1alpha1.FailureCredentials, v1alpha1.StageAsk,
		"the model's key was refused: mend {key}"},
	llm.NoFunds: {v1alpha1.FailureProviderBudget, v1alpha1.StageAsk,
		"the account at the model's provider may spend no more: add funds or raise its limit"},
	llm.UnknownModel: {v1alpha1.FailureProviderRequest, v1alpha1.StageAsk,
		"the endpoint has no such model: mend {models}, or the path in {endpoint}"},
	llm.NoTools: {v1alpha1.FailureProviderRequest, v1alpha1.StageAsk,
		"the model calls no tools as it is served: put another into {models}, or turn tool calling on at its server"},
	llm.TooLong: {v1alpha1.FailureProviderRequest, v1alpha1.StageAsk,
		"the request is longer than the model reads: put one with a larger context into {models}"},
	llm.BadRequest: {v1alpha1.FailureProviderRequest, v1alpha1.StageAsk,
		"the endpoint refuses the request: check that {endpoint} serves chat completions with tools"},
	llm.Misdirected: {v1alpha1.FailureProviderRequest, v1alpha1.StageAsk,
		"what answers is not the model's API, or may not be asked: mend {endpoint}"},
	llm.ContentFiltered: {v1alpha1.FailurePolicy, v1alpha1.StageAsk,
		"the provider's content filter or the model declined: loosen the filter, or put another model into {models}"},
	llm.Unreadable: {v1alpha1.FailureModelOutput, v1alpha1.StageParse,
		"the endpoint's answer cannot be read: check that {endpoint} serves chat completions"},
	llm.Empty: {v1alpha1.FailureModelOutput, v1alpha1.StageParse,
		"the model answered nothing: put another into {models}"},
	llm.CutOff: {v1alpha1.FailureModelOutput, v1alpha1.StageParse,
		"the model used up the length of its answer before it said anything: put one that thinks less into {models}"},
	llm.Unknown: {v1alpha1.FailureUnknown, v1alpha1.StageAsk,
		"the model could not be asked, and it is not known why: look at the text and at the manager's log"},
}

// name fills in where the parts of a model's configuration are. A nil AI is the operator's own.
func (ai *AI) name(advice string) string {
	key, endpoint, models := "the file of --model-key-file", "--model-endpoint", "--model"
	if ai != nil {
		recipe := fmt.Sprintf(" of DiagnosisRecipe %s/%s", ai.Namespace, v1alpha1.RecipeName)
		key, endpoint, models = "spec.ai.credential"+recipe, "spec.ai.endpoint"+recipe, "spec.ai.models"+recipe
		if ai.Credential != "" {
			key = fmt.Sprintf("data.apiKey of Secret %s/%s", ai.Namespace, ai.Credential)
		}
	}
	return strings.NewReplacer("{key}", key, "{endpoint}", endpoint, "{models}", models).Replace(advice)
}
