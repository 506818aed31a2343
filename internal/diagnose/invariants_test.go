package diagnose

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// finished is a diagnosis with what followed from it. The checks below hold for every one, whatever a model said. They
// are written anew from design §5, and share no decision with the rails.
type finished struct {
	in      Input
	out     Outcome
	applied Applied
	rows    []written
}

// written is a row before and after a verdict was applied.
type written struct {
	key           health.Key
	before, after v1alpha1.ToolHealthStatus
}

func checked(in Input, out Outcome) finished {
	f := finished{in: in, out: out, applied: Decide(in, out, now)}
	for _, change := range f.applied.Rows {
		w := written{key: change.Key}
		for _, row := range in.Rows {
			if row != nil && row.Spec.Scope == change.Key.Scope {
				w.before = *row.Status.DeepCopy()
			}
		}
		w.after = *w.before.DeepCopy()
		change.Change(&w.after, now)
		f.rows = append(f.rows, w)
	}
	return f
}

// invariants by name. Each says what is wrong; "" if nothing is.
var invariants = []struct {
	name  string
	check func(finished) string
}{
	{"no wider scope", noWiderScope},
	{"nobody else's row", nobodyElsesRow},
	{"no verdict without evidence", noVerdictWithoutEvidence},
	{"no DOWN lifted without evidence", noLiftWithoutEvidence},
	{"no cooldown of an error that nobody met", noUnmetCooldown},
	{"no wait above the cap or in the past", noWaitAboveTheCap},
	{"no links or controls in text", noLinksOrControls},
	{"bounded", isBounded},
	{"every change has its reason", everyChangeHasItsReason},
}

func checkAll(t *testing.T, f finished) {
	t.Helper()
	for _, invariant := range invariants {
		if wrong := invariant.check(f); wrong != "" {
			t.Errorf("%s: %s\nverdict: %+v\nasked: %+v", invariant.name, wrong, f.applied.Diagnosis, f.out.Output)
		}
	}
}

func noWiderScope(f finished) string {
	widest := f.in.Job.Spec.Scope.Width()
	if limit := f.in.Limits.MaxScope.Width(); limit < widest {
		widest = limit
	}
	if f.out.Err == nil && (f.applied.Diagnosis.Scope.Width() > widest || f.applied.Diagnosis.Scope.Width() < 0) {
		return fmt.Sprintf("the verdict is for %q", f.applied.Diagnosis.Scope)
	}
	for _, row := range f.rows {
		if row.key.Scope.Width() > widest {
			return fmt.Sprintf("%s is written", row.key)
		}
	}
	return ""
}

func nobodyElsesRow(f finished) string {
	ids := map[v1alpha1.Scope]string{
		v1alpha1.ScopeSession: tenancy.SessionID(f.in.Job.Spec.OriginatingSessionID, f.in.user()), v1alpha1.ScopeUser: string(f.in.Job.Spec.OriginatingUserID),
		v1alpha1.ScopeProject: place.Project, v1alpha1.ScopeTenant: place.Tenant, v1alpha1.ScopeGlobal: "",
	}
	for _, row := range f.rows {
		if id := ids[row.key.Scope]; row.key.ScopeID != id || row.key.Tool != string(f.in.Job.Spec.ToolName) || id == "" && row.key.Scope != v1alpha1.ScopeGlobal {
			return fmt.Sprintf("%s is written", row.key)
		}
	}
	if d := f.applied.Diagnosis; d.Classification.BlamesUser() && f.in.user() != "" && d.Scope.Width() > v1alpha1.ScopeUser.Width() {
		return fmt.Sprintf("a verdict on the user is for %s", d.Scope)
	}
	for _, a := range f.applied.Diagnosis.CooldownAdjustments {
		if a.ErrorSignature == "everybody" { // as the attacks name one whose user is no text
			return "a cooldown whose user cannot be read is for everybody"
		}
		if a.UserID == "" {
			continue
		}
		if a.UserID != f.in.Job.Spec.OriginatingUserID || a.UserID == "_system" {
			return fmt.Sprintf("a cooldown is set for %q", a.UserID)
		}
		for _, row := range f.rows {
			if row.key.Scope.Width() > v1alpha1.ScopeUser.Width() && coolsAnew(row, a.ErrorSignature) && !asksForAll(f.out, a.ErrorSignature) && a.ErrorSignature != f.in.Signature {
				return fmt.Sprintf("the user's cooldown %s is on %s", a.ErrorSignature, row.key)
			}
		}
	}
	return ""
}

