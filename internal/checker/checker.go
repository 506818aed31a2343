// Package checker answers a reported tool error at once: by the rules, by what cools down, and by what is being
// diagnosed already. It asks no model and probes nothing.
package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// DefaultFreshnessWindow is how long a verdict spares the same unclear error another diagnosis (design §4).
const DefaultFreshnessWindow = 5 * time.Minute

// Report is a failed tool call, or a request to look again.
type Report struct {
	// ID identifies the report, so that answering it twice changes nothing the second time.
	ID string
	// Project is the namespace in which it was made.
	Project string
	// Tool is what the agent calls the tool.
	Tool string
	// Scope is the widest scope that the outcome may have. That the reporter may ask for it was checked before.
	Scope v1alpha1.Scope
	// Trigger says why there is a report.
	Trigger v1alpha1.Trigger
	// User and Session are for whom and in which session the tool was called; empty: nobody's, none.
	User, Session string
	// Error is what the call answered.
	Error v1alpha1.ToolError
	// Job is the job that carries the report, if it is stored already.
	Job *v1alpha1.DiagnosisJob
}

// ReportOf returns the report that a job carries.
func ReportOf(job *v1alpha1.DiagnosisJob) Report {
	r := Report{
		ID: string(job.UID), Project: job.Namespace, Tool: string(job.Spec.ToolName),
		Scope: job.Spec.Scope, Trigger: job.Spec.Trigger,
		User: tenancy.User(string(job.Spec.OriginatingUserID)), Session: job.Spec.OriginatingSessionID,
	}
	if job.Spec.Error != nil {
		r.Error = *job.Spec.Error
	}
	return r
}

// Mode says how far a check goes.
type Mode int

const (
	// Decide decides and writes what follows.
	Decide Mode = iota
	// DryRun decides and writes nothing.
	DryRun
	// ClassifyOnly asks the rules alone: no row and no job is read, nothing is written.
	ClassifyOnly
)

// Outcome is what a report comes to.
type Outcome string

const (
	// Pending means that a diagnosis is due and none is under way.
	Pending Outcome = "Pending"
	// Coalesced means that a diagnosis of the same error is under way, or has just ended.
	Coalesced Outcome = "Coalesced"
	// CoolingDown means that the same error was answered a little while ago and nothing is to be done yet.
	CoolingDown Outcome = "CoolingDown"
	// AlreadyDiagnosed means that a fresh verdict on the same error is in force.
	AlreadyDiagnosed Outcome = "AlreadyDiagnosed"
	// Classified means that a rule decided.
	Classified Outcome = "Classified"
)

// Decision is the answer to a report.
type Decision struct {
	Outcome Outcome
	// Verdict is what the rules say; its signature is "recheck" where no error was reported.
	Verdict classify.Verdict
	// Class is what the caller is to believe: the verdict's class, or that of the cooldown or diagnosis in force.
	Class v1alpha1.Classification
	// Key is the coalescing key of the report.
	Key tenancy.JobKey
	// Rows are the caller's rows from narrow to wide, nil where there is none, as they were before.
	Rows []*v1alpha1.ToolHealth
	// Health is what counts for the caller.
	Health health.View
	// RetryAfter is how long not to call again; zero: nothing is said about it.
	RetryAfter time.Duration
	// Job names the job that diagnoses the error, if one does, or that did lately: JobEnded.
	Job      string
	JobEnded bool
	// News says that the report says something that the job has not heard yet, which is added to it.
	News bool
	// Starts are the diagnoses of the row that other jobs began within the hour, newest first, where it was asked for.
	Starts []Start
	// Refused says why no diagnosis is begun for the report within the hour; nil: that is not why.
	Refused *Hour
	// Message tells the caller in a sentence or two what it is and what to do.
	Message string
	// Hint tells the user what to do, where the user can do something.
	Hint string
	// Scope is that of the row that a clear verdict is written to, or that answers: whom it concerns. Empty: no row's.
	Scope v1alpha1.Scope
	// Place is where the project's objects are kept.
	Place tenancy.Place
	// NotStored says why what follows is not kept, where the answer holds without it; nil: it is.
	NotStored error
	// ToolKnown says whether a Tool describes the tool. Without one it is never probed.
	ToolKnown bool
}

// DiagnosisPending reports whether a diagnosis is due or under way.
func (d *Decision) DiagnosisPending() bool {
	return d.Outcome == Pending || d.Outcome == Coalesced && !d.JobEnded
}

