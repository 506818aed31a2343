package llm

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// firstOutage is how long a new outage is expected to last: as long as its error cools down (specification
	// companion §1). After that the next call is the test; without an estimate nobody would ever call again.
	firstOutage = 5 * time.Minute
	// knownOutage is how long an error that took the tool down before is expected to last this time.
	knownOutage = 30 * time.Minute
	// knownGlitch is how long trouble that comes and goes within an hour is expected to last.
	knownGlitch = 10 * time.Minute
)

// verdict is the contract of specification §5.3, as a model would write it.
type verdict struct {
	Classification     v1alpha1.Classification `json:"classification"`
	Scope              v1alpha1.Scope          `json:"scope,omitempty"`
	ExpectedRecoveryAt *string                 `json:"expectedRecoveryAt"`
	HumanNote          string                  `json:"humanNote"`
	UserActionHint     *string                 `json:"userActionHint"`
}

// verdict returns a verdict with the note, and with what the probes found behind it. recovery 0: unknown.
func (f findings) verdict(class v1alpha1.Classification, scope v1alpha1.Scope, recovery time.Duration, note string) verdict {
	v := verdict{Classification: class, Scope: scope, HumanNote: note + " (" + f.summary() + ")."}
	if recovery > 0 && !f.health.Now.IsZero() {
		at := f.health.Now.Add(recovery).UTC().Format(time.RFC3339)
		v.ExpectedRecoveryAt = &at
	}
	return v
}

// decide follows the guidelines of specification §10.
func (f findings) decide() verdict {
	user, system := outcomeOf(f.user), outcomeOf(f.system)
	switch {
	case user == fails && system != fails:
		return f.onlyUserFails(system)
	case system == fails && user != works:
		return f.everyoneFails()
	case user == works || system == works:
		return f.someoneSucceeds(user)
	default:
		return f.nothingProbed(system)
	}
}

// onlyUserFails decides where the user's probe failed and no other did.
func (f findings) onlyUserFails(system outcome) verdict {
	refused := f.user.Refused
	switch class := f.user.Classification; {
	case class == v1alpha1.UserPermission && system == works:
		return f.verdict(class, v1alpha1.ScopeUser, 0, "The tool works, but this user may not use it")
	case class == v1alpha1.Intermittent || class == v1alpha1.UserInput || class == v1alpha1.UserPermission:
		return f.failing(class, v1alpha1.ScopeUser)
	case system == works || system == challenges && refused:
		v := f.verdict(v1alpha1.UserSpecificTechnical, v1alpha1.ScopeUser, 0, "The tool fails for this user alone")
		// What is paid for is no matter of the token.
		spent := f.user.StatusCode == http.StatusPaymentRequired || f.user.StatusCode == http.StatusTooManyRequests
		hint := f.hint(refused && !spent)
		v.UserActionHint = &hint
		return v
	case refused:
		return f.verdict(v1alpha1.Unclear, v1alpha1.ScopeUser, 0, "The user's credential was refused, and nothing shows whether others are")
	default:
		return f.failing(class, f.health.Scope)
	}
}

// hints say what the user can do, by language and by whether the credential was refused (specification §10: German where
// the user prefers that, else English).
var hints = map[string]map[bool]string{
	"en": {
		true:  "Renew your sign-in or token for %s; others can use it.",
		false: "%s fails with your account only: check your account there; others can use it.",
	},
	"de": {
		true:  "Bitte Anmeldung oder Token für %s erneuern; für andere funktioniert es.",
		false: "%s scheitert nur mit deinem Konto: bitte das Konto dort prüfen; für andere funktioniert es.",
	},
}

// hint tells the user what to do.
func (f findings) hint(auth bool) string {
	language, _, _ := strings.Cut(strings.ToLower(f.health.Locale), "-")
	known, ok := hints[language]
	if !ok {
		known = hints["en"]
	}
	return fmt.Sprintf(known[auth], f.health.ToolName)
}

