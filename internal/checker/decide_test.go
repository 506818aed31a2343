package checker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

var (
	t0    = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)
	place = tenancy.Place{Project: "shop", Tenant: "acme", Operator: "agrajag-system"}
)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: t0.Add(d)} }

// The verdicts of the bundled rules that the tests are about.
var (
	unclear503   = classify.Verdict{RuleID: "http-5xx", Signature: "http-5xx", Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionNone}
	permission   = classify.Verdict{RuleID: "http-403", Signature: "http-403", Class: v1alpha1.UserPermission, Wait: 24 * time.Hour, Action: v1alpha1.HealthActionNone}
	intermittent = classify.Verdict{RuleID: "http-429", Signature: "http-429", Class: v1alpha1.Intermittent, Action: v1alpha1.HealthActionNone}
	refused      = classify.Verdict{RuleID: "connect-refused", Signature: "connect-refused", Class: v1alpha1.TechnicallyBroken,
		Wait: 5 * time.Minute, Action: v1alpha1.HealthActionMarkUnavailable, Note: "nothing listens"}
	worked = classify.Verdict{RuleID: "up-again", Signature: "http-5xx", Class: v1alpha1.Working, Action: v1alpha1.HealthActionNone}
	again  = classify.Verdict{RuleID: "recheck", Signature: v1alpha1.SignatureRecheck, Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionNone}
)

// report is alice's, of the tool search.
func report(edits ...func(*Report)) Report {
	r := Report{ID: "r1", Project: "shop", Tool: "search", Scope: v1alpha1.ScopeProject, Trigger: v1alpha1.TriggerToolCallError, User: "alice", Session: "s1"}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

// rowOf returns alice's row of a scope, changed at t0.
func rowOf(scope v1alpha1.Scope, changes ...health.Change) *v1alpha1.ToolHealth {
	key, _ := health.KeyFor(place, scope, "search", "alice", "s1")
	row := &v1alpha1.ToolHealth{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name()},
		Spec:       v1alpha1.ToolHealthSpec{ToolName: "search", Scope: key.Scope, ScopeID: key.ScopeID},
	}
	health.All(changes...)(&row.Status, t0)
	return row
}

// cools begins a cooldown of a minute at t0.
func cools(signature v1alpha1.ErrorSignature, report string) health.Change {
	return health.Cool(health.Trigger{Signature: signature, Class: v1alpha1.UserInput, Wait: time.Minute, Report: report})
}

// found writes a diagnosis of DOWN at t0.
func found(signature v1alpha1.ErrorSignature, recovery time.Duration) health.Change {
	f := health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, Signature: signature,
		Note: "the host is gone", UserActionHint: "Ask the operator.", By: health.ByEngine("diag-1"), Report: "r0"}
	if recovery != 0 {
		f.RecoveryAt = t0.Add(recovery)
	}
	return health.Mark(f)
}

// jobOf returns a job whose key is that of a report with a signature, created at t0.
func jobOf(name string, r Report, signature v1alpha1.ErrorSignature, edits ...func(*v1alpha1.DiagnosisJob)) jobFact {
	job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: *at(0)}}
	job.Status.Phase = v1alpha1.PhaseInit
	for _, edit := range edits {
		edit(job)
	}
	return jobFact{job: job, key: keyOf(place, r, signature)}
}

// diagnosed closes a job at t0 with a verdict of its own.
func diagnosed(class v1alpha1.Classification) func(*v1alpha1.DiagnosisJob) {
	return func(job *v1alpha1.DiagnosisJob) {
		job.Status.Phase, job.Status.ClosedAt, job.Status.Attempts = v1alpha1.PhaseClosed, at(0), 1
		job.Status.Diagnosis = &v1alpha1.Diagnosis{Classification: class}
	}
}

// failed closes a job at t0 that ran and found no verdict.
func failed(job *v1alpha1.DiagnosisJob) {
	job.Status.Phase, job.Status.ClosedAt, job.Status.Attempts = v1alpha1.PhaseClosed, at(0), 2
}

// stalled closes a job at t0 that could not be run, for want of a usable recipe.
func stalled(job *v1alpha1.DiagnosisJob) {
	job.Status.Phase, job.Status.ClosedAt = v1alpha1.PhaseClosed, at(0)
	job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRecipeInvalid}}
}

