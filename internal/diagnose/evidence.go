package diagnose

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
)

// evidence sums up the probes of a run.
type evidence struct {
	failed                                  bool
	broke                                   bool // a probe failed for another reason than who called
	userWorks, userFails, userRefused       bool // refused: the failure is about who called
	systemWorks, systemFails, systemRefused bool
	challenged                              bool
	signatures                              []v1alpha1.ErrorSignature // of the probes that failed
	// onlyReads says that no probe makes the call that agents make: its success proves the read side alone.
	onlyReads bool
}

func sumUp(in Input, list []Evidence) evidence {
	sum := evidence{onlyReads: in.probesOnlyRead()}
	for _, e := range list {
		refused := e.Failed && e.Refused
		sum.failed, sum.broke = sum.failed || e.Failed, sum.broke || e.Failed && !e.Refused
		sum.challenged = sum.challenged || e.Challenged
		if e.Failed {
			sum.signatures = append(sum.signatures, e.Signature)
		}
		if e.As == v1alpha1.ProbeAsUser {
			sum.userWorks, sum.userFails = sum.userWorks || e.Success, sum.userFails || e.Failed
			sum.userRefused = sum.userRefused || refused
			continue
		}
		sum.systemWorks, sum.systemFails = sum.systemWorks || e.Success, sum.systemFails || e.Failed
		sum.systemRefused = sum.systemRefused || refused
	}
	return sum
}

// probesOnlyRead reports whether the tool writes, so that probes call something else of it that reads.
func (in Input) probesOnlyRead() bool {
	return in.Tool != nil && in.Tool.Spec.Safety != v1alpha1.SafetySafeProbe
}

// refuses reports whether an error is about who called: a credential, a right or an allowance. Rules name such errors in
// many ways, so that the class decides, and the status where the class says nothing. A status 403 of a rate limit or of a
// challenge to robots has a class of its own.
func refuses(class v1alpha1.Classification, status int) bool {
	switch class {
	case v1alpha1.UserSpecificTechnical, v1alpha1.UserPermission:
		return true
	case v1alpha1.Unclear:
		return status == http.StatusUnauthorized || status == http.StatusForbidden
	default:
		return false
	}
}

// reportsRefusal reports whether the reported error is one about who called.
func (in Input) reportsRefusal() bool {
	e := in.Job.Spec.Error
	if e == nil {
		return false
	}
	status := 0
	if e.HTTPStatus != nil {
		status = int(*e.HTTPStatus)
	}
	return refuses(in.classify(*e, in.Job.CreationTimestamp.Time).Class, status)
}

// classify returns what the rules say about an error of the tool. The time decides a stated wait alone.
func (in Input) classify(e v1alpha1.ToolError, at time.Time) classify.Verdict {
	return in.Rules.Classify(classify.Call{Tool: string(in.Job.Spec.ToolName), EndpointHost: registry.EndpointHost(in.Tool)}, &e, at)
}

func (e evidence) worked() bool { return e.userWorks || e.systemWorks }

// contradicts reports whether a probe made the call that agents make, with success.
func (e evidence) contradicts() bool { return e.worked() && !e.onlyReads }

// onlyUser reports whether the probes show trouble for the user and none for others.
func (e evidence) onlyUser() bool {
	return e.userFails && !e.userWorks && !e.systemFails && (e.systemWorks || e.userRefused)
}

// outage reports whether the probes show trouble of the tool itself. That credentials are refused, the system's own or
// both, shows none: a tool that refuses answers, and two can have expired as one can.
func (e evidence) outage() bool {
	onlyRefused := e.systemRefused && !e.broke
	return e.failed && !e.userWorks && !onlyRefused
}

// hasReport reports whether the job is about a call that failed: it is evidence of trouble, if not of what kind.
func (in Input) hasReport() bool { return !in.Job.Spec.Trigger.IsRecheck() }

// unsupported returns why the evidence does not support the class; "" if it does.
func (v *verdict) unsupported() string {
	switch v.class {
	case v1alpha1.Working:
		return v.notWorking()
	case v1alpha1.TechnicallyBroken:
		return v.notBroken()
	case v1alpha1.UserSpecificTechnical:
		return v.notUserSpecific()
	case v1alpha1.Intermittent, v1alpha1.UserPermission, v1alpha1.UserInput:
		if !v.in.hasReport() && !v.evidence.failed && !v.remembers(v.isAnyTrouble) {
			return "nobody reported a failure, and no probe met one"
		}
	}
	return ""
}

