package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Bounds of a reported error. With the webhook in place, what is longer is cut; without it, it is refused.
const (
	// MaxErrorBody bounds ToolError.Body, in characters.
	MaxErrorBody = 16384
	// MaxErrorMessage bounds ToolError.Message, in characters.
	MaxErrorMessage = 4096
	// MaxErrorHeaders bounds the number of ToolError.Headers.
	MaxErrorHeaders = 64
	// MaxHeaderValue bounds one header's value, in characters.
	MaxHeaderValue = 2048
	// MaxExceptionTypes bounds the cause chain (specification companion §2: 16 deep).
	MaxExceptionTypes = 16
	// MaxSignals bounds the later messages that a job remembers.
	MaxSignals = 10
	// MaxProbeAudits bounds the probes that a job records; it is the hard cap on probes.
	MaxProbeAudits = 6
)

// UserID identifies a user as Kubernetes does: the name that the API server knows.
//
// +kubebuilder:validation:MaxLength=256
type UserID string

// DiagnosisJobSpec is one error report, or one request to look again. It never changes.
//
// +kubebuilder:validation:XValidation:rule="self.trigger != 'tool_call_error' || has(self.error)",message="a tool_call_error needs error: say what the failed call answered"
// +kubebuilder:validation:XValidation:rule="self.scope != 'SESSION' || (has(self.originatingSessionId) && size(self.originatingSessionId) > 0)",message="scope SESSION needs originatingSessionId"
// +kubebuilder:validation:XValidation:rule="self.scope != 'USER' || (has(self.originatingUserId) && size(self.originatingUserId) > 0 && self.originatingUserId != '_system')",message="scope USER needs originatingUserId, and _system is no user"
type DiagnosisJobSpec struct {
	// toolName is the tool that was called.
	// +required
	ToolName ToolName `json:"toolName"`

	// scope is the widest scope that the outcome may have. TENANT and GLOBAL need a permission of their own.
	// +optional
	// +kubebuilder:default=PROJECT
	Scope Scope `json:"scope,omitempty"`

	// trigger says why the job exists.
	// +optional
	// +kubebuilder:default=tool_call_error
	Trigger Trigger `json:"trigger,omitempty"`

	// originatingUserId is the user for whom the tool was called. Default: nobody.
	// +optional
	OriginatingUserID UserID `json:"originatingUserId,omitempty"`

	// originatingSessionId is the session in which the tool was called.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	OriginatingSessionID string `json:"originatingSessionId,omitempty"`

	// originatingProcessId is the process or agent that called the tool.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	OriginatingProcessID string `json:"originatingProcessId,omitempty"`

	// error is what the failed call answered.
	// +optional
	Error *ToolError `json:"error,omitempty"`

	// note is a remark of the reporter.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	Note string `json:"note,omitempty"`

	// locale is the language, as in de or en-GB, in which the user is addressed.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$')`,message="must be a language tag such as de or en-GB"
	Locale string `json:"locale,omitempty"`

	// reporter is who made the report. The API server sets it to the requester; leave it out.
	// +optional
	Reporter UserID `json:"reporter,omitempty"`
}

// ToolError is what a failed tool call answered. Nothing is guessed: what is not stated is not known.
//
// +kubebuilder:validation:MinProperties=1
type ToolError struct {
	// httpStatus is the status of the HTTP answer. Absent: there was none.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=999
	HTTPStatus *int32 `json:"httpStatus,omitempty"`

	// headers are the headers of the HTTP answer.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) > 0 && size(name) <= 256)",message="a header's name must have 1 to 256 characters"
	Headers map[string]HeaderValue `json:"headers,omitempty"`

	// body is the body of the answer, or the result of the tool.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Body string `json:"body,omitempty"`

	// message is the text of the error as the caller's library gave it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// exceptionTypes are the type of the error and those of its causes, outermost first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ExceptionTypes []MatchText `json:"exceptionTypes,omitempty"`

	// errorCode is the code inside the answer: a JSON-RPC code, an errno, a vendor's word.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ErrorCode string `json:"errorCode,omitempty"`

	// host is the host that failed, where the error names one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// date is when the call failed. Default: the answer's Date header, else when the report arrived.
	// +optional
	Date *metav1.Time `json:"date,omitempty"`
}