// unpaid closes a job at t0 that was not run because a budget was used up.
func unpaid(job *v1alpha1.DiagnosisJob) { unclearFor(job, v1alpha1.ReasonBudgetExhausted) }

// unaccounted closes a job at t0 whose run ended because the account of the budgets could not be asked.
func unaccounted(job *v1alpha1.DiagnosisJob) {
	unclearFor(job, v1alpha1.ReasonBudgetNotKept)
	job.Status.Attempts = 1
}

func unclearFor(job *v1alpha1.DiagnosisJob, reason string) {
	job.Status.Phase, job.Status.ClosedAt = v1alpha1.PhaseClosed, at(0)
	job.Status.Diagnosis = &v1alpha1.Diagnosis{Classification: v1alpha1.Unclear}
	job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: reason}}
}

// yielded closes a job at t0 that was left to another one.
func yielded(job *v1alpha1.DiagnosisJob) {
	job.Status.Phase, job.Status.ClosedAt = v1alpha1.PhaseClosed, at(0)
	job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCoalesced}}
}

// own makes a report one of a stored job.
func own(name string, created time.Duration) func(*Report) {
	return func(r *Report) {
		r.Job = &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: *at(created)}}
	}
}

// decisionCase is a decision and what it is made from.
type decisionCase struct {
	name    string
	verdict classify.Verdict
	report  Report
	rows    []*v1alpha1.ToolHealth
	jobs    []jobFact
	after   time.Duration // since t0
	window  time.Duration
	want    want
}

// want is the part of a decision that the tables compare.
type want struct {
	Outcome    Outcome
	Class      v1alpha1.Classification
	RetryAfter time.Duration
	Job        string
}

func (tc decisionCase) run(t *testing.T) {
	d := Decision{Verdict: tc.verdict, Class: tc.verdict.Class, Key: keyOf(place, tc.report, tc.verdict.Signature), Place: place}
	decide(&d, facts{now: t0.Add(tc.after), report: tc.report, rows: tc.rows, jobs: tc.jobs, window: tc.window})
	got := want{d.Outcome, d.Class, d.RetryAfter, d.Job}
	if diff := cmp.Diff(tc.want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.Message == "" {
		t.Error("the caller is told nothing")
	}
}

func TestAnErrorUnderACooldownIsReflected(t *testing.T) {
	cooling := want{Outcome: CoolingDown, Class: v1alpha1.UserInput, RetryAfter: 30 * time.Second}
	var cases []decisionCase
	for i, scope := range v1alpha1.Scopes() {
		rows := make([]*v1alpha1.ToolHealth, 5)
		rows[i] = rowOf(scope, cools("http-5xx", "r0"))
		cases = append(cases, decisionCase{name: fmt.Sprintf("a cooldown on the caller's %s row counts", scope),
			verdict: unclear503, report: report(), rows: rows, after: 30 * time.Second, want: cooling})
	}
	project := []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, cools("http-5xx", "r0"))}
	pending := want{Outcome: Pending, Class: v1alpha1.Unclear, RetryAfter: justClosed}
	broken := func(v classify.Verdict) classify.Verdict { v.Signature = "http-5xx"; return v }
	for _, tc := range append(cases,
		decisionCase{name: "a clear class under a cooldown is not written again", verdict: broken(refused), report: report(), rows: project,
			after: 30 * time.Second, want: cooling},
		decisionCase{name: "the last moment of a cooldown counts", verdict: unclear503, report: report(), rows: project,
			after: time.Minute - time.Nanosecond, want: want{Outcome: CoolingDown, Class: v1alpha1.UserInput, RetryAfter: time.Nanosecond}},
		decisionCase{name: "a cooldown that ends now has ended", verdict: unclear503, report: report(), rows: project, after: time.Minute, want: pending},
		decisionCase{name: "the cooldown of another error does not count", verdict: intermittent, report: report(), rows: project,
			want: want{Outcome: Classified, Class: v1alpha1.Intermittent, RetryAfter: 30 * time.Second}},
		decisionCase{name: "a report that is answered again is not cooled down by itself", verdict: broken(intermittent),
			report: report(func(r *Report) { r.ID = "r0" }), rows: project, after: 10 * time.Second,
			want: want{Outcome: Classified, Class: v1alpha1.Intermittent, RetryAfter: 50 * time.Second}},
		decisionCase{name: "but by a cooldown of somebody else's report on another row it is", verdict: broken(permission),
			report: report(func(r *Report) { r.ID = "r0" }), after: 30 * time.Second,
			rows: []*v1alpha1.ToolHealth{nil, rowOf(v1alpha1.ScopeUser, cools("http-5xx", "r0")), rowOf(v1alpha1.ScopeProject, cools("http-5xx", "r9"))}, want: cooling},
		decisionCase{name: "a report without an id does not pass a cooldown without one", verdict: unclear503,
			report: report(func(r *Report) { r.ID = "" }), rows: []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeSession, cools("http-5xx", ""))},
			after: 30 * time.Second, want: cooling},
		decisionCase{name: "a cooldown comes before the job that runs", verdict: unclear503, report: report(), rows: project,
			jobs: []jobFact{jobOf("open", report(), "http-5xx")}, after: 30 * time.Second, want: cooling},
		decisionCase{name: "a success is no error that cools down", verdict: worked, report: report(), rows: project,
			after: 30 * time.Second, want: want{Outcome: Classified, Class: v1alpha1.Working}},
		decisionCase{name: "a request to look again ignores cooldowns", verdict: again, after: 30 * time.Second,
			report: report(func(r *Report) { r.Trigger = v1alpha1.TriggerUserRequest }),
			rows:   []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, cools(v1alpha1.SignatureRecheck, "r0"))}, want: want{Outcome: Pending, Class: v1alpha1.Unclear}},
	) {
		t.Run(tc.name, tc.run)
	}
}

