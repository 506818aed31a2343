// Package rest holds what the REST API of the manager and its clients exchange, as plain Go types without dependencies.
//
// Names and values are those of the custom resources: a Report is the spec of a DiagnosisJob. docs: /openapi.yaml of
// the server.
package rest

import "time"

// MaxErrorBody is as much of an error's body as is worth sending, in bytes. It is one more than is looked at, so that it shows
// that there was more: the end of what was cut may be the half of a secret, which nobody can know and which is not stored.
const MaxErrorBody = 20<<10 + 1

// Report is a failed tool call (POST /v1/projects/{project}/errors). What is too long is cut, secrets are taken out.
type Report struct {
	// ToolName is what agents call the tool: 1 to 128 characters.
	ToolName string `json:"toolName"`
	// Scope is the widest that the outcome may have; empty: PROJECT. TENANT and GLOBAL need a permission of their own.
	Scope string `json:"scope,omitempty"`
	// OriginatingUserID is for whom the tool was called; empty: nobody. Another than the caller needs the verb
	// report-for-others.
	OriginatingUserID string `json:"originatingUserId,omitempty"`
	// OriginatingSessionID and OriginatingProcessID say in which session and by which process.
	OriginatingSessionID string `json:"originatingSessionId,omitempty"`
	OriginatingProcessID string `json:"originatingProcessId,omitempty"`
	// Error is what the call answered.
	Error *ToolError `json:"error,omitempty"`
	// Note is a remark of the reporter, at most 500 bytes.
	Note string `json:"note,omitempty"`
	// Locale is the language of the user, as in de or en-GB.
	Locale string `json:"locale,omitempty"`
}

// ToolError is what a failed tool call answered. Nothing is guessed: what is not stated is not known.
type ToolError struct {
	// HTTPStatus is the status of the HTTP answer; 0: there was none.
	HTTPStatus int32 `json:"httpStatus,omitempty"`
	// Headers are those of the HTTP answer.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the body of the answer or the result of the tool, Message the text of the error.
	Body    string `json:"body,omitempty"`
	Message string `json:"message,omitempty"`
	// ExceptionTypes are the type of the error and those of its causes, outermost first.
	ExceptionTypes []string `json:"exceptionTypes,omitempty"`
	// ErrorCode is the code inside the answer: a JSON-RPC code, an errno, a vendor's word.
	ErrorCode string `json:"errorCode,omitempty"`
	// Host is the host that failed, where the error names one.
	Host string `json:"host,omitempty"`
	// Date is when the call failed; nil: the answer's Date header, else when the report arrives.
	Date *time.Time `json:"date,omitempty"`
}

// Verdict is the answer to a Report.
type Verdict struct {
	// Outcome is Classified, CoolingDown, AlreadyDiagnosed, Coalesced or Pending.
	Outcome string `json:"outcome"`
	// RuleID is the rule that matched, Signature the kind of error it found.
	RuleID    string `json:"ruleId"`
	Signature string `json:"signature"`
	// Classification is what the caller is to believe.
	Classification string `json:"classification"`
	// State is what is in force for the caller after the report.
	State string `json:"state"`
	// Scope is that of the row which the report was written to or answered from: whom it concerns. Empty: no row's.
	Scope string `json:"scope,omitempty"`
	// Action is what the rule writes into the tool's health: none, markUnavailable or markDegraded.
	Action string `json:"action"`
	// RetryAfterSeconds is how long not to call again; 0: nothing is said about it.
	RetryAfterSeconds int64 `json:"retryAfterSeconds"`
	// DiagnosisPending says that a diagnosis is due or under way, as the job Job.
	DiagnosisPending bool   `json:"diagnosisPending"`
	Job              string `json:"job,omitempty"`
	// ToolKnown says whether a Tool describes the tool. Without one it is never probed.
	ToolKnown bool `json:"toolKnown"`
	// Stored is false if what follows could not be written yet; StoreError says why.
	Stored     bool   `json:"stored"`
	StoreError string `json:"storeError,omitempty"`
	// Message says to a model whether to retry, when, and what the user can do: plain, bounded, without secrets.
	Message string `json:"message"`
	// UserActionHint says to the user what to do, where the user can do something.
	UserActionHint string `json:"userActionHint,omitempty"`
}