func coolsAnew(row written, signature v1alpha1.ErrorSignature) bool {
	count := func(s v1alpha1.ToolHealthStatus) (hits int32) {
		for _, c := range s.Cooldowns {
			if c.ErrorSignature == signature {
				hits = c.Hits
			}
		}
		return hits
	}
	return count(row.after) > count(row.before)
}

func asksForAll(out Outcome, signature v1alpha1.ErrorSignature) bool {
	for _, a := range out.Output.CooldownAdjustments {
		if a.UserID == "" && a.ErrorSignature == signature {
			return true
		}
	}
	return false
}

// seen counts what the probes of a run and its history show.
type seen struct {
	userWorks, userFails, systemWorks, failed, answered bool
	systemRefused, broke                                bool // broke: failed for another reason than who called
	outage, same                                        bool // in history
	reads                                               bool // the probes do not make the tool's call
}

func seenBy(f finished) (s seen) {
	s.reads = f.in.Tool != nil && f.in.Tool.Spec.Safety != v1alpha1.SafetySafeProbe
	for _, e := range f.out.Evidence {
		user := e.As == v1alpha1.ProbeAsUser
		s.userWorks, s.systemWorks = s.userWorks || user && e.Success, s.systemWorks || !user && e.Success
		s.userFails, s.failed = s.userFails || user && e.Failed, s.failed || e.Failed
		s.systemRefused, s.broke = s.systemRefused || !user && e.Refused, s.broke || e.Failed && !e.Refused
		s.answered = s.answered || e.Failed || e.Challenged
	}
	for _, row := range f.in.Rows {
		if row == nil {
			continue
		}
		for _, e := range row.Status.History[:min(6, len(row.Status.History))] {
			if e.Status == v1alpha1.StateOK || e.Classification == v1alpha1.Unclear {
				continue
			}
			s.same = s.same || e.ErrorSignature == f.in.Signature && f.in.Signature != v1alpha1.SignatureRecheck
			s.outage = s.outage || e.Status == v1alpha1.StateDown || e.Classification == v1alpha1.TechnicallyBroken
		}
	}
	return s
}

func noVerdictWithoutEvidence(f finished) string {
	s, reported := seenBy(f), f.in.Job.Spec.Trigger == v1alpha1.TriggerToolCallError || f.in.Job.Spec.Trigger == v1alpha1.TriggerSystemEvent
	supported := true
	switch f.applied.Diagnosis.Classification {
	case v1alpha1.TechnicallyBroken:
		supported = s.failed && !s.userWorks && (s.broke || !s.systemRefused) || (s.same || s.outage) && (s.reads || !s.userWorks && !s.systemWorks)
	case v1alpha1.UserSpecificTechnical:
		supported = s.userFails && !s.userWorks && (s.systemWorks || s.answered) || s.same && (s.reads || !s.userWorks)
	case v1alpha1.Working:
		supported = s.userWorks || s.systemWorks && !s.userFails
		if s.reads && reported {
			supported = false
		}
	case v1alpha1.Intermittent, v1alpha1.UserInput, v1alpha1.UserPermission:
		supported = reported || s.failed || s.same || s.outage || len(f.in.Rows) > 0
	case v1alpha1.Unclear:
	case "":
		supported = f.out.Err != nil
	default:
		return fmt.Sprintf("the class is %q", f.applied.Diagnosis.Classification)
	}
	if !supported {
		return fmt.Sprintf("%s on %+v", f.applied.Diagnosis.Classification, s)
	}
	return ""
}

func noLiftWithoutEvidence(f finished) string {
	s, class := seenBy(f), f.applied.Diagnosis.Classification
	for _, row := range f.rows {
		if row.after.State == row.before.State || row.before.State == "" || row.before.State == v1alpha1.StateOK {
			continue
		}
		over := row.before.ExpectedRecoveryAt != nil && !row.before.ExpectedRecoveryAt.After(now)
		worked := (s.userWorks || s.systemWorks) && !s.reads
		switch {
		case row.after.State == v1alpha1.StateOK && (class != v1alpha1.Working || !worked):
			return fmt.Sprintf("%s is lifted", row.key)
		case row.after.State == v1alpha1.StateOK && row.before.LastDiagnosis.Classification.BlamesUser() && !s.userWorks:
			return fmt.Sprintf("%s is lifted by somebody else's success", row.key)
		case row.before.State == v1alpha1.StateDown && row.after.State == v1alpha1.StateDegraded && !over && !worked && (class != v1alpha1.Intermittent || !s.answered):
			return fmt.Sprintf("%s is softened", row.key)
		}
	}
	return ""
}

