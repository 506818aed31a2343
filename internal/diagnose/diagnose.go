// Package diagnose finds out, with a model or the built-in diagnostician and a few probes, what a tool error means that
// the rules cannot decide, and turns the untrusted answer into changes of health rows by fixed rules.
//
// Engine.Run asks and probes; Decide, which is pure, says what follows. Nothing a model says takes effect but through
// Decide (design §5).
package diagnose

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Limits bound one diagnosis (specification §10).
type Limits struct {
	// MaxProbes bounds the probes that are sent: 0 to 6.
	MaxProbes int
	// MaxIterations bounds the turns whose tool calls are answered: 1 to 6. One turn that may still answer and one
	// that must can follow.
	MaxIterations int
	// TokenTarget is what a diagnosis should cost at most.
	TokenTarget int64
	// TokenCeiling ends a diagnosis: no turn begins that could cost more than is left of it.
	TokenCeiling int64
	// Deadline bounds the time of a diagnosis.
	Deadline time.Duration
	// MaxScope is the widest scope that a verdict may have.
	MaxScope v1alpha1.Scope
}

// Input is what is known when a diagnosis begins.
type Input struct {
	Job   *v1alpha1.DiagnosisJob
	Place tenancy.Place
	// Signature is the kind of error that is diagnosed; v1alpha1.SignatureRecheck where none was reported.
	Signature v1alpha1.ErrorSignature
	// Tool describes the tool. Nil: unknown, so it is diagnosed from history alone.
	Tool *v1alpha1.Tool
	// Rows are the caller's health rows from narrow to wide. Any may be nil.
	Rows []*v1alpha1.ToolHealth
	// Rules classify what probes meet.
	Rules  *classify.Rules
	Limits Limits
	// AI is where the model is configured that diagnoses. Nil: with the operator.
	AI *AI
	// Account is what the tenant may spend today. Nil: there is no budget.
	Account *budget.Account
	// MaxWait bounds estimates and cooldowns, as the store does. Zero, or more: health.MaxWait.
	MaxWait time.Duration
}

// Evidence is what one probe that was sent says about the tool, as far as a verdict may rest on it.
type Evidence struct {
	As v1alpha1.ProbeIdentity
	// Success and Failed are both false for a probe without credential that was asked for one, and for one whose own
	// input was refused or was the model's: neither says anything about the tool.
	Success, Failed bool
	// Challenged is true for that probe: it proves that the tool can be reached, and no more.
	Challenged bool
	// Refused says of a failed probe that the tool refused who called: the credential, the right or the allowance.
	Refused bool
	// Signature is the kind of error that a failed probe met.
	Signature v1alpha1.ErrorSignature
}

// Outcome is what a run found.
type Outcome struct {
	// Probes are all attempts to probe, at most v1alpha1.MaxProbeAudits.
	Probes []v1alpha1.ProbeAudit
	// Evidence holds one entry for each probe that was sent.
	Evidence []Evidence
	Usage    v1alpha1.Usage
	// Output is the untrusted verdict, if Fallback and Err are empty.
	Output Output
	// Fallback says why there is no usable verdict, so that the fallback applies (specification §5.2).
	Fallback string
	// Exhausted says that a daily budget is why.
	Exhausted bool
	// NotKept says that the account of the daily budgets could not be asked, or not be written, is why.
	NotKept bool
	// Ceiling says that the run's token ceiling is why.
	Ceiling bool
	// Unpaid says that a call could not be paid for, for a reason that says nothing about the tool: no state follows but
	// from a probe that failed. Exhausted and NotKept are such reasons, too.
	Unpaid bool
	// Err says why there is none at all: the model could not be asked, or time ran out. Nothing follows from such a run.
	Err error
}

// Engine runs diagnoses. It is safe for concurrent use.
type Engine struct {
	Prober      *probe.Prober
	Credentials probe.Credentials
	// Clock gives the time in what the model and the rules are told.
	Clock clock.PassiveClock
}

// RowChange is a change of one health row.
type RowChange struct {
	Key    health.Key
	Change health.Change
}

// Applied is what follows from a run.
type Applied struct {
	// Diagnosis is the verdict within its limits. Its classification is empty if the run failed.
	Diagnosis v1alpha1.Diagnosis
	// Rows are the changes, one for each row that is touched. Applied again they change nothing more.
	Rows []RowChange
}

// user returns the originating user, or "" where there is none.
func (in Input) user() string { return tenancy.User(string(in.Job.Spec.OriginatingUserID)) }

// scope returns the scope of the job; PROJECT, the API's default, where it is missing or none.
func (in Input) scope() v1alpha1.Scope {
	if in.Job.Spec.Scope.Width() < 0 {
		return v1alpha1.ScopeProject
	}
	return in.Job.Spec.Scope
}

// widest returns the widest scope that the verdict may have: the job's or the recipe's, whichever is narrower.
func (in Input) widest() v1alpha1.Scope {
	if limit := in.Limits.MaxScope; limit.Width() >= 0 {
		return narrower(limit, in.scope())
	}
	return in.scope()
}

// maxWait returns how far ahead an estimate may lie, and how long a cooldown may be.
func (in Input) maxWait() time.Duration {
	if in.MaxWait <= 0 || in.MaxWait > health.MaxWait {
		return health.MaxWait
	}
	return in.MaxWait
}

// row returns the caller's row of a scope; ok is false if the caller has none.
func (in Input) row(scope v1alpha1.Scope) (key health.Key, ok bool) {
	return health.KeyFor(in.Place, scope, string(in.Job.Spec.ToolName), in.user(), in.Job.Spec.OriginatingSessionID)
}
