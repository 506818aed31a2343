package survival

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

const (
	// maxStatus bounds a row's status, in bytes (design §3).
	maxStatus = 32 << 10
	// secret is in a report that came while the webhook was away.
	secret = "abcdefgh12345678"
)

func status(code int32) *v1alpha1.ToolError { return &v1alpha1.ToolError{HTTPStatus: &code} }

func inWords(words string) *v1alpha1.ToolError {
	e := status(503)
	e.Message = words
	return e
}

func probes(names ...string) scripted.Step {
	step := scripted.Step{Usage: llm.Usage{Prompt: dear / 3, Completion: dear - dear/3}}
	for i, name := range names {
		step.ToolCalls = append(step.ToolCalls, llm.ToolCall{ID: fmt.Sprint(i), Name: name, Arguments: "{}"})
	}
	return step
}

func verdict(class v1alpha1.Classification, scope v1alpha1.Scope) scripted.Step {
	return scripted.Step{Usage: llm.Usage{Prompt: dear / 3, Completion: dear - dear/3}, Text: fmt.Sprintf("```json\n{\"classification\":%q,\"scope\":%q,\"humanNote\":\"so it is\",\"userActionHint\":\"do something\"}\n```", class, scope)}
}

// downForAnHour is a row that another error took down.
func downForAnHour() *v1alpha1.ToolHealth {
	then := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	return &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{Scope: v1alpha1.ScopeProject, ScopeID: project}, Status: v1alpha1.ToolHealthStatus{
		State: v1alpha1.StateDown, Since: &then, LastCheckedAt: &then,
		LastDiagnosis: &v1alpha1.HealthDiagnosis{Classification: v1alpha1.TechnicallyBroken, ErrorSignature: "other", By: "agrajag-engine/other", At: then},
		History:       []v1alpha1.HealthHistoryEntry{{At: then, Status: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken, ErrorSignature: "other", By: "agrajag-engine/other"}},
	}}
}

var outage = func(api *sampletools.HTTPAPI) { api.Fail(sampletools.Answer{Status: 503, Body: "upstream is down"}) }

func scenarios() []scenario {
	broken := []scripted.Step{probes(llm.ToolProbeAsSystem), verdict(v1alpha1.TechnicallyBroken, v1alpha1.ScopeProject)}
	leaky := &v1alpha1.ToolError{HTTPStatus: new(int32(503)), Message: "Authorization: Bearer " + secret + " refused"}
	return []scenario{
		{name: "a first diagnosed job, whose report holds a secret", tool: outage, script: broken,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: leaky}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN"}},
		{name: "a first diagnosed job, with rules that no process knows yet", tool: outage, script: broken, freshRules: true,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503)}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN"}},
		{name: "a job that flips an existing row", tool: func(*sampletools.HTTPAPI) {},
			rows:       []*v1alpha1.ToolHealth{downForAnHour()},
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503)}},
			script:     []scripted.Step{probes(llm.ToolHealthRead, llm.ToolProbeAsSystem), verdict(v1alpha1.Working, v1alpha1.ScopeProject)},
			want:       []string{"PROJECT survival OK WORKING history 2"},
			wantClosed: []string{"DONE Diagnosed WORKING"}},
		{name: "a verdict about one user", tool: func(api *sampletools.HTTPAPI) { api.RefuseToken(token) },
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(401), OriginatingUserID: "alice"}},
			script:     []scripted.Step{probes(llm.ToolProbeAsUser, llm.ToolProbeAsSystem), verdict(v1alpha1.UserSpecificTechnical, v1alpha1.ScopeProject)},
			want:       []string{"USER alice DOWN USER_SPECIFIC_TECHNICAL history 1"},
			wantClosed: []string{"DONE Diagnosed USER_SPECIFIC_TECHNICAL"}},
		{name: "two users' reports of one outage", tool: outage, script: broken,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503), OriginatingUserID: "alice"}, {Error: status(503), OriginatingUserID: "bob"}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN", "STALE"}},
		{name: "a run that fails and is tried once more", tool: outage, script: broken, failures: 1,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503)}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN"}},
		{name: "a job of a tenant that spent before", tool: outage, script: broken, before: 40_000,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503)}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN"}},
		{name: "a model that changes its mind when it is asked anew", tool: outage, script: broken,
			anew:       []scripted.Step{probes(llm.ToolProbeAsSystem), verdict(v1alpha1.Intermittent, v1alpha1.ScopeUser)},
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: status(503), OriginatingUserID: "alice"}},
			either:     []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1", "USER alice DEGRADED INTERMITTENT history 1"},
			wantClosed: []string{"DONE Diagnosed"}},
		{name: "two reports of one error in other words", tool: outage, script: broken,
			jobs:       []v1alpha1.DiagnosisJobSpec{{Error: inWords("first words")}, {Error: inWords("other words")}},
			want:       []string{"PROJECT survival DOWN TECHNICALLY_BROKEN history 1"},
			wantClosed: []string{"DONE Diagnosed TECHNICALLY_BROKEN", "STALE"}},
	}
}

