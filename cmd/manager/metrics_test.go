package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// scrape returns our metrics as they are, by name and labels.
func scrape(t *testing.T, address string) map[string]float64 {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	found := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "agrajag_") && !strings.Contains(name, "_bucket") {
			found[name] = number
		}
	}
	return found
}

func TestMetricsTellWhatReportsCameTo(t *testing.T) {
	o := testOptions()
	o.metricsAddress = freeAddress(t)
	o.models, o.modelEndpoint = "some-model", serveTool(t, scripted.New(concludes(v1alpha1.Unclear, llm.Usage{Prompt: 1500, Completion: 50})))
	startManager(t, o)
	p := newProject(t)
	alice := p.user("alice")
	before := scrape(t, o.metricsAddress) // Other tests count in the same process.
	for range 2 {
		p.answer(alice, p.job("forbidden", "alice", status(403)))
	}
	unclear := p.job("unclear", "", v1alpha1.ToolError{Message: "disk is full"})
	p.must(alice.Create(t.Context(), unclear))
	cost := p.closed(unclear).Status.Usage
	want := map[string]float64{
		`agrajag_reports_total{classification="USER_PERMISSION",outcome="Classified"}`:  1,
		`agrajag_reports_total{classification="USER_PERMISSION",outcome="CoolingDown"}`: 1,
		`agrajag_reports_total{classification="UNCLEAR",outcome="Pending"}`:             1,
		`agrajag_jobs_closed_total{close_reason="DONE",reason="Diagnosed"}`:             1,
		`agrajag_diagnosis_duration_seconds_count`:                                      1,
		`agrajag_model_calls_total`:                                                     1,
		`agrajag_model_tokens_total{kind="prompt"}`:                                     float64(cost.PromptTokens),
		`agrajag_model_tokens_total{kind="completion"}`:                                 float64(cost.CompletionTokens),
	}
	eventually(t, "the counts", func() error { // A job is counted after it was written.
		got := map[string]float64{}
		for name, value := range scrape(t, o.metricsAddress) {
			if grown := value - before[name]; grown != 0 && !strings.Contains(name, "_seconds_sum") {
				got[name] = grown
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}