// everyoneFails decides where the system's probe failed and the user's did not succeed.
func (f findings) everyoneFails() verdict {
	// Bad credentials say nothing about those of others, and the tool answers.
	switch {
	case f.system.Refused && outcomeOf(f.user) != fails:
		return f.verdict(v1alpha1.Unclear, f.health.Scope, 0, "The system's own credential was refused, which proves no outage")
	case f.system.Refused && f.user.Refused:
		return f.verdict(v1alpha1.Unclear, f.health.Scope, 0, "The tool answers and refuses the user's credential and the system's, which proves no outage: check both")
	}
	return f.failing(f.system.Classification, f.health.Scope)
}

// failing decides from what the rules say about a failed probe.
func (f findings) failing(class v1alpha1.Classification, scope v1alpha1.Scope) verdict {
	switch class {
	case v1alpha1.Intermittent:
		return f.verdict(v1alpha1.Intermittent, scope, 0, "The tool asks to be called again later")
	case v1alpha1.UserInput, v1alpha1.UserPermission:
		// The probe's own input or permission is at fault, which proves no outage.
		return f.verdict(v1alpha1.Unclear, scope, 0, "The probe itself was refused, so that it proves nothing")
	default:
		if f.wasDown() {
			return f.verdict(v1alpha1.TechnicallyBroken, scope, knownOutage, "The tool fails as it did before")
		}
		return f.verdict(v1alpha1.TechnicallyBroken, scope, firstOutage, "The tool fails")
	}
}

// someoneSucceeds decides where a probe succeeded and none contradicts it.
func (f findings) someoneSucceeds(user outcome) verdict {
	switch {
	case f.health.OriginatingUserID != "" && user == notProbed && f.health.Refused:
		return f.verdict(v1alpha1.Unclear, v1alpha1.ScopeUser, 0,
			"The tool works, but the report is about the user's credential, which could not be tried")
	case f.health.ProbesOnlyRead && !f.health.Trigger.IsRecheck():
		return f.verdict(v1alpha1.Unclear, f.health.Scope, 0, "The tool can be read, but the call that failed writes")
	case f.sameLately() >= 2:
		return f.verdict(v1alpha1.Intermittent, f.health.Scope, knownGlitch, "The tool works now, but failed repeatedly within the hour")
	default:
		return f.verdict(v1alpha1.Working, f.health.Scope, 0, "The tool works")
	}
}

// nothingProbed decides from history, where no probe says whether the tool works.
func (f findings) nothingProbed(system outcome) verdict {
	note := "Nothing could be probed"
	if system == challenges {
		note = "The tool is reachable, and nothing more could be probed"
	}
	switch {
	case f.sameLately() > 0:
		return f.verdict(v1alpha1.Intermittent, f.health.Scope, knownGlitch, note+"; the same error was met within the hour")
	case f.health.OriginatingUserID != "" && f.health.Refused:
		return f.verdict(v1alpha1.Unclear, v1alpha1.ScopeUser, 0, note+"; the report is about the user's credential")
	default:
		return f.verdict(v1alpha1.Unclear, f.health.Scope, 0, note)
	}
}

// summary says in a few words what each probe found, as in "as alice: HTTP 401, as system: works".
func (f findings) summary() string {
	var parts []string
	if f.user != nil {
		name := f.health.OriginatingUserID
		if name == "" {
			name = "user"
		}
		parts = append(parts, "as "+name+": "+describe(f.user))
	}
	if f.system != nil {
		parts = append(parts, "as system: "+describe(f.system))
	}
	switch {
	case len(parts) == 0:
		return "no probe was made"
	case len(parts) == 2 && f.user.Reason != "" && f.user.Reason == f.system.Reason:
		return f.user.Reason // What stands in the way of both is said once.
	default:
		return strings.Join(parts, ", ")
	}
}

func describe(p *ProbeFinding) string {
	switch outcomeOf(p) {
	case works:
		return "works"
	case challenges:
		return "reachable, asks for a credential"
	case notProbed:
		return "not possible: " + p.Reason
	}
	// A tool can fail behind a status that says that all is well.
	if p.StatusCode >= 400 {
		return fmt.Sprintf("HTTP %d", p.StatusCode)
	}
	return "fails, " + string(p.ErrorSignature)
}
