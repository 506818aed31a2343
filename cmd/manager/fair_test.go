package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// One worker, and a tenant with twenty jobs that wait: another tenant's first job is not the twenty-first.
func TestAnotherTenantsFirstJobIsNotTheLast(t *testing.T) {
	const flood = 20
	release := make(chan struct{}, flood+1)
	model := scripted.NewFunc(func(scripted.Request) scripted.Step {
		<-release
		return scripted.Step{Text: works}
	})
	o := testOptions()
	o.models, o.modelEndpoint, o.diagnosisWorkers = "some-model", serveTool(t, model), 1
	startManager(t, o)
	busy, quiet := newProject(t), newProject(t)
	alice, bob := busy.user("alice"), quiet.user("bob")
	for i := range flood {
		busy.must(alice.Create(t.Context(), busy.job(fmt.Sprintf("busy-%d", i), "", status(500))))
	}
	asked := func(n int) {
		eventually(t, fmt.Sprintf("conversation %d", n), func() error {
			if got := len(model.Requests()); got < n {
				return fmt.Errorf("there were %d", got)
			}
			return nil
		})
	}
	asked(1)
	job := quiet.job("quiet", "", status(500))
	quiet.must(bob.Create(t.Context(), job))
	for n := range flood {
		release <- struct{}{}
		asked(n + 2)
	}
	release <- struct{}{}
	quiet.closed(job)
	turn := slices.IndexFunc(model.Requests(), func(r scripted.Request) bool { return strings.Contains(r.Body, "quiet") })
	// It takes a moment to be queued, and one job was running: first come, first served would make it the twenty-first.
	if turn < 1 || turn > flood/2 {
		t.Errorf("the other tenant's job was number %d", turn+1)
	}
	t.Logf("it was number %d", turn+1)
}