// Success is a call that worked (POST /v1/projects/{project}/successes).
type Success struct {
	ToolName             string `json:"toolName"`
	OriginatingUserID    string `json:"originatingUserId,omitempty"`
	OriginatingSessionID string `json:"originatingSessionId,omitempty"`
	// ErrorSignature is that of the error which this call had before, as its Verdict said; empty: not known.
	ErrorSignature string `json:"errorSignature,omitempty"`
}

// Kinds of Event.
const (
	ConnectionClosed   = "ConnectionClosed"
	ConnectionReopened = "ConnectionReopened"
	SessionEnded       = "SessionEnded"
)

// Event is a change of the connection to tools, or the end of a session (POST /v1/projects/{project}/events).
type Event struct {
	// Type is ConnectionClosed, ConnectionReopened or SessionEnded.
	Type string `json:"type"`
	// ToolNames are those behind the connection, at most 256; none for SessionEnded.
	ToolNames []string `json:"toolNames,omitempty"`
	// OriginatingSessionID is the session that ended, or whose client's tools (client_…) these are.
	OriginatingSessionID string `json:"originatingSessionId,omitempty"`
	// OriginatingUserID is whose session it is, as in its Reports; empty: nobody's, and of SessionEnded whoever's. Another than
	// the caller needs the verb report-for-others, and so does whoever's.
	OriginatingUserID string `json:"originatingUserId,omitempty"`
	// Note says more, at most 200 bytes.
	Note string `json:"note,omitempty"`
}

// EventResult says what followed from an Event.
type EventResult struct {
	// Rows is how many health rows it is about, without those that could not be stored; StoreError says why not.
	Rows       int    `json:"rows"`
	StoreError string `json:"storeError,omitempty"`
}

// Health is what is in force for a caller of a tool.
type Health struct {
	ToolName string `json:"toolName"`
	// State is OK, DEGRADED or DOWN.
	State string `json:"state"`
	// Scope is that of the row that decides; empty: none says anything.
	Scope string `json:"scope,omitempty"`
	// Retesting says that the expected recovery has passed: the next real call is the test.
	Retesting bool `json:"retesting,omitempty"`
	// Overridden says that a person pinned the state.
	Overridden bool `json:"overridden,omitempty"`
	// Text is what is added to the tool's description for a model; empty: nothing.
	Text string `json:"text,omitempty"`
	// RetryAfterSeconds is how long the trouble is expected to last; 0: not known, or there is none.
	RetryAfterSeconds  int64      `json:"retryAfterSeconds"`
	Since              *time.Time `json:"since,omitempty"`
	LastCheckedAt      *time.Time `json:"lastCheckedAt,omitempty"`
	ExpectedRecoveryAt *time.Time `json:"expectedRecoveryAt,omitempty"`
	Classification     string     `json:"classification,omitempty"`
	Note               string     `json:"note,omitempty"`
	UserActionHint     string     `json:"userActionHint,omitempty"`
	// Cooldowns are the errors that are answered without being looked at again.
	Cooldowns []Cooldown `json:"cooldowns,omitempty"`
	// StoreError says, after a Success, why what it clears could not be stored; empty: it is, or nothing was to be cleared.
	StoreError string `json:"storeError,omitempty"`
}

// Cooldown is an error that is not looked at again for a while.
type Cooldown struct {
	Signature         string `json:"signature"`
	Scope             string `json:"scope"`
	Classification    string `json:"classification"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds"`
}

// HealthList is the answer to GET /v1/projects/{project}/tools: the tools that are described or have a row.
type HealthList struct {
	Items []Health `json:"items"`
}

// Recheck is the answer to a request to look again.
type Recheck struct {
	// Job is the job that looks.
	Job string `json:"job"`
	// Done says that it has ended; else ask for the tool's health later.
	Done bool `json:"done"`
	// Message says what was found, or what is going on.
	Message string `json:"message"`
	// Health is what is in force now.
	Health Health `json:"health"`
}

// Problem is an error (RFC 9457), of content type application/problem+json.
type Problem struct {
	// Type is a URI reference that identifies the kind of problem.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}
