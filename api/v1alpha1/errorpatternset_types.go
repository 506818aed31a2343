package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MatchText is a piece of text that a selector looks for.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type MatchText string

// Substring is a piece of text that is looked for, upper and lower case alike. It has 4 to 256 bytes: the schema
// counts characters, the webhook bytes.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=256
type Substring string

// MatchToolName is what agents call a tool, as a selector names it.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type MatchToolName string

// HostMatch says which host failed.
//
// +kubebuilder:validation:Enum=endpoint;foreign;unknown
type HostMatch string

const (
	// HostEndpoint is the host of the tool's own endpoint. A host that is not known counts as it.
	HostEndpoint HostMatch = "endpoint"
	// HostForeign is another host than that of the tool's endpoint: one that the caller named.
	HostForeign HostMatch = "foreign"
	// HostUnknown is the host of a report that names none, or of a tool whose endpoint is not known.
	HostUnknown HostMatch = "unknown"
)

// PatternID identifies a rule within a layer.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=120
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')`,message="use letters, digits, '-', '_' and '.', with a letter or digit at both ends in the id of a rule"
type PatternID string

// ErrorPatternSetSpec holds rules in the specification's error-patterns.yaml format.
type ErrorPatternSetSpec struct {
	// patterns are tried in order; the first match decides. An entry with the id of a deeper layer replaces
	// that entry in its place; a new id is placed before the entry that `before` names, by default before
	// `fallback`.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Patterns []ErrorPattern `json:"patterns"`
}

// ErrorPattern is one rule: if a reported error matches, this is what it means.
type ErrorPattern struct {
	// id identifies the rule. It is unique within a layer.
	// +required
	ID PatternID `json:"id"`

	// match selects errors. All fields that are set must match; an empty match matches every error.
	// +required
	Match ErrorMatch `json:"match"`

	// signature names the kind of error. It is the key of cooldowns and of coalescing.
	// +required
	Signature ErrorSignature `json:"signature"`

	// classification is what the error means. UNCLEAR asks for a diagnosis.
	// +required
	Classification Classification `json:"classification"`

	// cooldown is how long the same error is answered without looking again: an ISO-8601 duration such as
	// PT5M, or header:<name> to take the wait that the answer's header states. Default: by classification.
	// No wait is longer than 24 hours.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(header:[A-Za-z0-9][-A-Za-z0-9_]{0,63}|P([0-9]{1,4}W|([0-9]{1,4}D)?(T([0-9]{1,5}H)?([0-9]{1,6}M)?([0-9]{1,8}(\.[0-9]{1,9})?S)?)?))$')`,message="must be an ISO-8601 duration of weeks, or of days, hours, minutes and seconds, such as PT30S, PT5M, PT24H or P7D, or header:<name> such as header:retry-after"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('header:') || !self.endsWith('T')",message="a duration must name at least one part after T, as in PT5M"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('header:') || self.matches('[1-9]')",message="a duration must be longer than zero; leave cooldown out for the default of the classification"
	Cooldown string `json:"cooldown,omitempty"`

	// fingerprint tells unrelated failures apart where the signature alone does not: it gets a suffix, 8 hex
	// digits that follow from the exception type and the message without numbers, ids, times and addresses.
	// +optional
	Fingerprint bool `json:"fingerprint,omitempty"`

	// healthAction says what is written into the tool's health at once. Default: none.
	// +optional
	HealthAction HealthAction `json:"healthAction,omitempty"`

	// locked tells future automatic maintenance to leave the rule alone. It is a marker, not a permission.
	// +optional
	Locked bool `json:"locked,omitempty"`

	// note says why the rule is right. It becomes the note of the health that the rule writes.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	Note string `json:"note,omitempty"`

	// before names the entry before which a new entry is placed. Default: fallback.
	// +optional
	Before PatternID `json:"before,omitempty"`
}

