package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// A leader that cannot renew its lease, although all else works, lets its conversation go before another one leads, which
// runs the job again, once. It goes on as a process, and leads anew when that one is gone.
func TestALostLeaseCancelsTheRun(t *testing.T) {
	model, o := newSlowOnce(), testOptions()
	o.leaderElect, o.models, o.modelEndpoint = true, "some-model", serveTool(t, model)
	var cut atomic.Bool
	first, firstEnded := replica(t, o, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if cut.Load() && strings.Contains(r.URL.Path, "/leases/") {
				<-r.Context().Done() // Nobody answers.
				return nil, r.Context().Err()
			}
			return next.RoundTrip(r)
		})
	})
	<-first.Elected()
	leading, err := leaseHolder(t)
	if err != nil {
		t.Fatal(err)
	}
	o.webhookPort = freePort(t)
	second, stopSecond := startReplica(t, o, nil)
	p := newProject(t)
	job := p.job("chess", "", status(500))
	p.must(p.user("alice").Create(t.Context(), job))
	holder := model.running(t, job)
	cut.Store(true)
	<-second.Elected()
	if n := model.letGo.Load(); n != 1 {
		t.Errorf("another one leads, and %d conversations were let go", n)
	}
	if job = p.closed(job); job.Status.Holder == holder || job.Status.Attempts != 2 || job.Status.CloseReason != v1alpha1.CloseDone {
		t.Errorf("the job ended as %+v, first held by %s", job.Status, holder)
	}
	cut.Store(false)
	stopSecond()
	eventually(t, "the first to lead again", func() error {
		if now, err := leaseHolder(t); now != leading {
			return fmt.Errorf("%q leads: %w", now, err)
		}
		return nil
	})
	select {
	case err := <-firstEnded:
		t.Errorf("the process that lost its lease ended with: %v", err)
	default:
	}
	again := p.job("draughts", "", status(500))
	p.must(p.user("alice").Create(t.Context(), again))
	if again = p.closed(again); again.Status.Attempts != 1 || again.Status.Holder == holder || again.Status.Holder == job.Status.Holder {
		t.Errorf("a job of its second term, after %s and %s, ended as %+v", holder, job.Status.Holder, again.Status)
	}
	if n := len(model.Requests()); n != 3 {
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