// tell tells a scenario and returns what is wrong with its end, if at most so many runs are allowed.
func tell(t *testing.T, s scenario, d disturb, most int) (*world, []string) {
	w, err := newWorld(t, s, d)
	if err != nil {
		return w, []string{err.Error()}
	}
	defer w.close()
	w.run(w.start())
	problems := w.judge(s, most)
	if len(problems) == 0 { // A restart after all is done changes nothing.
		before := w.versionsNow()
		w.disturb = nil
		w.start().step(w.keys)
		if diff := gocmp.Diff(before, w.versionsNow()); diff != "" {
			problems = append(problems, "a restart wrote again: "+diff)
		}
	}
	return w, problems
}

// judge says what is wrong with how a world ended.
func (w *world) judge(s scenario, most int) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var closed []string
	attempts, conversations := 0, 0
	for _, key := range w.keys {
		job := w.job(key)
		attempts += int(job.Status.Attempts)
		closed = append(closed, ended(job))
		if isLost(job) {
			complain("job %s is lost: %s", key.Name, ended(job))
		}
		if text := fmt.Sprintf("%+v", job.Spec.Error); strings.Contains(text, secret) {
			complain("a secret is left in %s", text)
		}
	}
	slices.Sort(closed)
	if diff := gocmp.Diff(s.wantClosed, closed, gocmp.Comparer(func(want, got string) bool { return strings.HasPrefix(got, want) || strings.HasPrefix(want, got) })); diff != "" {
		complain("jobs ended (-want +got):\n%s", diff)
	}
	for _, request := range w.model.Requests() {
		if request.Turn() == 0 {
			conversations++
		}
	}
	if conversations > most || attempts > most || conversations > attempts {
		complain("%d conversations in %d attempts, at most %d allowed", conversations, attempts, most)
	}
	if rows := w.rows(); s.want != nil {
		if diff := gocmp.Diff(s.want, rows); diff != "" {
			complain("rows (-want +got):\n%s", diff)
		}
	}
	problems = append(problems, w.disagreements()...)
	return append(problems, w.audit()...)
}

// disagreements says where a job tells another verdict than the row that was written for it, or two rows were. Only where
// another manager ran the job while a row was on its way, two may be.
func (w *world) disagreements() (problems []string) {
	for _, key := range w.keys {
		job := w.job(key)
		var rows []string
		for _, row := range w.healths() {
			if last := row.Status.LastDiagnosis; last != nil && last.Report == string(job.UID) {
				rows = append(rows, tells(row.Spec.Scope, last.Classification, last.Note))
			}
		}
		d := job.Status.Diagnosis
		if d == nil || len(rows) == 0 {
			continue
		}
		if says := tells(d.Scope, d.Classification, d.HumanNote); !slices.Contains(rows, says) || len(rows) > 1 && !w.overtaken {
			problems = append(problems, fmt.Sprintf("job %s says %q, the rows say %q", key.Name, says, rows))
		}
	}
	return problems
}

func tells(scope v1alpha1.Scope, class v1alpha1.Classification, note string) string {
	return fmt.Sprintf("%s %s: %s", scope, class, note)
}

// isLost reports whether a job is not closed with a reason.
func isLost(job *v1alpha1.DiagnosisJob) bool {
	complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete)
	return job.Status.Phase != v1alpha1.PhaseClosed || job.Status.CloseReason == "" ||
		complete == nil || complete.Status != metav1.ConditionTrue || complete.Reason == ""
}