func TestAClearVerdictDecides(t *testing.T) {
	marking := unclear503
	marking.Action = v1alpha1.HealthActionMarkDegraded
	thrice := func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		for i := range 2 {
			health.Cool(health.Trigger{Signature: "http-429", Class: v1alpha1.Intermittent, Report: fmt.Sprint(i)})(status, now)
		}
		return true
	}
	for _, tc := range []decisionCase{
		{name: "a permission error waits as long as its rule says", verdict: permission, report: report(),
			want: want{Outcome: Classified, Class: v1alpha1.UserPermission, RetryAfter: 24 * time.Hour}},
		{name: "a class without a stated wait gets its default", verdict: intermittent, report: report(),
			want: want{Outcome: Classified, Class: v1alpha1.Intermittent, RetryAfter: 30 * time.Second}},
		{name: "a repeat is told the longer wait that it gets", verdict: intermittent, report: report(), after: 10 * time.Minute,
			rows: []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, thrice)},
			want: want{Outcome: Classified, Class: v1alpha1.Intermittent, RetryAfter: 8 * time.Minute}},
		{name: "the wait of another row grows nothing", verdict: intermittent, report: report(), after: 10 * time.Minute,
			rows: []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeSession, thrice)},
			want: want{Outcome: Classified, Class: v1alpha1.Intermittent, RetryAfter: 30 * time.Second}},
		{name: "a clear class needs no job, and joins none", verdict: refused, report: report(), jobs: []jobFact{jobOf("open", report(), "connect-refused")},
			want: want{Outcome: Classified, Class: v1alpha1.TechnicallyBroken, RetryAfter: 5 * time.Minute}},
		{name: "an unclear class whose rule writes a state is decided", verdict: marking, report: report(),
			want: want{Outcome: Classified, Class: v1alpha1.Unclear, RetryAfter: 30 * time.Second}},
		{name: "an unclear class without one is not", verdict: unclear503, report: report(), want: want{Outcome: Pending, Class: v1alpha1.Unclear, RetryAfter: justClosed}},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestOneFaultIsOneJob(t *testing.T) {
	bob := report(func(r *Report) { r.User = "bob" })
	inTenant := report(func(r *Report) { r.Scope = v1alpha1.ScopeTenant })
	open, pending := jobOf("open", report(), "http-5xx"), want{Outcome: Pending, Class: v1alpha1.Unclear, RetryAfter: justClosed}
	into := func(name string, wait time.Duration) want {
		return want{Outcome: Coalesced, Class: v1alpha1.Unclear, RetryAfter: wait, Job: name}
	}
	running := func(job *v1alpha1.DiagnosisJob) { job.Status.Phase = v1alpha1.PhaseRunning }
	for _, tc := range []decisionCase{
		{name: "a job that waits stands for the report", verdict: unclear503, report: report(), jobs: []jobFact{open}, want: into("open", 30*time.Second)},
		{name: "so does one that runs, however long", verdict: unclear503, report: report(), after: time.Hour,
			jobs: []jobFact{jobOf("runs", report(), "http-5xx", running)}, want: into("runs", 30*time.Second)},
		{name: "another user's job is another fault", verdict: unclear503, report: bob, jobs: []jobFact{open}, want: pending},
		{name: "so is a job of another scope", verdict: unclear503, report: inTenant, jobs: []jobFact{open}, want: pending},
		{name: "so is a job of another error", verdict: unclear503, report: report(), jobs: []jobFact{jobOf("other", report(), "http-404")}, want: pending},
		{name: "a job that just closed still counts", verdict: unclear503, report: report(), after: 30*time.Second - time.Millisecond,
			jobs: []jobFact{jobOf("was", report(), "http-5xx", diagnosed(v1alpha1.Intermittent))}, want: into("was", time.Millisecond)},
		{name: "after 30 seconds it does not", verdict: unclear503, report: report(), after: 30 * time.Second,
			jobs: []jobFact{jobOf("was", report(), "http-5xx", diagnosed(v1alpha1.Intermittent))}, want: pending},
		{name: "one that found the tool working does not, or a new outage would be missed", verdict: unclear503, report: report(), after: time.Second,
			jobs: []jobFact{jobOf("was", report(), "http-5xx", diagnosed(v1alpha1.Working))}, want: pending},
		{name: "one that was left to another says nothing", verdict: unclear503, report: report(), after: time.Second,
			jobs: []jobFact{jobOf("younger", report(), "http-5xx", yielded), jobOf("was", report(), "http-5xx", diagnosed(v1alpha1.Working))}, want: pending},
		{name: "one that is open goes before one that just closed", verdict: unclear503, report: report(), after: time.Second,
			jobs: []jobFact{jobOf("was", report(), "http-5xx", failed), open}, want: into("open", 30*time.Second)},
		{name: "the younger of two jobs yields", verdict: unclear503, report: report(own("younger", time.Second)), jobs: []jobFact{open}, want: into("open", 30*time.Second)},
		{name: "the older does not", verdict: unclear503, report: report(own("older", -time.Second)), jobs: []jobFact{open}, want: pending},
		{name: "of two of one second the name decides", verdict: unclear503, report: report(own("zebra", 0)), jobs: []jobFact{open}, want: into("open", 30*time.Second)},
		{name: "so that exactly one yields", verdict: unclear503, report: report(own("ape", 0)), jobs: []jobFact{open}, want: pending},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestAFreshVerdictSparesADiagnosis(t *testing.T) {
	const window = 5 * time.Minute
	pending := want{Outcome: Pending, Class: v1alpha1.Unclear, RetryAfter: justClosed}
	fresh := func(wait time.Duration) want {
		return want{Outcome: AlreadyDiagnosed, Class: v1alpha1.TechnicallyBroken, RetryAfter: wait}
	}
	project := func(changes ...health.Change) []*v1alpha1.ToolHealth {
		return []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, changes...)}
	}
	works := health.Mark(health.Finding{State: v1alpha1.StateOK, Classification: v1alpha1.Working, Signature: "http-5xx", By: health.BySuccess})
	pinned := project(found("http-5xx", 0))
	pinned[2].Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateOK}
	ended := func(edit func(*v1alpha1.DiagnosisJob)) []jobFact {
		return []jobFact{jobOf("ended", report(), "http-5xx", edit)}
	}
	byJob := func(wait time.Duration) want {
		return want{Outcome: AlreadyDiagnosed, Class: v1alpha1.Unclear, RetryAfter: wait, Job: "ended"}
	}
	for _, tc := range []decisionCase{
		{name: "the row in force speaks of the same error: until it is expected to recover", rows: project(found("http-5xx", 10*time.Minute)), after: time.Minute, window: window, want: fresh(9 * time.Minute)},
		{name: "without an estimate: for the rest of the window", rows: project(found("http-5xx", 0)), after: time.Minute, window: window, want: fresh(4 * time.Minute)},
		{name: "a verdict as old as the window is no longer fresh", rows: project(found("http-5xx", 10*time.Minute)), after: window, window: window, want: pending},
		{name: "with a window of 0 nothing is fresh", rows: project(found("http-5xx", 0)), window: 0, want: pending},
		{name: "another error is diagnosed", rows: project(found("timeout", 0)), after: time.Minute, window: window, want: pending},
		{name: "past its recovery the next error is news", rows: project(found("http-5xx", time.Minute)), after: time.Minute, window: window, want: pending},
		{name: "a tool that worked has news", rows: project(found("http-5xx", 0), works), after: time.Minute, window: window, want: pending},
		{name: "a tool that a person pinned to OK is diagnosed", rows: pinned, after: time.Minute, window: window, want: pending},
		{name: "a wider row in force counts as well", rows: []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeSession, cools("x", "")), nil, nil, nil, rowOf(v1alpha1.ScopeGlobal, found("http-5xx", 0))},
			after: time.Minute, window: window, want: fresh(4 * time.Minute)},
		{name: "a job under way knows better soon", rows: project(found("http-5xx", 0)), jobs: []jobFact{jobOf("open", report(), "http-5xx")}, after: time.Minute, window: window,
			want: want{Outcome: Coalesced, Class: v1alpha1.Unclear, RetryAfter: 30 * time.Second, Job: "open"}},
		{name: "a run that ended without a verdict is not repeated at once", jobs: ended(failed), after: time.Minute, window: window, want: byJob(4 * time.Minute)},
		{name: "nor is one that a broken recipe stopped", jobs: ended(stalled), after: time.Minute, window: window, want: byJob(4 * time.Minute)},
		{name: "after the window it is", jobs: ended(failed), after: window, window: window, want: pending},
		{name: "with a window of 0 it is, as soon as it no longer stands for the report", jobs: ended(failed), after: 30 * time.Second, window: 0, want: pending},
		{name: "a job that was left to another says nothing", jobs: ended(yielded), after: time.Minute, window: window, want: pending},
		{name: "a job with a verdict speaks through the row", jobs: ended(diagnosed(v1alpha1.Intermittent)), after: time.Minute, window: window, want: pending},
		{name: "why another user's run failed has nothing to do with the user", jobs: []jobFact{jobOf("ended", report(func(r *Report) { r.User = "bob" }), "http-5xx", failed)},
			after: time.Minute, window: window, want: byJob(4 * time.Minute)},
		{name: "another user's verdict speaks through the rows that the caller has", jobs: []jobFact{jobOf("ended", report(func(r *Report) { r.User = "bob" }), "http-5xx", diagnosed(v1alpha1.UserSpecificTechnical))},
			after: time.Minute, window: window, want: pending},
		{name: "a job that no budget paid for is no verdict, and not repeated at once", jobs: ended(unpaid), after: time.Minute, window: window, want: byJob(4 * time.Minute)},
		{name: "nor is one whose ceiling was too low", jobs: ended(func(job *v1alpha1.DiagnosisJob) {
			unclearFor(job, v1alpha1.ReasonTokenCeilingReached)
			job.Status.Attempts = 1
		}),
			after: time.Minute, window: window, want: byJob(4 * time.Minute)},
		{name: "nor is one whose budget could not be asked", jobs: ended(unaccounted), after: time.Minute, window: window, want: byJob(4 * time.Minute)},
	} {
		tc.verdict, tc.report = unclear503, report()
		t.Run(tc.name, tc.run)
	}
}

