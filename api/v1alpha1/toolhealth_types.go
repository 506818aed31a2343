package v1alpha1

import (
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of a ToolHealth's status, so that no object grows with its users or its age.
const (
	// MaxHistory is how many history entries a row keeps, newest first (specification companion §1).
	MaxHistory = 20
	// MaxCooldowns is how many cooldowns a row keeps.
	MaxCooldowns = 32
	// MaxNoteLength bounds a history note, in characters; the store also bounds it to as many bytes.
	MaxNoteLength = 200
)

// ErrorSignature names a kind of error of a tool. It is the key of cooldowns and of coalescing.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=120
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')`,message="a signature becomes part of a condition's type: use letters, digits, '-', '_' and '.', with a letter or digit at both ends"
type ErrorSignature string

// signature is what the schema says of an ErrorSignature.
var signature = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,118}[A-Za-z0-9])?$`)

// Valid reports whether a signature can be stored.
func (s ErrorSignature) Valid() bool { return signature.MatchString(string(s)) }

// ToolHealthSpec is the identity of a row: which tool, and for whom.
//
// +kubebuilder:validation:XValidation:rule="self.toolName == oldSelf.toolName && self.scope == oldSelf.scope && self.scopeId == oldSelf.scopeId",message="toolName, scope and scopeId identify the row and cannot change: delete it and create another"
// +kubebuilder:validation:XValidation:rule="(self.scope == 'GLOBAL') == (size(self.scopeId) == 0)",message="scopeId is empty for GLOBAL and set for every other scope",fieldPath=".scopeId"
type ToolHealthSpec struct {
	// toolName is what agents call the tool.
	// +required
	ToolName ToolName `json:"toolName"`

	// scope says who is affected.
	// +required
	Scope Scope `json:"scope"`

	// scopeId is the session, the user, the project's namespace or the tenant's namespace; empty for GLOBAL. A session is
	// that of one user: where there is one, "@" and 12 digits of the SHA-256 of the user's name follow the session's id.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=269
	ScopeID string `json:"scopeId"`

	// override is the state that a person pins, whatever the status says.
	// +optional
	Override *HealthOverride `json:"override,omitempty"`
}

// HealthOverride pins a state.
type HealthOverride struct {
	// state is what callers are told.
	// +required
	State State `json:"state"`

	// until ends the override. Without it the override stands until it is removed.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason says why, for the people who meet it.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Reason string `json:"reason,omitempty"`

	// by is who pinned it. The API server sets it to the requester when the override is new or its state, until or reason
	// changes (config/policy), and keeps it otherwise: leave it out of what you apply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	By UserID `json:"by,omitempty"`
}

// ToolHealthStatus is what is known about the tool.
type ToolHealthStatus struct {
	// state says whether the tool can be used. Absent on a row that exists only for a cooldown.
	// +optional
	State State `json:"state,omitempty"`

	// since is when state last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// lastCheckedAt is when state was last written, changed or not.
	// +optional
	LastCheckedAt *metav1.Time `json:"lastCheckedAt,omitempty"`

	// expectedRecoveryAt is when the tool is expected to work again. Once it has passed, the next real call
	// is the test. Absent: unknown.
	// +optional
	ExpectedRecoveryAt *metav1.Time `json:"expectedRecoveryAt,omitempty"`

	// lastDiagnosis says why state is what it is.
	// +optional
	LastDiagnosis *HealthDiagnosis `json:"lastDiagnosis,omitempty"`

	// history holds one entry per write of state, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []HealthHistoryEntry `json:"history,omitempty"`

	// cooldowns say which errors are not diagnosed again for a while, one per signature.
	// +optional
	// +listType=map
	// +listMapKey=errorSignature
	// +kubebuilder:validation:MaxItems=32
	Cooldowns []Cooldown `json:"cooldowns,omitempty"`

	// observedGeneration is the generation of spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Available, one per cooldown named cooldown.tools.agrajag.dev/<signature>, and Accepted.
	// All follow from the rest of the object.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=40
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HealthDiagnosis says why a state is what it is.
type HealthDiagnosis struct {
	// classification is the verdict.
	// +required
	Classification Classification `json:"classification"`

	// errorSignature is the error that the verdict is about.
	// +optional
	ErrorSignature ErrorSignature `json:"errorSignature,omitempty"`

	// note says in a sentence what was found.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	Note string `json:"note,omitempty"`

	// userActionHint says what the user can do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	UserActionHint string `json:"userActionHint,omitempty"`

	// by is who wrote it: agrajag-checker/<rule>, agrajag-engine/<job>, agrajag-event or agrajag-success, followed by " for " and
	// the user who told it, or a user's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by"`

	// at is when it was written.
	// +required
	At metav1.Time `json:"at"`

	// job is the DiagnosisJob, as namespace/name, that found it.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Job string `json:"job,omitempty"`

	// report identifies the report behind it, so that a retry of that report writes nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Report string `json:"report,omitempty"`
}

