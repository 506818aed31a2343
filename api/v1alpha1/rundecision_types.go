package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RunDecisionVersion is the form that RunDecision has today.
const RunDecisionVersion = 1

// RunAction is what is done about a run that failed.
//
// +kubebuilder:validation:Enum=retry;terminate;preserve
type RunAction string

const (
	// RunRetry runs it once more.
	RunRetry RunAction = "retry"
	// RunTerminate ends it: something else has to change first.
	RunTerminate RunAction = "terminate"
	// RunPreserve ends it and keeps what is known, for a person to look at.
	RunPreserve RunAction = "preserve"
)

// RunFailureCategory says what failed, as "Diagnose agent failure" divides failures.
//
// +kubebuilder:validation:Enum=context_mismatch;insufficient_context;model_output;provider_transient;timeout;turn_limit;workspace;credentials;policy;provider_budget;provider_request;review_rejected;stale_issue;token_budget;verification;unknown
type RunFailureCategory string

// Categories that may pass by themselves.
const (
	// FailureContextMismatch means that the run worked on another state than it was told of.
	FailureContextMismatch RunFailureCategory = "context_mismatch"
	// FailureInsufficientContext means that the run was told too little.
	FailureInsufficientContext RunFailureCategory = "insufficient_context"
	// FailureModelOutput means that the model's answer could not be read.
	FailureModelOutput RunFailureCategory = "model_output"
	// FailureProviderTransient means that the model's provider was overloaded or out of reach.
	FailureProviderTransient RunFailureCategory = "provider_transient"
	// FailureTimeout means that the run took too long.
	FailureTimeout RunFailureCategory = "timeout"
	// FailureTurnLimit means that the run needed more turns than it may have.
	FailureTurnLimit RunFailureCategory = "turn_limit"
	// FailureWorkspace means that what the run works with failed, such as the store of its outcome.
	FailureWorkspace RunFailureCategory = "workspace"
)

// Categories for which something else has to change.
const (
	// FailureCredentials means that a credential was refused, or is missing.
	FailureCredentials RunFailureCategory = "credentials"
	// FailurePolicy means that a policy forbids the run or its content.
	FailurePolicy RunFailureCategory = "policy"
	// FailureProviderBudget means that the account at the provider may spend no more for now.
	FailureProviderBudget RunFailureCategory = "provider_budget"
	// FailureProviderRequest means that the provider refuses such requests.
	FailureProviderRequest RunFailureCategory = "provider_request"
	// FailureReviewRejected means that a review refused the outcome.
	FailureReviewRejected RunFailureCategory = "review_rejected"
	// FailureStaleIssue means that what the run was about has changed.
	FailureStaleIssue RunFailureCategory = "stale_issue"
	// FailureTokenBudget means that the run's own tokens were used up.
	FailureTokenBudget RunFailureCategory = "token_budget"
	// FailureVerification means that the outcome did not pass its checks.
	FailureVerification RunFailureCategory = "verification"
)

// FailureUnknown is what belongs to no other category.
const FailureUnknown RunFailureCategory = "unknown"

// RunStage says how far a run got.
//
// +kubebuilder:validation:Enum=prepare;ask;parse;apply
type RunStage string

const (
	// StagePrepare is before the model is asked: reading configuration and credentials.
	StagePrepare RunStage = "prepare"
	// StageAsk is while the model is asked and the tool probed.
	StageAsk RunStage = "ask"
	// StageParse is when the model's answer is read.
	StageParse RunStage = "parse"
	// StageApply is when the outcome is written.
	StageApply RunStage = "apply"
)

// RunDecision is the receipt of what was decided about a run that failed. It is decided by fixed rules, once for each
// attempt.
type RunDecision struct {
	// schemaVersion is the form of this receipt: 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	SchemaVersion int32 `json:"schemaVersion"`

	// action is what is done: retry (the run is tried once more at dueAt), terminate (something else has to change
	// first) or preserve (a person has to look).
	// +required
	Action RunAction `json:"action"`

	// reason says which rule decided: MayPass, SameFailureAgain, RetriedBefore, NeedsChange, NotRetryable or Unknown.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// category says what failed.
	// +required
	Category RunFailureCategory `json:"category"`

	// kind says it more closely, as in RateLimited or KeyRefused.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Kind string `json:"kind"`

	// stage says how far the run got. Absent: not known.
	// +optional
	Stage RunStage `json:"stage,omitempty"`

	// retryable says whether the failure, taken by itself, may pass without a change.
	// +required
	Retryable bool `json:"retryable"`

	// fingerprint is the same for failures that are the same but for times, numbers and names made up at random.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`

	// attempt is which run of its job failed, from 1, be it before it began.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`

	// dueAt is when the run is tried again. Absent: it is not, or not any more.
	// +optional
	DueAt *metav1.Time `json:"dueAt,omitempty"`

	// decidedAt is when this was decided.
	// +required
	DecidedAt metav1.Time `json:"decidedAt"`

	// message says what failed and what can be done about it.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	Message string `json:"message,omitempty"`
}