func TestARequestToLookAgainJoinsWhatLooksAlready(t *testing.T) {
	bob, nobody := report(func(r *Report) { r.User = "bob" }), func(edits ...func(*Report)) Report {
		return report(append(edits, func(r *Report) { r.User = "" })...)
	}
	global := report(func(r *Report) { r.Scope = v1alpha1.ScopeGlobal })
	pending := want{Outcome: Pending, Class: v1alpha1.Unclear}
	into := func(wait time.Duration) want {
		return want{Outcome: Coalesced, Class: v1alpha1.Unclear, RetryAfter: wait, Job: "other"}
	}
	for _, tc := range []decisionCase{
		{name: "any open job of the row, whatever the error", jobs: []jobFact{jobOf("other", report(), "timeout")}, want: into(10 * time.Second)},
		{name: "and whoever the user, if nobody is named", report: nobody(), jobs: []jobFact{jobOf("other", bob, "timeout")}, want: into(10 * time.Second)},
		{name: "not one for another user: she asks how it is for her", jobs: []jobFact{jobOf("other", bob, "timeout")}, want: pending},
		{name: "nor one for nobody", jobs: []jobFact{jobOf("other", nobody(), "timeout")}, want: pending},
		{name: "not one of another row", jobs: []jobFact{jobOf("other", global, "timeout")}, want: pending},
		{name: "a recheck for nobody that just ended says nothing of her", jobs: []jobFact{jobOf("other", nobody(), v1alpha1.SignatureRecheck, diagnosed(v1alpha1.Working))}, after: time.Second, want: pending},
		{name: "a recheck of the row that just ended, whatever it found", jobs: []jobFact{jobOf("other", report(), v1alpha1.SignatureRecheck, diagnosed(v1alpha1.Working))}, after: 4 * time.Second, want: into(6 * time.Second)},
		{name: "after ten seconds it may be looked at again", jobs: []jobFact{jobOf("other", report(), v1alpha1.SignatureRecheck, diagnosed(v1alpha1.Working))}, after: 10 * time.Second, want: pending},
		{name: "a recheck that only joined another is none", jobs: []jobFact{jobOf("other", report(), v1alpha1.SignatureRecheck, yielded)}, after: time.Second, want: pending},
		{name: "a diagnosis that just ended is no recheck", jobs: []jobFact{jobOf("other", report(), "http-5xx", diagnosed(v1alpha1.Intermittent))}, after: time.Second, want: pending},
		{name: "a fresh verdict is what it wants to know better", rows: []*v1alpha1.ToolHealth{rowOf(v1alpha1.ScopeProject, found(v1alpha1.SignatureRecheck, 0))}, want: pending},
		{name: "a younger recheck yields to an older job", report: report(own("younger", time.Second)), jobs: []jobFact{jobOf("other", report(), "timeout")}, want: into(10 * time.Second)},
		{name: "an older one does not", report: report(own("older", -time.Second)), jobs: []jobFact{jobOf("other", report(), "timeout")}, want: pending},
	} {
		for _, trigger := range []v1alpha1.Trigger{v1alpha1.TriggerUserRequest, v1alpha1.TriggerScheduledRecheck} {
			tc.verdict, tc.window = again, 5*time.Minute
			if tc.report.ID == "" {
				tc.report = report()
			}
			tc.report.Trigger = trigger
			t.Run(fmt.Sprintf("%s (%s)", tc.name, trigger), tc.run)
		}
	}
}