// Checker answers reports.
type Checker struct {
	// Cache reads objects that are watched.
	Cache client.Client
	// Live reads namespaces that the cache does not know yet.
	Live client.Reader
	// Cascade holds the rules.
	Cascade *Cascade
	// Store holds the rows.
	Store *health.Store
	// Clock tells the time.
	Clock clock.PassiveClock
	// OperatorNamespace keeps what concerns everybody.
	OperatorNamespace string
	// MaxWait bounds what callers are told to wait, as the Store bounds what is written. Zero: health.MaxWait.
	MaxWait time.Duration
	// FreshnessWindow is how long a verdict spares the same error another diagnosis; zero: not at all.
	FreshnessWindow time.Duration
	// PerRowPerHour is how many diagnoses of a row may begin within an hour; zero: as many as there are errors. See Hour.
	PerRowPerHour int

	signatures signatures
}

// ErrNotWritten says that a report is decided, and that what follows from it could not all be written. Decided again,
// the same report writes the rest, and nothing twice.
var ErrNotWritten = errors.New("not all that follows from the report could be written")

// Check answers a report. With an error nothing is decided, but with ErrNotWritten the decision holds.
func (c *Checker) Check(ctx context.Context, r Report, mode Mode) (Decision, error) {
	place, err := c.Place(ctx, r.Project)
	if err != nil {
		return Decision{}, err
	}
	tool, err := registry.Find(ctx, c.Cache, r.Project, r.Tool)
	if err != nil {
		return Decision{}, err
	}
	call := classify.Call{Tool: r.Tool, EndpointHost: registry.EndpointHost(tool)}
	verdict, err := c.classify(ctx, place, r, call)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Verdict: verdict, Class: verdict.Class, Key: keyOf(place, r, verdict.Signature), ToolKnown: tool != nil, Place: place}
	if mode == ClassifyOnly {
		d.Outcome = Classified
		return d, nil
	}
	now := c.Clock.Now()
	f := facts{now: now, report: r, window: c.FreshnessWindow, maxWait: c.MaxWait, perHour: c.PerRowPerHour}
	if f.rows, err = c.Store.Caller(ctx, health.CallerKeys(place, r.Tool, r.User, r.Session)); err != nil {
		return Decision{}, err
	}
	if f.jobs, err = c.jobs(ctx, place, r, call); err != nil {
		return Decision{}, err
	}
	decide(&d, f)
	if mode != Decide {
		return d, nil
	}
	err = c.act(ctx, d, f)
	switch {
	case d.Outcome == Coalesced: // A job that has not heard the message does no worse.
		d.NotStored, err = err, nil
	case health.IsUnstorable(err): // It costs the caller no answer.
		d.NotStored, err = err, nil
		d.Message = text.Plain(d.Message+". Not stored: "+d.NotStored.Error(), maxMessage)
	}
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	return d, nil
}

// classify asks the rules, unless the report asks to look again.
func (c *Checker) classify(ctx context.Context, place tenancy.Place, r Report, call classify.Call) (classify.Verdict, error) {
	if r.Trigger.IsRecheck() {
		return classify.Verdict{RuleID: string(v1alpha1.SignatureRecheck), Signature: v1alpha1.SignatureRecheck, Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionNone}, nil
	}
	rules, err := c.Cascade.Rules(ctx, place)
	if err != nil {
		return classify.Verdict{}, err
	}
	return rules.Classify(call, &r.Error, c.Clock.Now()), nil
}

// Place returns where a project's objects are kept.
func (c *Checker) Place(ctx context.Context, project string) (tenancy.Place, error) {
	namespace := &corev1.Namespace{}
	key := types.NamespacedName{Name: project}
	err := c.Cache.Get(ctx, key, namespace)
	if apierrors.IsNotFound(err) { // A report may come sooner than the watch.
		err = c.Live.Get(ctx, key, namespace)
	}
	if err != nil {
		return tenancy.Place{}, fmt.Errorf("read namespace %s: %w", project, err)
	}
	return tenancy.PlaceOf(namespace, c.OperatorNamespace), nil
}

// act writes what follows from a decision.
func (c *Checker) act(ctx context.Context, d Decision, f facts) error {
	switch d.Outcome {
	case Coalesced:
		if d.News {
			return c.signal(ctx, d, f)
		}
		return nil
	case Classified:
		return c.write(ctx, effects(d, f))
	default:
		return nil
	}
}