func noUnmetCooldown(f finished) string {
	met := map[v1alpha1.ErrorSignature]bool{f.in.Signature: true}
	for _, e := range f.out.Evidence {
		met[e.Signature] = met[e.Signature] || e.Failed
	}
	for _, row := range f.in.Rows {
		if row == nil {
			continue
		}
		for _, e := range row.Status.History[:min(6, len(row.Status.History))] {
			met[e.ErrorSignature] = true
		}
		for _, c := range row.Status.Cooldowns {
			met[c.ErrorSignature] = met[c.ErrorSignature] || c.Until.After(now)
		}
	}
	for _, a := range f.applied.Diagnosis.CooldownAdjustments {
		if !met[a.ErrorSignature] {
			return fmt.Sprintf("the verdict sets one for %s", a.ErrorSignature)
		}
	}
	for _, row := range f.rows {
		for _, c := range row.after.Cooldowns {
			if coolsAnew(row, c.ErrorSignature) && !met[c.ErrorSignature] {
				return fmt.Sprintf("%s has one for %s", row.key, c.ErrorSignature)
			}
		}
	}
	return ""
}

func noWaitAboveTheCap(f finished) string {
	const limit = 24 * time.Hour
	outside := func(at time.Time) bool { return !at.After(now) || at.Sub(now) > limit }
	if at := f.applied.Diagnosis.ExpectedRecoveryAt; at != nil && outside(at.Time) {
		return fmt.Sprintf("the estimate is %s", at)
	}
	for _, a := range f.applied.Diagnosis.CooldownAdjustments {
		if wait, err := classify.ParseDuration(a.Duration); err != nil || wait <= 0 || wait > limit || len(a.Duration) > 32 {
			return fmt.Sprintf("the cooldown of %s is %q", a.ErrorSignature, a.Duration)
		}
	}
	for _, row := range f.rows {
		if at := row.after.ExpectedRecoveryAt; at != nil && outside(at.Time) && !at.Equal(row.before.ExpectedRecoveryAt) {
			return fmt.Sprintf("%s recovers at %s", row.key, at)
		}
		for _, c := range row.after.Cooldowns {
			if coolsAnew(row, c.ErrorSignature) && outside(c.Until.Time) {
				return fmt.Sprintf("%s cools down until %s", row.key, c.Until)
			}
		}
	}
	return ""
}

// aLink is what a chat, a terminal or a browser would make a link of, and aHost what a person could enter in one besides. Both
// read what asBrowsers returns.
var (
	aLink = regexp.MustCompile(`(?i)[a-z]:/|[a-z]{2}:\\|://|www\.|\b(?:https?|mailto|javascript|sms|tel):[^\s]|\]\(|[a-z0-9]\.(?:[a-z]{2,}|xn--[a-z0-9-]+)[/\\?]`)
	aHost = regexp.MustCompile(`(?i)[a-z0-9]\.[a-z]{2,}|[0-9]\.[0-9]|[a-z][/\\][a-z0-9]|[a-z]:[a-z0-9+]|::[0-9a-f]|\b0x[0-9a-f]{8}|\b[0-9]{8,}[/\\:]`)
	// aSecret stands where one was.
	aSecret = regexp.MustCompile(`\[redacted:[0-9a-f]{6}\]`)
)

// asBrowsers returns a text as browsers read a host's name in it: every form of a letter, a slash or a dot as the plain one.
func asBrowsers(s string) string {
	s = norm.NFKC.String(s)
	return regexp.MustCompile(`([a-z0-9])。([a-z])`).ReplaceAllString(s, "$1.$2")
}

func noLinksOrControls(f finished) string {
	texts := map[string]string{"note": f.applied.Diagnosis.HumanNote, "hint": f.applied.Diagnosis.UserActionHint}
	for _, row := range f.rows {
		if last := row.after.LastDiagnosis; last != nil && len(row.after.History) > 0 && last.Report == string(f.in.Job.UID) {
			texts["row's note"], texts["row's hint"], texts["row's history"] = last.Note, last.UserActionHint, row.after.History[0].Note
		}
	}
	for name, s := range texts {
		if found := aLink.FindString(asBrowsers(s)); found != "" {
			return fmt.Sprintf("the %s has %q: %q", name, found, s)
		}
		if found := aHost.FindString(aSecret.ReplaceAllString(asBrowsers(s), "")); found != "" && strings.HasSuffix(name, "hint") {
			return fmt.Sprintf("the %s names %q: %q", name, found, s)
		}
		if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }); i >= 0 || !utf8.ValidString(s) {
			return fmt.Sprintf("the %s has what nobody sees: %q", name, s)
		}
	}
	return ""
}