func (v *verdict) notWorking() string {
	switch e := v.evidence; {
	case e.userFails && !e.userWorks:
		return "the probe as the user failed"
	case !e.worked():
		return "no probe succeeded"
	case e.onlyReads && v.in.hasReport():
		return "the probes only read, and the call that failed writes"
	}
	return ""
}

func (v *verdict) notBroken() string {
	switch e := v.evidence; {
	case e.outage():
		return ""
	case e.contradicts():
		return e.success()
	case v.remembers(v.isOutage):
		return ""
	case e.systemRefused && e.userRefused:
		return "both credentials were refused, and nothing else failed: the tool answers"
	case e.systemRefused:
		return "only the system's credential was refused"
	}
	return "no probe failed, and no history matches"
}

func (v *verdict) notUserSpecific() string {
	switch e := v.evidence; {
	case e.userWorks && !e.onlyReads:
		return e.success()
	case e.userFails && !e.userWorks && (e.systemWorks || e.challenged && e.userRefused):
		return ""
	case v.remembers(v.isSame):
		return ""
	}
	return "no probe failed as the user beside one that succeeded, and no history matches"
}

// success says which probe contradicts a verdict.
func (e evidence) success() string {
	if e.userWorks {
		return "the probe as the user succeeded"
	}
	return "the probe as the system succeeded"
}

// lowered returns the class of a verdict whose own is not supported: trouble, where some was met, else none at all.
func (v *verdict) lowered() v1alpha1.Classification {
	blames := v.class == v1alpha1.TechnicallyBroken || v.class == v1alpha1.UserSpecificTechnical
	if v.evidence.failed || blames && v.in.hasReport() {
		return v1alpha1.Intermittent
	}
	return v1alpha1.Unclear
}

// remembers reports whether the history that the model saw holds an entry that matches and is proof of something: a
// rule met it, or a diagnosis that had proof. What a diagnosis could not decide, or was lowered to, proves nothing,
// else a claim would become true by being made twice.
func (v *verdict) remembers(match func(v1alpha1.HealthHistoryEntry) bool) bool {
	for _, row := range v.in.Rows {
		if row == nil {
			continue
		}
		for _, entry := range lately(row) {
			guessed := entry.Classification == v1alpha1.Unclear ||
				entry.Classification == v1alpha1.Intermittent && strings.HasPrefix(entry.By, health.ByEngine(""))
			if entry.Status != v1alpha1.StateOK && !guessed && match(entry) {
				return true
			}
		}
	}
	return false
}

// isSame matches the reported trouble.
func (v *verdict) isSame(e v1alpha1.HealthHistoryEntry) bool {
	return e.ErrorSignature == v.in.Signature && v.in.Signature != v1alpha1.SignatureRecheck
}

// isOutage matches the reported trouble, or any outage.
func (v *verdict) isOutage(e v1alpha1.HealthHistoryEntry) bool {
	return v.isSame(e) || e.Status == v1alpha1.StateDown || e.Classification == v1alpha1.TechnicallyBroken
}

// isAnyTrouble matches any trouble, except what an earlier question found.
func (v *verdict) isAnyTrouble(e v1alpha1.HealthHistoryEntry) bool {
	return e.ErrorSignature != v1alpha1.SignatureRecheck || v.isOutage(e)
}

// holdClass lowers a class that the evidence does not support. What else the verdict asked for rested on that class.
func holdClass(v *verdict) {
	if !known(v.class) {
		v.class = v1alpha1.Unclear
	}
	reason := v.unsupported()
	if reason == "" {
		return
	}
	v.because(fmt.Sprintf("lowered from %s: %s", v.class, reason))
	v.class = v.lowered()
	if !v.asked.ExpectedRecoveryAt.IsZero() || len(v.asked.CooldownAdjustments) > 0 {
		v.because("its estimate and cooldowns dropped with it")
	}
	v.asked.ExpectedRecoveryAt, v.asked.CooldownAdjustments = noTime, nil
}
