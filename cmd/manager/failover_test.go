package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// A leader that cannot renew its lease, although all else works, lets its conversation go and ends; the next one runs
// the job again, once.
func TestALostLeaseCancelsTheRun(t *testing.T) {
	model := scripted.New(scripted.Step{Delay: 10 * time.Minute}, scripted.Step{Text: works})
	var cancelled atomic.Int32
	o := testOptions()
	o.leaderElect, o.models = true, "some-model"
	o.modelEndpoint = serveTool(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			cancelled.Add(1)
		}
	}))
	var cut atomic.Bool
	first, firstEnded := replica(t, o, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if cut.Load() && strings.Contains(r.URL.Path, "/leases/") {
				return nil, errors.New("the lease cannot be reached")
			}
			return next.RoundTrip(r)
		})
	})
	<-first.Elected()
	o.webhookPort = freePort(t)
	second, _ := replica(t, o, nil)
	p := newProject(t)
	job := p.job("search", "", status(500))
	p.must(p.user("alice").Create(t.Context(), job))
	eventually(t, "the first leader to ask the model", func() error {
		if n := len(model.Requests()); n != 1 {
			return fmt.Errorf("%d requests", n)
		}
		return env.Admin.Get(t.Context(), client.ObjectKeyFromObject(job), job)
	})
	holder := job.Status.Holder
	cut.Store(true)
	if err := <-firstEnded; err == nil {
		t.Error("a manager that lost its lease ended as if nothing were")
	}
	eventually(t, "the conversation to be let go", func() error {
		if n := cancelled.Load(); n != 1 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	<-second.Elected()
	if job = p.closed(job); job.Status.Holder == holder || job.Status.Attempts != 2 || job.Status.CloseReason != v1alpha1.CloseDone {
		t.Errorf("the job ended as %+v, first held by %s", job.Status, holder)
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// replica runs a manager until the test ends, or it ends by itself.
func replica(t *testing.T, o options, wrap transport.WrapperFunc) (manager.Manager, <-chan error) {
	t.Helper()
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	config.Wrap(wrap)
	mgr, err := newManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- mgr.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-gone })
	eventually(t, "the webhooks to be served", func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
	return mgr, ended
}