// ended says how a job is closed.
func ended(job *v1alpha1.DiagnosisJob) string {
	complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete)
	if isLost(job) {
		return fmt.Sprintf("phase %s with %+v", job.Status.Phase, complete)
	}
	class := v1alpha1.Classification("")
	if job.Status.Diagnosis != nil {
		class = job.Status.Diagnosis.Classification
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", job.Status.CloseReason, complete.Reason, class))
}

// healths returns the tool's rows as they are in the API server.
func (w *world) healths() []*v1alpha1.ToolHealth {
	var rows []*v1alpha1.ToolHealth
	seen := map[string]bool{}
	for _, object := range w.written {
		if row, ok := object.(*v1alpha1.ToolHealth); ok && !seen[row.Name] {
			seen[row.Name] = true
			row = &v1alpha1.ToolHealth{}
			w.must(env.Admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), row))
			rows = append(rows, row)
		}
	}
	return rows
}

// rows says what the tool's rows hold.
func (w *world) rows() []string {
	var rows []string
	for _, row := range w.healths() {
		rows = append(rows, describe(row))
		if data, err := json.Marshal(row.Status); err != nil || len(data) > maxStatus {
			w.t.Errorf("the status of %s has %d bytes (%v)", row.Name, len(data), err)
		}
	}
	slices.Sort(rows)
	return rows
}

func describe(row *v1alpha1.ToolHealth) string {
	class := v1alpha1.Classification("")
	if row.Status.LastDiagnosis != nil {
		class = row.Status.LastDiagnosis.Classification
	}
	return fmt.Sprintf("%s %s %s %s history %d", row.Spec.Scope, row.Spec.ScopeID, row.Status.State, class, len(row.Status.History))
}

// versionsNow returns the resourceVersions of the world's jobs and rows.
func (w *world) versionsNow() map[string]string {
	now := map[string]string{}
	for _, key := range w.keys {
		now["job "+key.Name] = w.job(key).ResourceVersion
	}
	for _, row := range w.healths() {
		now["row "+row.Name] = row.ResourceVersion
	}
	return now
}

// kills reports whether a manager does not live through a fault.
func (f fault) kills() bool {
	return f.kind == crashBefore || f.kind == crashAfter || f.kind == supplanted
}

// runs returns how many runs of a scenario a fault may cost: whoever leads after one died runs the job again, once.
func (f fault) runs(s scenario) int {
	if f.kills() {
		return 2
	}
	return 1 + s.failures
}

// after returns how a scenario may end with a fault. A manager that dies and a run that fails are not both forgiven: the
// job then ends without a verdict.
func (s scenario) after(f fault) scenario {
	if f.kills() && s.failures > 0 {
		s.want, s.wantClosed = nil, []string{""}
	}
	return s
}

// faultsOf lists what can happen to the calls of a run.
func faultsOf(s scenario, calls []call) []fault {
	var faults []fault
	for at, call := range calls {
		if s.freshRules && !strings.Contains(call.what, "ErrorPatternSet") {
			continue // The other scenarios disturb these.
		}
		for _, kind := range kinds(call.verb) {
			faults = append(faults, fault{at, kind})
		}
	}
	return faults
}

// Each call of each scenario is disturbed in each way.
func TestEveryCallMayFail(t *testing.T) {
	tally := map[kind]int{}
	points := 0
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			clean, problems := tell(t, s, nil, 1+s.failures)
			if len(problems) > 0 {
				t.Fatalf("undisturbed: %s\n%v", strings.Join(problems, "\n"), clean.errors)
			}
			faults := faultsOf(s, clean.calls)
			inParallel(faults, func(f fault) {
				if w, problems := tell(t, s.after(f), f.once, f.runs(s)); len(problems) > 0 {
					t.Errorf("%s at call %d (%s %s): %s\nerrors met: %v", f.kind, f.at, w.calls[f.at].verb, w.calls[f.at].what, strings.Join(problems, "\n"), w.errors)
				}
			})
			for _, f := range faults {
				tally[f.kind]++
			}
			points += len(clean.calls)
			t.Logf("%d calls, %d faults", len(clean.calls), len(faults))
		})
	}
	kinds := make([]string, 0, len(tally))
	for kind, n := range tally {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	slices.SortFunc(kinds, cmp.Compare[string])
	t.Logf("%d calls; faults: %s", points, strings.Join(kinds, ", "))
}

// inParallel does something with each of many, a few at a time.
func inParallel[T any](all []T, do func(T)) {
	next := make(chan T)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for one := range next {
				do(one)
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	group.Wait()
}