// DiagnosisJobStatus is where the job stands and what it found.
type DiagnosisJobStatus struct {
	// phase is INIT while the job waits, RUNNING while it is diagnosed, CLOSED when it has ended.
	// +optional
	// +kubebuilder:default=INIT
	Phase Phase `json:"phase,omitempty"`

	// closeReason is DONE if the job reached a verdict, STALE if it ended without one.
	// +optional
	CloseReason CloseReason `json:"closeReason,omitempty"`

	// errorSignature is the kind of error that is diagnosed.
	// +optional
	ErrorSignature ErrorSignature `json:"errorSignature,omitempty"`

	// holder is the manager that runs the job.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Holder string `json:"holder,omitempty"`

	// attempts is how often the job was begun.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// startedAt is when the present attempt began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// closedAt is when the job ended.
	// +optional
	ClosedAt *metav1.Time `json:"closedAt,omitempty"`

	// signals are later reports of the same error with other messages.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Signals []JobSignal `json:"signals,omitempty"`

	// probes is what the latest attempt that probed anything probed, and what came of it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	Probes []ProbeAudit `json:"probes,omitempty"`

	// probeCount is how many probes ran, in all attempts together.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProbeCount int32 `json:"probeCount,omitempty"`

	// diagnosis is the verdict, after the limits on what a diagnosis may say.
	// +optional
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`

	// usage is what the job cost, all attempts together.
	// +optional
	Usage *Usage `json:"usage,omitempty"`

	// decision is the receipt of what was decided when a run itself failed, the latest if two did. A verdict may follow a
	// retry. Absent: no run failed.
	// +optional
	Decision *RunDecision `json:"decision,omitempty"`

	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Complete, Reconciling, Stalled and, after a diagnosis, WithinTokenTarget.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JobSignal is a later report of the same error.
type JobSignal struct {
	// at is when it arrived.
	// +required
	At metav1.Time `json:"at"`

	// message is what it said.
	// +required
	// +kubebuilder:validation:MaxLength=300
	Message string `json:"message"`
}

// ProbeIdentity says as whom a tool is probed.
//
// +kubebuilder:validation:Enum=user;system
type ProbeIdentity string

const (
	// ProbeAsUser probes with the credential of the job's originating user.
	ProbeAsUser ProbeIdentity = "user"
	// ProbeAsSystem probes with the tool's system credential, or with none.
	ProbeAsSystem ProbeIdentity = "system"
)

// ProbeAudit records one probe.
type ProbeAudit struct {
	// as says with whose credential the tool was probed.
	// +required
	As ProbeIdentity `json:"as"`

	// at is when the probe began.
	// +required
	At metav1.Time `json:"at"`

	// possible is False if the probe could not be made; response then says why.
	// +required
	Possible bool `json:"possible"`

	// refused says that the probe could not be made because of what the tool's server says of the tool: Unsafe, that it
	// writes or destroys; Input, that the Tool's own input does not fit. It is absent for any other reason.
	// +optional
	// +kubebuilder:validation:Enum=Unsafe;Input
	Refused string `json:"refused,omitempty"`

	// success says whether the answer was as expected.
	// +required
	Success bool `json:"success"`

	// durationMs is how long the probe took, in milliseconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DurationMs int64 `json:"durationMs,omitempty"`

	// statusCode is the HTTP status of the answer.
	// +optional
	StatusCode *int32 `json:"statusCode,omitempty"`

	// errorSignature is the kind of error that the probe met.
	// +optional
	ErrorSignature ErrorSignature `json:"errorSignature,omitempty"`

	// response is the beginning of a failed probe's answer, without secrets. A successful answer is never kept.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Response string `json:"response,omitempty"`
}

// Diagnosis is a verdict on a tool (specification §5.3).
type Diagnosis struct {
	// classification says what is wrong.
	// +required
	Classification Classification `json:"classification"`

	// scope says for whom.
	// +required
	Scope Scope `json:"scope"`

	// expectedRecoveryAt is when the tool is expected to work again. Absent: unknown.
	// +optional
	ExpectedRecoveryAt *metav1.Time `json:"expectedRecoveryAt,omitempty"`

	// humanNote says what was found.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	HumanNote string `json:"humanNote,omitempty"`

	// userActionHint says what the user can do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	UserActionHint string `json:"userActionHint,omitempty"`

	// cooldownAdjustments are further cooldowns that the verdict sets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	CooldownAdjustments []CooldownAdjustment `json:"cooldownAdjustments,omitempty"`
}

// CooldownAdjustment is a cooldown that a diagnosis sets.
type CooldownAdjustment struct {
	// errorSignature is the error that cools down.
	// +required
	ErrorSignature ErrorSignature `json:"errorSignature"`

	// userId confines the cooldown to the originating user. Absent: everybody in the diagnosis' scope.
	// +optional
	UserID UserID `json:"userId,omitempty"`

	// duration is an ISO-8601 duration.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration"`
}

// Usage is what a model cost.
type Usage struct {
	// turns is how often the model was asked.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Turns int32 `json:"turns,omitempty"`

	// promptTokens is how many tokens were sent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PromptTokens int64 `json:"promptTokens,omitempty"`

	// completionTokens is how many tokens came back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CompletionTokens int64 `json:"completionTokens,omitempty"`
}

// DiagnosisJob reports a failed tool call. A report that the rules decide is refused with the verdict and never
// stored; one that they cannot decide becomes a job that probes the tool and writes its health.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dj,categories=agrajag
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.toolName`
// +kubebuilder:printcolumn:name="Signature",type=string,JSONPath=`.status.errorSignature`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.diagnosis.classification`
// +kubebuilder:printcolumn:name="Probes",type=integer,JSONPath=`.status.probeCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Trigger",type=string,priority=1,JSONPath=`.spec.trigger`
// +kubebuilder:printcolumn:name="User",type=string,priority=1,JSONPath=`.spec.originatingUserId`
// +kubebuilder:printcolumn:name="Decision",type=string,priority=1,JSONPath=`.status.decision.action`
// +kubebuilder:printcolumn:name="Closed",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
type DiagnosisJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the report.
	// +required
	Spec DiagnosisJobSpec `json:"spec"`

	// status is where the job stands and what it found.
	// +optional
	// +kubebuilder:default={phase: INIT}
	Status DiagnosisJobStatus `json:"status,omitempty"`
}

// DiagnosisJobList is a list of DiagnosisJobs.
//
// +kubebuilder:object:root=true
type DiagnosisJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DiagnosisJob `json:"items"`
}
