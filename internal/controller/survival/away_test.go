package survival

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// The account of the budgets goes away during a run and stays away: nothing more is spent, the job says why it ended, the
// tool's health is no worse than what is known, and reports of the same error are not paid for either.
func TestAnAccountThatGoesAwayDuringARun(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls string // what the model asks for before
		rows  []*v1alpha1.ToolHealth
		want  []string
	}{
		{name: "before anything is known", calls: llm.ToolHealthRead},
		{name: "after a probe failed", calls: llm.ToolProbeAsSystem, want: []string{"PROJECT survival DEGRADED UNCLEAR history 1"}},
		{name: "of a tool that is known to be down", calls: llm.ToolProbeAsSystem, rows: []*v1alpha1.ToolHealth{downForAnHour()}, want: []string{"PROJECT survival DOWN UNCLEAR history 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := newWorld(t, scenario{tool: outage, rows: tc.rows, jobs: []v1alpha1.DiagnosisJobSpec{{Error: status(503)}},
				script: []scripted.Step{probes(tc.calls), verdict(v1alpha1.TechnicallyBroken, v1alpha1.ScopeProject)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			w.disturb = func(at int, _ verb) kind {
				if strings.Contains(w.calls[at].what, "ConfigMap") && len(w.model.Requests()) > 0 {
					return timeoutNone
				}
				return ""
			}
			w.run(w.start())
			if err := w.report(w.tool+"-again", v1alpha1.DiagnosisJobSpec{Error: status(503), OriginatingUserID: "alice"}); err != nil {
				t.Fatal(err)
			}
			w.run(w.start())
			if first := w.job(w.keys[0]); ended(first) != "DONE BudgetNotKept UNCLEAR" || !strings.Contains(first.Status.Diagnosis.HumanNote, "mend it, or the API server") {
				t.Errorf("the job ended as %s: %+v", ended(first), first.Status.Diagnosis)
			}
			if again := w.job(w.keys[1]); again.Status.CloseReason != v1alpha1.CloseStale || again.Status.Attempts != 0 {
				t.Errorf("another report of it ended as %s after %d attempts", ended(again), again.Status.Attempts)
			}
			if diff := gocmp.Diff(tc.want, w.rows()); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if problems := w.audit(); len(problems) > 0 || len(w.model.Requests()) != 1 {
				t.Errorf("the model was asked %d times: %q", len(w.model.Requests()), problems)
			}
		})
	}
}
