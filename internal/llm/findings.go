package llm

import (
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// The tools of a diagnosis (specification §6).
const (
	// ToolProbeAsUser probes the tool as the originating user and answers with a ProbeFinding.
	ToolProbeAsUser = "tool_probe_as_user"
	// ToolProbeAsSystem probes the tool as the system and answers with a ProbeFinding.
	ToolProbeAsSystem = "tool_probe_as_system"
	// ToolHealthRead answers with a HealthFinding.
	ToolHealthRead = "tool_health_read"
)

// ProbeFinding is what a probe tells the assistant, as JSON.
type ProbeFinding struct {
	As v1alpha1.ProbeIdentity `json:"as"`
	// Possible is false if the tool was not asked; Reason then says why.
	Possible   bool   `json:"possible"`
	Reason     string `json:"reason,omitempty"`
	Success    bool   `json:"success"`
	DurationMs int64  `json:"durationMs,omitempty"`
	StatusCode int    `json:"statusCode,omitempty"`
	// ErrorSignature and Classification are what the rules say about a failed probe.
	ErrorSignature v1alpha1.ErrorSignature `json:"errorSignature,omitempty"`
	Classification v1alpha1.Classification `json:"classification,omitempty"`
	// Refused says that the failure is about who called: the credential, a right or an allowance.
	Refused bool `json:"callerRefused,omitempty"`
	// AuthChallenge is true if the probe carried no credential and was asked for one: the tool was reached.
	AuthChallenge bool `json:"authChallenge,omitempty"`
	// Response is the beginning of a failed probe's answer, without secrets.
	Response string `json:"response,omitempty"`
	// Cut says that the answer was longer.
	Cut bool `json:"cut,omitempty"`
	// Error says why the call itself was refused.
	Error string `json:"error,omitempty"`
}

// HealthFinding is what is known about the tool, as JSON.
type HealthFinding struct {
	// Now is the time of the answer.
	Now      time.Time        `json:"now"`
	ToolName string           `json:"toolName"`
	Scope    v1alpha1.Scope   `json:"scope"`
	Trigger  v1alpha1.Trigger `json:"trigger"`
	// ErrorSignature is the kind of error that was reported.
	ErrorSignature v1alpha1.ErrorSignature `json:"errorSignature"`
	// Refused says that the reported error is about who called, as for a probe.
	Refused bool `json:"callerRefused,omitempty"`
	// OriginatingUserID is the user for whom the tool was called; empty: nobody.
	OriginatingUserID string `json:"originatingUserId,omitempty"`
	// Locale is the language in which the user is addressed; empty: English.
	Locale string `json:"locale,omitempty"`
	// ToolKnown says whether a Tool object describes the tool. Without one nothing can be probed.
	ToolKnown bool `json:"toolKnown"`
	// Probeable says whether the tool may be probed; NotProbeable why not.
	Probeable    bool   `json:"probeable"`
	NotProbeable string `json:"notProbeable,omitempty"`
	// ProbesOnlyRead says that the tool writes, so that probes call something that reads: their success proves that alone.
	ProbesOnlyRead bool `json:"probesOnlyRead,omitempty"`
	// Rows are the caller's health rows, from narrow to wide.
	Rows []RowFinding `json:"rows"`
	// Error says why the call itself was refused.
	Error string `json:"error,omitempty"`
}

// RowFinding is one health row.
type RowFinding struct {
	Scope              v1alpha1.Scope            `json:"scope"`
	State              v1alpha1.State            `json:"state,omitempty"`
	Since              *time.Time                `json:"since,omitempty"`
	ExpectedRecoveryAt *time.Time                `json:"expectedRecoveryAt,omitempty"`
	LastDiagnosis      *v1alpha1.HealthDiagnosis `json:"lastDiagnosis,omitempty"`
	// History is newest first.
	History   []v1alpha1.HealthHistoryEntry `json:"history,omitempty"`
	Cooldowns []v1alpha1.Cooldown           `json:"cooldowns,omitempty"`
}
