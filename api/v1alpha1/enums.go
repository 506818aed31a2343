package v1alpha1

// Classification says what a tool error means. The values are the specification's.
//
// +kubebuilder:validation:Enum=TECHNICALLY_BROKEN;USER_SPECIFIC_TECHNICAL;USER_PERMISSION;USER_INPUT;INTERMITTENT;WORKING;UNCLEAR
type Classification string

const (
	// TechnicallyBroken means that the tool fails for everybody in the row's scope.
	TechnicallyBroken Classification = "TECHNICALLY_BROKEN"
	// UserSpecificTechnical means that the tool works, but not for this user until the user acts:
	// an expired token, a revoked grant, a used-up quota.
	UserSpecificTechnical Classification = "USER_SPECIFIC_TECHNICAL"
	// UserPermission means that this user may not do this. The tool's health is not touched.
	UserPermission Classification = "USER_PERMISSION"
	// UserInput means that the input of the call was wrong. The tool's health is not touched.
	UserInput Classification = "USER_INPUT"
	// Intermittent means that the call may succeed if it is tried again a little later.
	Intermittent Classification = "INTERMITTENT"
	// Working means that the tool works; earlier findings to the contrary are cleared.
	Working Classification = "WORKING"
	// Unclear means that the evidence decides nothing; a diagnosis is due.
	Unclear Classification = "UNCLEAR"
)

// BlamesUser reports whether the class is about one user or that user's input, never about the tool.
func (c Classification) BlamesUser() bool {
	return c == UserSpecificTechnical || c == UserPermission || c == UserInput
}

// Scope says who is affected, from narrow to wide. The values are the specification's.
//
// +kubebuilder:validation:Enum=SESSION;USER;PROJECT;TENANT;GLOBAL
type Scope string

const (
	// ScopeSession covers one session of one user; scopeId is the session's id and a mark of the user.
	ScopeSession Scope = "SESSION"
	// ScopeUser covers one user in one project; scopeId is the user's id.
	ScopeUser Scope = "USER"
	// ScopeProject covers one project; scopeId is its namespace.
	ScopeProject Scope = "PROJECT"
	// ScopeTenant covers every project of a tenant; scopeId is the tenant's namespace.
	ScopeTenant Scope = "TENANT"
	// ScopeGlobal covers everybody; scopeId is empty.
	ScopeGlobal Scope = "GLOBAL"
)

// Scopes lists every scope from narrow to wide.
func Scopes() []Scope {
	return []Scope{ScopeSession, ScopeUser, ScopeProject, ScopeTenant, ScopeGlobal}
}

// Width orders scopes: 0 for SESSION to 4 for GLOBAL, and -1 for a value that is no scope.
func (s Scope) Width() int {
	for i, scope := range Scopes() {
		if s == scope {
			return i
		}
	}
	return -1
}

// State says whether a tool can be used. The values are the specification's.
//
// +kubebuilder:validation:Enum=OK;DEGRADED;DOWN
type State string

const (
	// StateOK means that the tool works.
	StateOK State = "OK"
	// StateDegraded means that calls fail now and then; trying is reasonable.
	StateDegraded State = "DEGRADED"
	// StateDown means that calls fail; plan without the tool until its recovery is expected.
	StateDown State = "DOWN"
)

// Phase is where a DiagnosisJob stands. The values are the specification's.
//
// +kubebuilder:validation:Enum=INIT;RUNNING;CLOSED
type Phase string

const (
	// PhaseInit means that the job waits. Every job in this phase together is the queue.
	PhaseInit Phase = "INIT"
	// PhaseRunning means that the holder runs the diagnosis.
	PhaseRunning Phase = "RUNNING"
	// PhaseClosed means that the job has ended; closeReason says how.
	PhaseClosed Phase = "CLOSED"
)

// CloseReason says how a job ended. The values are the specification's.
//
// +kubebuilder:validation:Enum=DONE;STALE
type CloseReason string

const (
	// CloseDone means that the job reached a verdict, be it the fallback.
	CloseDone CloseReason = "DONE"
	// CloseStale means that the job ended without a verdict of its own.
	CloseStale CloseReason = "STALE"
)

// Trigger says why a job exists. The values are the specification's.
//
// +kubebuilder:validation:Enum=tool_call_error;user_request;system_event;scheduled_recheck
type Trigger string

const (
	// TriggerToolCallError is a failed tool call, the usual case.
	TriggerToolCallError Trigger = "tool_call_error"
	// TriggerUserRequest is a person who asks whether the tool works.
	TriggerUserRequest Trigger = "user_request"
	// TriggerSystemEvent is a change in the connection to the tool.
	TriggerSystemEvent Trigger = "system_event"
	// TriggerScheduledRecheck is a recheck that something outside scheduled.
	TriggerScheduledRecheck Trigger = "scheduled_recheck"
)

// SignatureRecheck is the signature of a job that asks for the tool's health rather than reports an error. It has no
// cooldown.
const SignatureRecheck ErrorSignature = "recheck"

// IsRecheck reports whether the job asks for the tool's health rather than reports an error: rules,
// cooldowns and freshness do not apply to it.
func (t Trigger) IsRecheck() bool {
	return t == TriggerUserRequest || t == TriggerScheduledRecheck
}

// HealthAction says what a matched rule writes into the state of the tool's health.
//
// +kubebuilder:validation:Enum=none;markUnavailable;markDegraded
type HealthAction string

const (
	// HealthActionNone writes no state.
	HealthActionNone HealthAction = "none"
	// HealthActionMarkUnavailable writes DOWN.
	HealthActionMarkUnavailable HealthAction = "markUnavailable"
	// HealthActionMarkDegraded writes DEGRADED.
	HealthActionMarkDegraded HealthAction = "markDegraded"
)

// Safety says whether calling a tool changes anything. The values are the specification's.
//
// +kubebuilder:validation:Enum=SAFE_PROBE;WRITE
type Safety string

const (
	// SafetySafeProbe means that calling the tool changes nothing, so that a probe may call it.
	SafetySafeProbe Safety = "SAFE_PROBE"
	// SafetyWrite means that calling the tool may change something, so that no probe ever calls it.
	SafetyWrite Safety = "WRITE"
)

// DiagnosisMode says whether errors of a tool may be diagnosed.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type DiagnosisMode string

const (
	// DiagnosisEnabled lets unclear errors be diagnosed by probes.
	DiagnosisEnabled DiagnosisMode = "Enabled"
	// DiagnosisDisabled keeps every diagnosis away from the tool; errors are still classified by rules.
	DiagnosisDisabled DiagnosisMode = "Disabled"
)