// A server that asks for a longer wait is heard while the error cools down; one that repeats itself costs no write.
func TestALongerStatedWaitExtendsACooldown(t *testing.T) {
	limited := classify.Verdict{RuleID: "http-429", Signature: "http-429", Class: v1alpha1.Intermittent}
	stated := func(wait time.Duration) classify.Verdict {
		v := limited
		v.Wait, v.Stated = wait, true
		return v
	}
	byRule := limited
	byRule.Wait = time.Hour
	cooling := []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, health.Cool(health.Trigger{Signature: "http-429", Class: v1alpha1.Intermittent, Wait: time.Minute, Report: "r0"}))}
	into := func(wait time.Duration) want { return want{Classified, v1alpha1.Intermittent, wait, ""} }
	still := func(wait time.Duration) want { return want{CoolingDown, v1alpha1.Intermittent, wait, ""} }
	for _, tc := range []decisionCase{
		{name: "a longer wait extends", verdict: stated(time.Hour), after: 40 * time.Second, want: into(time.Hour)},
		{name: "a shorter one does not cut", verdict: stated(5 * time.Second), after: 40 * time.Second, want: still(20 * time.Second)},
		{name: "the same wait a moment later is no news", verdict: stated(time.Minute), after: 5 * time.Second, want: still(55 * time.Second)},
		{name: "the same wait much later is", verdict: stated(time.Minute), after: 30 * time.Second, want: into(time.Minute)},
		{name: "what the rule says, it said before", verdict: byRule, after: 40 * time.Second, want: still(20 * time.Second)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.report, tc.rows = report(), cooling
			tc.run(t)
		})
	}
}
