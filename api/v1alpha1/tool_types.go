package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToolName is what agents call a tool. It may hold characters that an object name may not.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$')`,message="a tool name must begin and end with a visible character and hold no control characters"
type ToolName string

// URL is an absolute http or https address without user and password.
//
// +kubebuilder:validation:MinLength=8
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[^/?#@\s]+([/?#]\S*)?$')`,message="must be an address without user, password and white space, such as https://tools.example.com/v1"
type URL string

// HeaderValue is the value of one HTTP header.
//
// +kubebuilder:validation:MaxLength=2048
type HeaderValue string

// ToolSpec says what a tool is and what may be probed, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.probe) || !has(self.probe.allowModelInput) || !self.probe.allowModelInput || has(self.endpoint) && has(self.endpoint.mcp)",message="only an MCP tool has a schema that a model's arguments could be checked by: leave allowModelInput out, or use endpoint.mcp",fieldPath=".probe.allowModelInput"
// +kubebuilder:validation:XValidation:rule="!has(self.probe) || !has(self.probe.readOnlyCall) || has(self.endpoint)",message="readOnlyCall goes to the tool's own server: set endpoint too",fieldPath=".probe.readOnlyCall"
// +kubebuilder:validation:XValidation:rule="!has(self.probe) || !has(self.probe.readOnlyCall) || !has(self.endpoint) || has(self.probe.readOnlyCall.mcp) == has(self.endpoint.mcp)",message="readOnlyCall must be of the endpoint's kind: use readOnlyCall.mcp beside endpoint.mcp and readOnlyCall.http beside endpoint.http",fieldPath=".probe.readOnlyCall"
type ToolSpec struct {
	// toolName is what agents call the tool and what error reports name. Default: the object's name.
	// Of two Tools in a namespace with the same toolName the oldest counts.
	// +optional
	ToolName ToolName `json:"toolName,omitempty"`

	// endpoint says where the tool is. Without it the tool's errors are diagnosed from history alone.
	// +optional
	Endpoint *ToolEndpoint `json:"endpoint,omitempty"`

	// safety says whether calling the tool changes anything. A WRITE tool is never called by a probe.
	// +optional
	// +kubebuilder:default=WRITE
	Safety Safety `json:"safety,omitempty"`

	// probe says what a probe sends and what it expects.
	// +optional
	Probe *ToolProbe `json:"probe,omitempty"`

	// credentials says how a credential is sent, and which Secret holds the one of the system. A user's
	// credential is the Secret agrajag-user-<hash>, where <hash> is the first 12 hex digits of the
	// SHA-256 of the user id.
	// +optional
	Credentials *ToolCredentials `json:"credentials,omitempty"`

	// diagnosis set to Disabled keeps every diagnosis away from the tool; errors are still classified by rules.
	// +optional
	// +kubebuilder:default=Enabled
	Diagnosis DiagnosisMode `json:"diagnosis,omitempty"`
}

// ToolEndpoint says where a tool is.
//
// +kubebuilder:validation:XValidation:rule="has(self.mcp) != has(self.http)",message="set exactly one of mcp and http"
type ToolEndpoint struct {
	// mcp is a tool of an MCP server.
	// +optional
	MCP *MCPEndpoint `json:"mcp,omitempty"`

	// http is an HTTP API.
	// +optional
	HTTP *HTTPEndpoint `json:"http,omitempty"`
}

// MCPEndpoint is a tool of an MCP server that speaks streamable HTTP.
type MCPEndpoint struct {
	// url is the server's MCP endpoint.
	// +required
	URL URL `json:"url"`

	// tool is the name that the server itself gives the tool. Default: toolName.
	// +optional
	Tool ToolName `json:"tool,omitempty"`
}

// HTTPEndpoint is one request of an HTTP API.
type HTTPEndpoint struct {
	// url is the full address of the request.
	// +required
	URL URL `json:"url"`

	// method is the request's method.
	// +optional
	// +kubebuilder:default=GET
	// +kubebuilder:validation:Enum=GET;HEAD;OPTIONS;POST;PUT;PATCH;DELETE
	Method string `json:"method,omitempty"`

	// headers are sent with the request. Credentials do not belong here: see credentials.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) > 0 && size(name) <= 256)",message="a header's name must have 1 to 256 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(name, name.lowerAscii() in ['authorization', 'proxy-authorization', 'cookie'])",message="a Tool is no place for a secret: put the token into a Secret and name it in credentials"
	Headers map[string]HeaderValue `json:"headers,omitempty"`

	// body is sent with the request.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Body string `json:"body,omitempty"`
}

// ToolProbe says what a probe sends and what it expects.
type ToolProbe struct {
	// input holds the arguments of a probe: of the MCP tool, or the query parameters of an HTTP request.
	// A probe sends this and nothing else, unless allowModelInput is set; the failed call is never replayed. At
	// most 16 KiB as JSON.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:pruning:PreserveUnknownFields
	Input *apiextensionsv1.JSON `json:"input,omitempty"`

	// allowModelInput lets a model choose the arguments of a probe in the place of input. They are sent only if
	// they fit the input schema that the MCP server gives for the tool. Set it only if no arguments whatever make
	// the tool change something or tell what it should not.
	// +optional
	AllowModelInput bool `json:"allowModelInput,omitempty"`

	// timeoutSeconds bounds one probe.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// readOnlyCall is called in the tool's place, so that a WRITE tool can be probed.
	// +optional
	ReadOnlyCall *ReadOnlyCall `json:"readOnlyCall,omitempty"`

	// expect says when an answer counts as a success. Default: a 2xx status over HTTP, a result without
	// isError over MCP.
	// +optional
	Expect *ProbeExpectation `json:"expect,omitempty"`
}

// ReadOnlyCall is a call that changes nothing and goes the same way as the tool's own.
//
// +kubebuilder:validation:XValidation:rule="has(self.mcp) != has(self.http)",message="set exactly one of mcp and http"
type ReadOnlyCall struct {
	// mcp calls another tool of the same MCP server.
	// +optional
	MCP *MCPReadOnlyCall `json:"mcp,omitempty"`

	// http sends another request to the same host.
	// +optional
	HTTP *HTTPReadOnlyCall `json:"http,omitempty"`
}

// MCPReadOnlyCall is a tool of the same MCP server that changes nothing.
type MCPReadOnlyCall struct {
	// tool is the name that the server gives the tool.
	// +required
	Tool ToolName `json:"tool"`
}

// HTTPReadOnlyCall is a request to the same scheme, host and port that changes nothing.
type HTTPReadOnlyCall struct {
	// method is the request's method.
	// +optional
	// +kubebuilder:default=GET
	// +kubebuilder:validation:Enum=GET;HEAD;OPTIONS
	Method string `json:"method,omitempty"`

	// path replaces the path and query of the endpoint's url.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^/([^/\\\x00-\x20\x7f][^\\\x00-\x20\x7f]*)?$')`,message="must be a path on the endpoint's host such as /healthz?deep=1: it begins with a single / and holds no backslash, white space or control character"
	Path string `json:"path"`
}

// ProbeExpectation says when an answer to a probe counts as a success.
type ProbeExpectation struct {
	// httpStatusIn lists the HTTP statuses that count as a success.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=599
	HTTPStatusIn []int32 `json:"httpStatusIn,omitempty"`

	// bodyContains must stand in the answer, upper and lower case alike.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	BodyContains string `json:"bodyContains,omitempty"`
}

// ToolCredentials says how a credential is sent.
type ToolCredentials struct {
	// scheme stands before the token in the header's value. Empty sends the token alone.
	// +optional
	// +kubebuilder:default=Bearer
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9-]*$')`,message="must be a scheme such as Bearer: letters, digits and hyphens; the token itself belongs in a Secret"
	Scheme *string `json:"scheme,omitempty"`

	// header carries the credential.
	// +optional
	// +kubebuilder:default=Authorization
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9-]+$')`,message="must be the name of a header such as X-Api-Key: letters, digits and hyphens"
	Header string `json:"header,omitempty"`

	// system names the Secret of type tools.agrajag.dev/system-credential with which the tool is probed as
	// the system. Without it, that probe carries no credential.
	// +optional
	System *SecretName `json:"system,omitempty"`
}

// SecretName names a Secret in the same namespace.
type SecretName struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="must be the name of a Secret: lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
	Name string `json:"name"`
}

// ToolStatus says whether the Tool's configuration can be used.
type ToolStatus struct {
	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (can this configuration be used) and ProbeSafe (may a probe call something).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Tool is a tool that agents call: where it is, and what a diagnosis may do to find out whether it works.
// Its health is not here but in the ToolHealth of the same tool.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tl,categories=agrajag
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.toolName`,description="What agents call it; empty: the object's name"
// +kubebuilder:printcolumn:name="Safety",type=string,JSONPath=`.spec.safety`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Probe-Safe",type=string,JSONPath=`.status.conditions[?(@.type=="ProbeSafe")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the tool is and how it may be probed.
	// +required
	Spec ToolSpec `json:"spec"`

	// status says whether spec can be used.
	// +optional
	Status ToolStatus `json:"status,omitempty"`
}

// CalledAs returns the name that agents and error reports use for the tool.
func (t *Tool) CalledAs() string {
	if t.Spec.ToolName != "" {
		return string(t.Spec.ToolName)
	}
	return t.Name
}

// ToolList is a list of Tools.
//
// +kubebuilder:object:root=true
type ToolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tool `json:"items"`
}