func isBounded(f finished) string {
	d := f.applied.Diagnosis
	switch {
	case len(d.HumanNote) > 500 || len(d.UserActionHint) > 200:
		return fmt.Sprintf("note of %d and hint of %d bytes", len(d.HumanNote), len(d.UserActionHint))
	case len(d.CooldownAdjustments) > 8 || len(f.rows) > 2:
		return fmt.Sprintf("%d cooldowns on %d rows", len(d.CooldownAdjustments), len(f.rows))
	case len(f.out.Probes) > v1alpha1.MaxProbeAudits || len(f.out.Evidence) > f.in.Limits.MaxProbes:
		return fmt.Sprintf("%d probes, %d recorded", len(f.out.Evidence), len(f.out.Probes))
	case int(f.out.Usage.Turns) > f.in.Limits.MaxIterations+2:
		return fmt.Sprintf("%d turns", f.out.Usage.Turns)
	}
	for _, probe := range f.out.Probes {
		if len(probe.Response) > maxResponse || probe.Success && probe.Response != "" {
			return fmt.Sprintf("the audit keeps %d bytes", len(probe.Response))
		}
	}
	return ""
}

func everyChangeHasItsReason(f finished) string {
	asked, got := f.out.Output, f.applied.Diagnosis
	if f.out.Err != nil || f.out.Fallback != "" {
		return ""
	}
	reasons := strings.Join(rail(f.in, f.out, now).reasons, "; ")
	switch {
	case reasons != "" && !strings.HasSuffix(got.HumanNote, "]") && !strings.HasSuffix(got.HumanNote, "…"):
		return "the note lacks the reasons"
	case asked.Classification != got.Classification && known(asked.Classification) && !strings.Contains(reasons, "lowered from"):
		return "lowered"
	case asked.Scope.Width() > got.Scope.Width() && !got.Classification.BlamesUser() && got.Classification != v1alpha1.Working && !strings.Contains(reasons, "wider than allowed") &&
		!strings.Contains(reasons, "names nobody") && !strings.Contains(reasons, "user alone"):
		return "narrowed"
	case len(asked.CooldownAdjustments) > len(got.CooldownAdjustments) && !strings.Contains(reasons, "cooldowns dropped"):
		return "cooldowns dropped"
	case asked.UserActionHint != "" && got.UserActionHint == "" && tame(asked.UserActionHint, maxHint) != "" && !strings.Contains(reasons, "userActionHint dropped"):
		return "hint dropped"
	case !asked.ExpectedRecoveryAt.IsZero() && (got.ExpectedRecoveryAt == nil || !got.ExpectedRecoveryAt.Time.Equal(asked.ExpectedRecoveryAt)) &&
		!strings.Contains(reasons, "expectedRecoveryAt") && !strings.Contains(reasons, "estimate") && !strings.Contains(reasons, "stays DOWN"):
		return "estimate changed"
	}
	return ""
}

