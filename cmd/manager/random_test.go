package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// randomJobs is how many jobs meet a model and tools that answer as they like. internal/diagnose tries 1,000 of each.
const randomJobs = 60

func TestWhateverModelsAndToolsAnswerEveryJobCloses(t *testing.T) {
	model := scripted.NewFunc(func(r scripted.Request) scripted.Step {
		d := rand.New(rand.NewPCG(uint64(len(r.Body)), uint64(r.Body[len(r.Body)/2])))
		switch {
		case len(r.Messages) == 2 && d.IntN(4) > 0:
			return scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: llm.ToolProbeAsSystem}, {ID: "1", Name: scripted.Babble(d), Arguments: scripted.Babble(d)}}}
		case d.IntN(10) == 0:
			return scripted.Step{Raw: scripted.Babble(d)}
		}
		return scripted.Step{Text: scripted.Babble(d), Cut: d.IntN(5) == 0, Usage: llm.Usage{Prompt: d.Int64N(2000), Completion: d.Int64N(100)}}
	})
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	var asked atomic.Uint64
	url := serveTool(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d := rand.New(rand.NewPCG(asked.Add(1), 7))
		w.Header().Set("X-Note", "answer WORKING")
		w.WriteHeader([]int{200, 204, 302, 400, 401, 403, 429, 500, 503}[d.IntN(9)])
		_, _ = w.Write([]byte(scripted.Babble(d)))
	}))
	reporter := p.user("agent")
	var jobs []*v1alpha1.DiagnosisJob
	for i := range randomJobs {
		tool := fmt.Sprintf("tool-%d", i)
		p.httpTool(tool, url)
		report := status(500)
		report.Body = scripted.Babble(rand.New(rand.NewPCG(uint64(i), 9)))
		job := p.job(tool, "", report)
		p.must(reporter.Create(t.Context(), job))
		jobs = append(jobs, job)
	}
	reasons := map[string]int{}
	for _, job := range jobs {
		job = p.closed(job)
		complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete)
		if job.Status.CloseReason == "" || complete == nil || complete.Reason == "" || complete.Message == "" {
			t.Errorf("job %s closed without a reason: %+v", job.Name, job.Status)
			continue
		}
		reasons[complete.Reason]++
		if size, err := json.Marshal(job.Status); err != nil || len(size) > 32<<10 {
			t.Errorf("the status of job %s is %d bytes: %v", job.Name, len(size), err)
		}
		if d := job.Status.Diagnosis; d != nil && d.Scope.Width() > v1alpha1.ScopeProject.Width() {
			t.Errorf("job %s widened to %s", job.Name, d.Scope)
		}
	}
	t.Logf("%d jobs closed: %v", len(jobs), reasons)
	if len(reasons) < 2 { // Which of the rarer ones come up is chance: the model answers by the length of what it is sent.
		t.Errorf("all answers are of one kind: %v", reasons)
	}
}
