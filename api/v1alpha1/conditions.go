package v1alpha1

// Conditions of a Tool.
const (
	// ConditionReady of a Tool is True when its configuration can be used for probes, False when a
	// person has to mend it. It says nothing about whether the tool works: see ToolHealth.
	ConditionReady = "Ready"
	// ConditionProbeSafe of a Tool is True when a probe has something it may call, False when every
	// call of the tool may change something, so that it is diagnosed from history alone. It speaks of what the
	// MCP server said when it was last asked; a probe asks again before it calls.
	ConditionProbeSafe = "ProbeSafe"
)

// Reasons of Ready and ProbeSafe.
const (
	// ReasonConfigured goes with Ready=True.
	ReasonConfigured = "Configured"
	// ReasonDuplicateToolName goes with Ready=False: an older Tool of the namespace has the same toolName.
	ReasonDuplicateToolName = "DuplicateToolName"
	// ReasonCredentialNotFound goes with Ready=False: the named Secret does not exist.
	ReasonCredentialNotFound = "CredentialNotFound"
	// ReasonCredentialNotReadable goes with Ready=False: the manager may not read the Secret, because
	// the project has not created the RoleBinding for it.
	ReasonCredentialNotReadable = "CredentialNotReadable"
	// ReasonCredentialNotAllowed goes with Ready=False: the Secret has another type than the one for
	// system credentials, or does not list the endpoint's host.
	ReasonCredentialNotAllowed = "CredentialNotAllowed"
	// ReasonInputInvalid goes with Ready=False: the probe's input is too large, cannot be sent, or does not fit
	// the input schema that the MCP server gives for the tool.
	ReasonInputInvalid = "InputInvalid"
	// ReasonSafeProbe goes with ProbeSafe=True: the tool itself is declared safe.
	ReasonSafeProbe = "SafeProbe"
	// ReasonReadOnlyCall goes with ProbeSafe=True: a read-only call is declared.
	ReasonReadOnlyCall = "ReadOnlyCall"
	// ReasonWriteOnly goes with ProbeSafe=False: nothing is declared that a probe may call.
	ReasonWriteOnly = "WriteOnly"
	// ReasonMarkedUnsafe goes with ProbeSafe=False: the tool's own MCP server marks it as one that writes or
	// destroys. No field of the Tool outweighs that.
	ReasonMarkedUnsafe = "MarkedUnsafe"
	// ReasonNoEndpoint goes with ProbeSafe=False: it is not said where the tool is.
	ReasonNoEndpoint = "NoEndpoint"
	// ReasonDiagnosisDisabled goes with ProbeSafe=False: spec.diagnosis is Disabled.
	ReasonDiagnosisDisabled = "DiagnosisDisabled"
)

// Conditions of a ToolHealth.
const (
	// ConditionAvailable of a ToolHealth is True for OK and DEGRADED, False for DOWN, and Unknown when
	// nothing is known or the next real call is the test.
	ConditionAvailable = "Available"
	// ConditionCooldownPrefix begins the type of the condition that each cooldown of a ToolHealth has;
	// its signature follows. True while the cooldown runs, False once it has ended.
	ConditionCooldownPrefix = "cooldown.tools.agrajag.dev/"
)

// Reasons of Available and of the cooldown conditions.
const (
	// ReasonOK goes with Available=True: the tool works.
	ReasonOK = "OK"
	// ReasonDegraded goes with Available=True: calls fail now and then.
	ReasonDegraded = "Degraded"
	// ReasonDown goes with Available=False: calls fail.
	ReasonDown = "Down"
	// ReasonRetesting goes with Available=Unknown: the expected recovery has passed, the next real call
	// is the test.
	ReasonRetesting = "Retesting"
	// ReasonNoState goes with Available=Unknown: the row exists only for a cooldown.
	ReasonNoState = "NoState"
	// ReasonOverridden goes with any status of Available: spec.override is in force.
	ReasonOverridden = "Overridden"
	// ReasonCoolingDown goes with a cooldown condition that is True.
	ReasonCoolingDown = "CoolingDown"
	// ReasonExpired goes with a cooldown condition that is False.
	ReasonExpired = "Expired"
)

// Reasons of Events on a ToolHealth.
const (
	// EventStateChanged says that the state changed, by whom, why and until when.
	EventStateChanged = "StateChanged"
	// EventUserActionNeeded tells the user of a USER row what to do: lastDiagnosis.userActionHint, which is new.
	EventUserActionNeeded = "UserActionNeeded"
)

// ConditionAccepted of an ErrorPatternSet, a DiagnosisRecipe or a ToolHealth is True when all of the object is
// in force, False when part or all of it is ignored; the message says which and why.
const ConditionAccepted = "Accepted"