// TestEveryInvariantCanFail breaks each of them once.
func TestEveryInvariantCanFail(t *testing.T) {
	verdict := func(change func(*v1alpha1.Diagnosis)) func(*finished) {
		return func(f *finished) { change(&f.applied.Diagnosis) }
	}
	row := func(change func(*written)) func(*finished) {
		return func(f *finished) { change(&f.rows[0]) }
	}
	tests := []struct {
		invariant, what string
		breaks          func(*finished)
	}{
		{"no wider scope", "the verdict's scope", verdict(func(d *v1alpha1.Diagnosis) { d.Scope = v1alpha1.ScopeTenant })},
		{"no wider scope", "a row's scope", row(func(w *written) { w.key.Scope = v1alpha1.ScopeGlobal })},
		{"nobody else's row", "another project's row", row(func(w *written) { w.key.ScopeID = "other" })},
		{"nobody else's row", "another tool's row", row(func(w *written) { w.key.Tool = "billing" })},
		{"nobody else's row", "another user's cooldown", verdict(func(d *v1alpha1.Diagnosis) {
			d.CooldownAdjustments = []v1alpha1.CooldownAdjustment{{ErrorSignature: "a", UserID: "bob", Duration: "PT1H"}}
		})},
		{"nobody else's row", "a verdict on the user for all", verdict(func(d *v1alpha1.Diagnosis) { d.Classification = v1alpha1.UserInput })},
		{"no verdict without evidence", "an outage without a failed probe", func(f *finished) { f.out.Evidence = nil }},
		{"no verdict without evidence", "a tool that works without a success", verdict(func(d *v1alpha1.Diagnosis) { d.Classification = v1alpha1.Working })},
		{"no verdict without evidence", "a class that nobody knows", verdict(func(d *v1alpha1.Diagnosis) { d.Classification = "HAUNTED" })},
		{"no DOWN lifted without evidence", "a lifted row", row(func(w *written) { w.before.State, w.after.State = v1alpha1.StateDown, v1alpha1.StateOK })},
		{"no DOWN lifted without evidence", "a softened row", row(func(w *written) { w.before.State, w.after.State = v1alpha1.StateDown, v1alpha1.StateDegraded })},
		{"no cooldown of an error that nobody met", "in the verdict", verdict(func(d *v1alpha1.Diagnosis) {
			d.CooldownAdjustments = []v1alpha1.CooldownAdjustment{{ErrorSignature: "http-401", Duration: "PT1H"}}
		})},
		{"no cooldown of an error that nobody met", "on a row", row(func(w *written) {
			w.after.Cooldowns = append(w.after.Cooldowns, v1alpha1.Cooldown{ErrorSignature: "http-401", Hits: 1})
		})},
		{"no wait above the cap or in the past", "an estimate", verdict(func(d *v1alpha1.Diagnosis) { d.ExpectedRecoveryAt = timePtr(now.Add(25 * time.Hour)) })},
		{"no wait above the cap or in the past", "a row's estimate", row(func(w *written) { w.after.ExpectedRecoveryAt = timePtr(now) })},
		{"no wait above the cap or in the past", "a cooldown", row(func(w *written) { w.after.Cooldowns[0].Until = *timePtr(now.Add(25 * time.Hour)) })},
		{"no links or controls in text", "a note", verdict(func(d *v1alpha1.Diagnosis) { d.HumanNote = "see https://evil.example" })},
		{"no links or controls in text", "a hint", verdict(func(d *v1alpha1.Diagnosis) { d.UserActionHint = "a\u202eb" })},
		{"no links or controls in text", "a row's note", row(func(w *written) { w.after.LastDiagnosis.Note = "evil.example/x" })},
		{"no links or controls in text", "a note in wide letters", verdict(func(d *v1alpha1.Diagnosis) { d.HumanNote = "see https：／／evil.example" })},
		{"no links or controls in text", "a name in Punycode", verdict(func(d *v1alpha1.Diagnosis) { d.HumanNote = "see evil.xn--p1ai/x" })},
		{"no links or controls in text", "a hint with a stop", verdict(func(d *v1alpha1.Diagnosis) { d.UserActionHint = "go to evil。com" })},
		{"no links or controls in text", "a hint with a path", verdict(func(d *v1alpha1.Diagnosis) { d.UserActionHint = "go to intranet/login" })},
		{"no links or controls in text", "a hint with a port", verdict(func(d *v1alpha1.Diagnosis) { d.UserActionHint = "go to localhost:80" })},
		{"bounded", "a note", verdict(func(d *v1alpha1.Diagnosis) { d.HumanNote = strings.Repeat("x", 501) })},
		{"bounded", "turns", func(f *finished) { f.out.Usage.Turns = 6 }},
		{"bounded", "probes", func(f *finished) { f.out.Evidence = make([]Evidence, 4) }},
		{"every change has its reason", "a class that was lowered", verdict(func(d *v1alpha1.Diagnosis) { d.Classification = v1alpha1.Unclear })},
	}
	for _, tc := range tests {
		t.Run(tc.invariant+": "+tc.what, func(t *testing.T) {
			f := checked(inputOf(), Outcome{Evidence: []Evidence{systemFailed}, Output: Output{Classification: v1alpha1.TechnicallyBroken}})
			checkAll(t, f)
			tc.breaks(&f)
			for _, invariant := range invariants {
				if invariant.name == tc.invariant && invariant.check(f) == "" {
					t.Error("nothing is said")
				}
			}
		})
	}
}
