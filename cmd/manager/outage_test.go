package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// gated is a model that answers once it may.
type gated struct {
	*scripted.Server
	open chan struct{}
}

func newGated(steps ...scripted.Step) gated {
	return gated{Server: scripted.New(steps...), open: make(chan struct{})}
}

func (g gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.open:
		g.Server.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// reports has users report the same error, each of them several times and all at once. It returns how many reports were
// stored and how many refused.
func (p project) reports(users, each int, report func(user string) *v1alpha1.DiagnosisJob) (stored, refused int) {
	p.t.Helper()
	clients := map[string]client.Client{}
	for i := range users {
		name := fmt.Sprintf("user-%d", i)
		clients[name] = p.user(name)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, c := range clients {
		wg.Go(func() {
			for range each {
				err := c.Create(p.t.Context(), report(name))
				mu.Lock()
				var status apierrors.APIStatus
				switch {
				case err == nil:
					stored++
				case errors.As(err, &status) && (status.Status().Reason == "ToolErrorCoalesced" || apierrors.IsAlreadyExists(err)):
					refused++
				default:
					p.t.Errorf("the report of %s: %v", name, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return stored, refused
}

// allClosed waits until every job of the project is closed and returns them by the reason.
func (p project) allClosed() map[string][]v1alpha1.DiagnosisJob {
	p.t.Helper()
	var by map[string][]v1alpha1.DiagnosisJob
	eventually(p.t, "every job to close", func() error {
		var jobs v1alpha1.DiagnosisJobList
		if err := env.Admin.List(p.t.Context(), &jobs, client.InNamespace(p.namespace)); err != nil {
			return err
		}
		by = map[string][]v1alpha1.DiagnosisJob{}
		for _, job := range jobs.Items {
			if job.Status.Phase != v1alpha1.PhaseClosed {
				return fmt.Errorf("job %s is %s", job.Name, job.Status.Phase)
			}
			reason := complete(&job).Reason
			by[reason] = append(by[reason], job)
		}
		return nil
	})
	return by
}

// nextSecond waits until a verdict would be later than all that was created by now: creation times are whole seconds.
func nextSecond(t *testing.T) {
	t.Helper()
	second := time.Now().Truncate(time.Second)
	eventually(t, "the next second", func() error {
		if time.Now().Truncate(time.Second).Equal(second) {
			return errors.New("it is not over")
		}
		return nil
	})
}

// One outage, met by 50 users ten times each, is one run, whether or not the webhooks are there to refuse the rest.
func TestOneOutageOfManyUsersCostsOneRun(t *testing.T) {
	for _, tc := range []struct {
		name string
		down bool
	}{
		{name: "with the webhooks up"},
		{name: "with the webhooks down", down: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := newGated(concludes(v1alpha1.Unclear, llm.Usage{Prompt: 1500, Completion: 50}))
			o := testOptions()
			o.models, o.modelEndpoint = "some-model", serveTool(t, model)
			if tc.down {
				o.webhookPort = freePort(t)
			}
			startManager(t, o)
			p := newProject(t)
			stored, refused := p.reports(50, 10, func(user string) *v1alpha1.DiagnosisJob {
				return p.job("search", user, v1alpha1.ToolError{HTTPStatus: new(int32(503)), Message: "said to " + user})
			})
			// Under load a webhook may let a report through unanswered; the reconciler answers it then.
			if stored < 50 || stored+refused != 500 || (refused == 0) != tc.down {
				t.Errorf("%d reports were stored and %d refused of 500 by 50 users", stored, refused)
			}
			nextSecond(t)
			close(model.open)
			by := p.allClosed()
			for reason, jobs := range by {
				t.Logf("closed as %s: %d", reason, len(jobs))
			}
			if runs := len(model.Requests()); runs != 1 || len(by[v1alpha1.ReasonDiagnosed]) != 1 {
				t.Errorf("one outage cost %d calls of the model and %d runs", runs, len(by[v1alpha1.ReasonDiagnosed]))
			}
			others := len(by[v1alpha1.ReasonCovered]) + len(by[v1alpha1.ReasonAlreadyDiagnosed]) + len(by[v1alpha1.ReasonCoalesced])
			if len(by[v1alpha1.ReasonCovered]) == 0 || others != stored-1 {
				t.Errorf("of %d jobs %d are left to the one that ran, %d of them covered by its verdict", stored, others, len(by[v1alpha1.ReasonCovered]))
			}
			for reason, jobs := range by {
				for _, job := range jobs {
					if reason != v1alpha1.ReasonDiagnosed && (job.Status.CloseReason != v1alpha1.CloseStale || job.Status.Attempts != 0 || job.Status.Usage != nil) {
						t.Errorf("a job that is %s ended as %+v", reason, job.Status)
					}
				}
			}
		})
	}
}

// What is one user's trouble answers no other's report.
func TestAVerdictOnOneUserCoversThatUserAlone(t *testing.T) {
	api := sampletools.NewHTTPAPI("token-alice", "token-bob")
	url := serveTool(t, api)
	probes := scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: "tool_probe_as_user"}, {ID: "2", Name: "tool_probe_as_system"}}, Usage: llm.Usage{Prompt: 1500, Completion: 50}}
	theirs := concludes(v1alpha1.UserSpecificTechnical, llm.Usage{Prompt: 1500, Completion: 50})
	model := newGated(probes, theirs, probes, theirs)
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	p.httpTool("search", url+"/v1/search?q=tea")
	jobs := map[string]*v1alpha1.DiagnosisJob{}
	for _, user := range []string{"alice", "bob"} {
		p.credential(user, "token-"+user, strings.TrimPrefix(url, "http://"))
		api.RefuseToken("token-" + user)
		jobs[user] = p.job("search", user, status(401))
		p.must(p.user(user).Create(t.Context(), jobs[user]))
	}
	// Alice's row speaks to her whatever the scope of her report.
	jobs["alice's session"] = p.job("search", "alice", status(401))
	jobs["alice's session"].Spec.Scope, jobs["alice's session"].Spec.OriginatingSessionID = v1alpha1.ScopeUser, "s1"
	nextSecond(t)
	close(model.open)
	for _, user := range []string{"alice", "bob"} {
		if job := p.closed(jobs[user]); complete(job).Reason != v1alpha1.ReasonDiagnosed || job.Status.Diagnosis.Scope != v1alpha1.ScopeUser {
			t.Errorf("%s's job ended as %+v", user, job.Status)
		}
		if row := p.row(v1alpha1.ScopeUser, user, "search"); row == nil || row.Status.State != v1alpha1.StateDown {
			t.Errorf("%s's row is %+v", user, row)
		}
	}
	if len(model.Requests()) != 4 {
		t.Errorf("two users' troubles cost %d calls of the model", len(model.Requests()))
	}
	if got := p.answer(p.user("alice"), jobs["alice's session"]); cause(got, "Outcome") != "CoolingDown" && cause(got, "Outcome") != "AlreadyDiagnosed" {
		t.Errorf("alice's report in a session is answered %+v", got)
	}
}

// A run that fails, for want of a model, is not repeated for every user who waits.
func TestAFailedRunIsNotRepeatedForEveryUser(t *testing.T) {
	model := newGated(scripted.Step{Status: http.StatusUnauthorized, Text: "no such key"}, scripted.Step{Status: http.StatusUnauthorized}, scripted.Step{Status: http.StatusUnauthorized})
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	if stored, _ := p.reports(10, 1, func(user string) *v1alpha1.DiagnosisJob { return p.job("search", user, status(503)) }); stored != 10 {
		t.Errorf("%d reports were stored", stored)
	}
	close(model.open)
	by := p.allClosed()
	if len(model.Requests()) != 1 || len(by[v1alpha1.ReasonAlreadyDiagnosed]) != 9 {
		t.Errorf("the model was asked %d times, %d jobs were left to the run that failed", len(model.Requests()), len(by[v1alpha1.ReasonAlreadyDiagnosed]))
	}
}