// HealthHistoryEntry is one write of state.
type HealthHistoryEntry struct {
	// at is when it was written.
	// +required
	At metav1.Time `json:"at"`

	// status is the state that was written.
	// +required
	Status State `json:"status"`

	// classification is the verdict behind it.
	// +required
	Classification Classification `json:"classification"`

	// errorSignature is the error that the verdict is about.
	// +optional
	ErrorSignature ErrorSignature `json:"errorSignature,omitempty"`

	// note says what was found.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Note string `json:"note,omitempty"`

	// by is who wrote it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by"`

	// expectedRecoveryAt is the estimate that was written with it.
	// +optional
	ExpectedRecoveryAt *metav1.Time `json:"expectedRecoveryAt,omitempty"`
}

// Cooldown says that an error of one signature is answered from what is known, without a new diagnosis.
type Cooldown struct {
	// errorSignature is the error that cools down.
	// +required
	ErrorSignature ErrorSignature `json:"errorSignature"`

	// until is when it ends. It only ever moves later.
	// +required
	Until metav1.Time `json:"until"`

	// hits counts how often it was triggered since it last lay idle; growth follows from it.
	// +required
	// +kubebuilder:validation:Minimum=1
	Hits int32 `json:"hits"`

	// classification is the verdict that set it.
	// +required
	Classification Classification `json:"classification"`

	// lastTriggeredAt is when it was last set or extended.
	// +required
	LastTriggeredAt metav1.Time `json:"lastTriggeredAt"`

	// lastReport identifies the report that triggered it last, so that a retry of that report grows nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastReport string `json:"lastReport,omitempty"`
}

// ToolHealth is what is known about one tool for one session, user, project, tenant or everybody. The
// narrowest row that says something counts for a caller.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=toolhealths,shortName=th,categories=agrajag
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.toolName`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`,description="Empty: the row exists only for a cooldown"
// +kubebuilder:printcolumn:name="Classification",type=string,JSONPath=`.status.lastDiagnosis.classification`
// +kubebuilder:printcolumn:name="Recovery",type=string,JSONPath=`.status.expectedRecoveryAt`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scope-Id",type=string,priority=1,JSONPath=`.spec.scopeId`
// +kubebuilder:printcolumn:name="Available",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Override",type=string,priority=1,JSONPath=`.spec.override.state`
// +kubebuilder:printcolumn:name="Hint",type=string,priority=1,JSONPath=`.status.lastDiagnosis.userActionHint`
type ToolHealth struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which tool the row is about, and for whom.
	// +required
	Spec ToolHealthSpec `json:"spec"`

	// status is what is known.
	// +optional
	Status ToolHealthStatus `json:"status,omitempty"`
}

// ToolHealthList is a list of ToolHealths.
//
// +kubebuilder:object:root=true
type ToolHealthList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ToolHealth `json:"items"`
}