// ErrorMatch selects errors. All fields that are set must match; nothing is negated, an earlier rule does that.
type ErrorMatch struct {
	// toolName matches if the tool that was called has one of these names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ToolName []MatchToolName `json:"toolName,omitempty"`

	// httpStatus matches the HTTP status that the report states.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=999
	HTTPStatus *int32 `json:"httpStatus,omitempty"`

	// httpStatusRange matches statuses from the first to the second number, both included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=999
	// +kubebuilder:validation:XValidation:rule="self[0] <= self[1]",message="the first status of a range must not be above the second"
	HTTPStatusRange []int32 `json:"httpStatusRange,omitempty"`

	// httpStatusIn matches if the report states one of these HTTP statuses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=999
	HTTPStatusIn []int32 `json:"httpStatusIn,omitempty"`

	// host says which host failed: the tool's endpoint (also where the host is not known), a foreign one, or
	// an unknown one.
	// +optional
	Host HostMatch `json:"host,omitempty"`

	// exceptionType matches if any of these is the type of the error or of one of its causes, by full name or
	// by its last segment.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptionType []MatchText `json:"exceptionType,omitempty"`

	// errorCode matches the error code that the report states, or, where it states none, the one at
	// /error/code in a JSON body.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ErrorCode string `json:"errorCode,omitempty"`

	// errorCodeIn matches if any of these is the error code, as in errorCode.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	ErrorCodeIn []string `json:"errorCodeIn,omitempty"`

	// header matches if all of these hold for the headers of the answer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Header []HeaderMatch `json:"header,omitempty"`

	// jsonField matches if all of these hold for a body that is JSON, or a server-sent event whose data is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	JSONField []JSONFieldMatch `json:"jsonField,omitempty"`

	// bodyContains matches if any of these stands in the body, or in the message where there is no body;
	// upper and lower case alike.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	BodyContains []Substring `json:"bodyContains,omitempty"`

	// bodyContainsAll matches if all of these stand where bodyContains looks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	BodyContainsAll []Substring `json:"bodyContainsAll,omitempty"`

	// messageContains matches if any of these stands in the message; upper and lower case alike.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MessageContains []Substring `json:"messageContains,omitempty"`

	// messageContainsAll matches if all of these stand in the message; upper and lower case alike.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MessageContainsAll []Substring `json:"messageContainsAll,omitempty"`
}

// HeaderMatch says what must hold for one header of the answer: exactly one of equals, contains and present is
// set. Neither the value's surrounding white space nor the case of its letters of ASCII counts.
//
// +kubebuilder:validation:XValidation:rule="(has(self.equals) ? 1 : 0) + (has(self.contains) ? 1 : 0) + (has(self.present) ? 1 : 0) == 1",message="set exactly one of equals, contains and present"
type HeaderMatch struct {
	// name is the header's name, in upper or lower case.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-A-Za-z0-9_]*$`
	Name string `json:"name"`

	// equals is what the whole value must be, in upper or lower case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Equals string `json:"equals,omitempty"`

	// contains is what must stand in the value, in upper or lower case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Contains string `json:"contains,omitempty"`

	// present says whether the header must be there (true) or must not (false).
	// +optional
	Present *bool `json:"present,omitempty"`
}

// JSONFieldMatch says what must stand at one place of a JSON body.
type JSONFieldMatch struct {
	// pointer is the place, as in /error/code (RFC 6901).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])*)+$`
	Pointer string `json:"pointer"`

	// in lists the values of which one must stand there: a string, or a number, true, false or null as text.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	In []string `json:"in"`
}

// ErrorPatternSetStatus says which entries are in force.
type ErrorPatternSetStatus struct {
	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// entries is how many entries are in force.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Entries *int32 `json:"entries,omitempty"`

	// conditions hold Accepted, where False names by path the entries that are skipped, and Reachable, where
	// False names those that an earlier entry leaves nothing to match.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ErrorPatternSet adds to or replaces the rules that classify reported errors: in the operator's namespace for
// everybody, in a tenant's for its projects, in a project's for that project.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eps,categories=agrajag
// +kubebuilder:printcolumn:name="Entries",type=integer,JSONPath=`.status.entries`,description="Entries in force"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].message`
type ErrorPatternSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the rules.
	// +required
	Spec ErrorPatternSetSpec `json:"spec"`

	// status says which are in force.
	// +optional
	Status ErrorPatternSetStatus `json:"status,omitempty"`
}

// ErrorPatternSetList is a list of ErrorPatternSets.
//
// +kubebuilder:object:root=true
type ErrorPatternSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ErrorPatternSet `json:"items"`
}
