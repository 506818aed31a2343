package checker

import (
	"fmt"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxMessage bounds what a caller is told, in bytes.
const maxMessage = 800

// describe completes a decision with what the caller is told: what it is, what to do, how long to wait, and which
// rule says so.
func describe(d *Decision, f facts) {
	tool := text.Plain(f.report.Tool, 128)
	d.Hint = hint(d)
	switch d.Outcome {
	case Classified:
		d.Message = fmt.Sprintf("%s: %s (rule %s%s%s)", d.Class, advice(d, tool), d.Verdict.RuleID, standing(d.RetryAfter), cut(d, f))
	case CoolingDown:
		d.Message = fmt.Sprintf("%s: %s (rule %s; %s cools down for another %s)", d.Class,
			advice(d, tool), d.Verdict.RuleID, d.Verdict.Signature, wait(d.RetryAfter))
		if said := original(f.report.Error); said != "" {
			d.Message += ". The tool said: " + said
		}
	case AlreadyDiagnosed:
		d.Message = diagnosedMessage(d, tool) + failure(d, f)
	case Coalesced:
		d.Message = coalescedMessage(d, f, tool) + failure(d, f)
	case Pending:
		d.Message = pendingMessage(d, f, tool)
	}
	d.Message = text.Plain(d.Message, maxMessage)
}

// pendingMessage tells that a diagnosis is due, and why.
func pendingMessage(d *Decision, f facts, tool string) string {
	if f.report.Trigger.IsRecheck() {
		return fmt.Sprintf("Diagnosis pending: %s is probed now; see ToolHealth for what is found", tool)
	}
	return fmt.Sprintf("Diagnosis pending: the error of %s is unclear (rule %s, signature %s): do not call it again for %s; see ToolHealth for what is found",
		tool, d.Verdict.RuleID, d.Verdict.Signature, wait(d.RetryAfter))
}

// standing says how long an answer holds, where it does.
func standing(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "; the same answer for " + wait(d)
}

// cut says that a stated wait was cut to the longest one that is allowed.
func cut(d *Decision, f facts) string {
	switch {
	case d.Verdict.Wait > f.maxWait:
		return fmt.Sprintf("; a wait of %s was asked for, cut to the maximum of %s", wait(d.Verdict.Wait), wait(f.maxWait))
	case d.Verdict.WaitNote != "":
		return "; " + d.Verdict.WaitNote
	default:
		return ""
	}
}

// coalescedMessage tells which job stands for the report.
func coalescedMessage(d *Decision, f facts, tool string) string {
	recheck := f.report.Trigger.IsRecheck()
	if d.Refused != nil && recheck {
		return d.Refused.Refusal(tool, d.Key.Scope, f.report.Project, f.now)
	}
	if d.Refused != nil {
		return d.Refused.Refusal(tool, d.Key.Scope, f.report.Project, f.now) + fmt.Sprintf(". Do not call it again for %s", wait(d.RetryAfter))
	}
	job := f.job(func(other jobFact) bool { return other.job.Name == d.Job })
	open := job != nil && isOpen(job)
	switch { // That a tool is to be left alone is for those whose call failed.
	case open && recheck:
		return fmt.Sprintf("%s is looked at already, as job %s: see what it finds", tool, d.Job)
	case open:
		return fmt.Sprintf("Diagnosis pending as job %s: do not call %s again before it ends; it usually takes less than %s", d.Job, tool, wait(d.RetryAfter))
	case recheck:
		return fmt.Sprintf("%s was looked at a moment ago, as job %s: ask again in %s%s", tool, d.Job, wait(d.RetryAfter), foundBy(job))
	default:
		return fmt.Sprintf("Diagnosed a moment ago as job %s: do not call %s again for %s%s", d.Job, tool, wait(d.RetryAfter), foundBy(job))
	}
}

// foundBy tells what a job found.
func foundBy(job *v1alpha1.DiagnosisJob) string {
	if job == nil || job.Status.Diagnosis == nil || job.Status.Diagnosis.HumanNote == "" {
		return ""
	}
	return ". Found: " + job.Status.Diagnosis.HumanNote
}

// diagnosedMessage tells what is in force instead of a new diagnosis.
func diagnosedMessage(d *Decision, tool string) string {
	if d.Job != "" {
		return fmt.Sprintf("Diagnosed a moment ago without a verdict (job %s says why): retry %s after %s", d.Job, tool, wait(d.RetryAfter))
	}
	note := ""
	if last := d.Health.Row.Status.LastDiagnosis; last != nil {
		note = ". Found: " + last.Note
	}
	return fmt.Sprintf("%s: %s is %s for scope %s: %s (rule %s%s)%s", d.Class, tool, d.Health.State, d.Health.Row.Spec.Scope,
		advice(d, tool), d.Verdict.RuleID, standing(d.RetryAfter), note)
}

// failure tells what went wrong with the run of the job that stands for the report, and what can be done about it.
func failure(d *Decision, f facts) string {
	job := f.job(func(other jobFact) bool { return other.job.Name == d.Job })
	if job == nil || job.Status.Decision == nil {
		return ""
	}
	failed := job.Status.Decision
	retry := failed.Action == v1alpha1.RunRetry
	switch {
	case retry && job.Status.Phase == v1alpha1.PhaseInit && failed.DueAt != nil:
		return fmt.Sprintf(". Its run failed and is tried once more at %s", failed.DueAt.UTC().Format(time.RFC3339))
	case !retry && !isOpen(job):
		return ". Its run failed: " + failed.Message
	default:
		return ""
	}
}

// advice says what to do about an error of a class.
func advice(d *Decision, tool string) string {
	switch d.Class {
	case v1alpha1.TechnicallyBroken:
		return fmt.Sprintf("%s does not work%s: plan without it for %s", tool, concerned(d.Scope), wait(d.RetryAfter))
	case v1alpha1.UserSpecificTechnical:
		return fmt.Sprintf("%s works, but not with this user's access: the user has to renew it; do not retry before", tool)
	case v1alpha1.UserPermission:
		return fmt.Sprintf("the user may not do this with %s: do not retry until access is granted", tool)
	case v1alpha1.UserInput:
		return fmt.Sprintf("%s works, the input was wrong: correct it and call again", tool)
	case v1alpha1.Intermittent:
		return fmt.Sprintf("%s may work again soon: retry after %s", tool, wait(d.RetryAfter))
	case v1alpha1.Working:
		return fmt.Sprintf("%s works: nothing is wrong with it", tool)
	default:
		return fmt.Sprintf("%s fails now and then for a reason that was not found: retry after %s", tool, wait(d.RetryAfter))
	}
}

// concerned says for whom an answer of a scope holds.
func concerned(scope v1alpha1.Scope) string {
	switch scope {
	case v1alpha1.ScopeSession:
		return " in this session"
	case v1alpha1.ScopeUser:
		return " for this user"
	case v1alpha1.ScopeProject:
		return " for anybody in this project"
	case v1alpha1.ScopeTenant:
		return " for anybody of this tenant"
	case v1alpha1.ScopeGlobal:
		return " for anybody"
	default: // It is kept in no row.
		return ""
	}
}

// hint tells the user what to do, where the user can do something.
func hint(d *Decision) string {
	if d.Outcome == AlreadyDiagnosed && d.Job == "" {
		return d.Health.Row.Status.LastDiagnosis.UserActionHint
	}
	switch d.Class {
	case v1alpha1.UserSpecificTechnical:
		return "Renew your sign-in or token for this tool."
	case v1alpha1.UserPermission:
		return "Ask the owner of this tool for access."
	default:
		return ""
	}
}

// original reflects what the tool said, as far as one line holds it.
func original(e v1alpha1.ToolError) string {
	said := signalMessage(e)
	if e.HTTPStatus != nil {
		said = fmt.Sprintf("HTTP %d %s", *e.HTTPStatus, said)
	}
	if said == "" && len(e.ExceptionTypes) > 0 {
		said = string(e.ExceptionTypes[0])
	}
	return said
}

// wait prints a duration as people say it: whole seconds, without zero parts. It is rounded up, as where it is told in
// seconds: who comes back that much later is not too early.
func wait(d time.Duration) string {
	if d < time.Second {
		return "a moment"
	}
	d = (d + time.Second - 1).Truncate(time.Second)
	parts := []struct {
		n    time.Duration
		unit string
	}{{d / time.Hour, "h"}, {d % time.Hour / time.Minute, "m"}, {d % time.Minute / time.Second, "s"}}
	out := ""
	for _, part := range parts {
		if part.n > 0 {
			out += fmt.Sprintf("%d%s", part.n, part.unit)
		}
	}
	return out
}