// Reasons of Accepted.
const (
	// ReasonAccepted goes with Accepted=True.
	ReasonAccepted = "Accepted"
	// ReasonInvalidEntries goes with Accepted=False of an ErrorPatternSet: the entries that the message
	// names by path are skipped, the others are in force.
	ReasonInvalidEntries = "InvalidEntries"
	// ReasonAINotAllowed goes with Accepted=False of a DiagnosisRecipe: the AI part of a project
	// that belongs to a tenant is ignored; its limits are in force.
	ReasonAINotAllowed = "AINotAllowed"
	// ReasonWrongNamespace goes with Accepted=False of a ToolHealth: a row of that scope and scopeId
	// belongs in another namespace, so this one is ignored.
	ReasonWrongNamespace = "WrongNamespace"
	// ReasonWrongName goes with Accepted=False of a ToolHealth: the row of that identity has another
	// name, which the message tells, so this one is ignored.
	ReasonWrongName = "WrongName"
)

// ConditionReachable of an ErrorPatternSet is True when every entry in force can be reached, False when an earlier one
// matches whatever an entry matches, or two of an entry's own selectors exclude each other; the message says which, and
// why. Entries are compared pair by pair.
const ConditionReachable = "Reachable"

// Reasons of Reachable.
const (
	// ReasonReachable goes with Reachable=True.
	ReasonReachable = "Reachable"
	// ReasonShadowed goes with Reachable=False.
	ReasonShadowed = "Shadowed"
)

// Conditions of a DiagnosisJob. Reconciling and Stalled are those that generic status readers know.
const (
	// ConditionComplete of a DiagnosisJob is True once it is closed, whatever the outcome.
	ConditionComplete = "Complete"
	// ConditionReconciling of a DiagnosisJob is True while it runs, or waits to be run once more.
	ConditionReconciling = "Reconciling"
	// ConditionStalled of a DiagnosisJob is True when it closed without a verdict because something has
	// to be mended; the message says what.
	ConditionStalled = "Stalled"
	// ConditionWithinTokenTarget of a DiagnosisJob is True when its diagnosis cost no more than the recipe's tokenTarget,
	// False as a warning when it cost more. It is absent where it cost none. The verdict holds either way, so
	// generic status readers need not know it.
	ConditionWithinTokenTarget = "WithinTokenTarget"
)

// Reasons of WithinTokenTarget.
const (
	// ReasonWithinTokenTarget goes with WithinTokenTarget=True.
	ReasonWithinTokenTarget = "WithinTokenTarget"
	// ReasonTokenTargetExceeded goes with WithinTokenTarget=False.
	ReasonTokenTargetExceeded = "TokenTargetExceeded"
)

// Reasons of Complete, Reconciling and Stalled.
const (
	// ReasonDiagnosing goes with Reconciling=True: the probe loop runs.
	ReasonDiagnosing = "Diagnosing"
	// ReasonRetrying goes with Reconciling=True: a run failed in a way that may pass, and the job waits to be run once more;
	// status.decision says when.
	ReasonRetrying = "Retrying"
	// ReasonDiagnosed says that the probe loop reached a verdict.
	ReasonDiagnosed = "Diagnosed"
	// ReasonClassified says that a rule decided; no diagnosis was needed.
	ReasonClassified = "Classified"
	// ReasonFallback says that the run ended without a usable verdict, so that the fallback was applied.
	ReasonFallback = "Fallback"
	// ReasonBudgetExhausted says that too little of a daily token budget was left for a verdict, so that the fallback was
	// applied; the message says whose budget, and when it comes back.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonBudgetNotKept says that the account of the daily token budget cannot be read or written, so that nothing may be
	// spent: no diagnosis began, or it ended without a verdict and the fallback was applied.
	ReasonBudgetNotKept = "BudgetNotKept"
	// ReasonTokenCeilingReached says that the recipe's tokenCeiling did not pay for a verdict, so that the fallback was applied;
	// the message says what the next call may cost.
	ReasonTokenCeilingReached = "TokenCeilingReached"
	// ReasonCoalesced says that another job stands for this one: an older one for the same fault, or the newest of a row
	// that was diagnosed as often within the hour as it may be; the message names it.
	ReasonCoalesced = "Coalesced"
	// ReasonCovered says that another job's verdict, made after this job was created, covers it.
	ReasonCovered = "Covered"
	// ReasonAlreadyDiagnosed says that a fresh verdict for the same fault is in force.
	ReasonAlreadyDiagnosed = "AlreadyDiagnosed"
	// ReasonRecipeInvalid says that the recipe cannot be used, so that nothing was diagnosed.
	ReasonRecipeInvalid = "RecipeInvalid"
	// ReasonModelUnavailable says that no model gave an answer that can be used; status.decision says why.
	ReasonModelUnavailable = "ModelUnavailable"
	// ReasonDeadlineExceeded says that the run took longer than its recipe allows.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonNotStored says that there is a verdict, but that it could not be written into ToolHealth; status.decision tells
	// it.
	ReasonNotStored = "NotStored"
	// ReasonAttemptsExhausted says that the manager was lost during the run more often than it is tried again.
	ReasonAttemptsExhausted = "AttemptsExhausted"
)
