package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// startReplica runs one of several managers, of which one leads, and returns how to end it.
func startReplica(t *testing.T, o options, wrap transport.WrapperFunc) (mgr ctrl.Manager, stop func()) {
	t.Helper()
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	config.Wrap(wrap)
	o.leaderElect = true
	if mgr, err = newManager(config, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not fill")
	}
	return mgr, stop
}

// twoReplicas runs two managers, the first of which leads, and returns a client of each.
func twoReplicas(t *testing.T, p project, wrap transport.WrapperFunc) (leader, other *client.Client, stopLeader func()) {
	t.Helper()
	first, second := testOptions(), testOptions()
	second.webhookPort = freePort(t)
	toFirst, toSecond := served(t, &first), served(t, &second)
	mgr, stopLeader := startReplica(t, first, wrap)
	select {
	case <-mgr.Elected():
	case <-time.After(time.Minute):
		t.Fatal("nobody was elected")
	}
	startReplica(t, second, wrap)
	return toFirst(p), toSecond(p), stopLeader
}

func TestTwoReplicasAgree(t *testing.T) {
	p, counted := newProject(t), &writes{}
	counted.in(p)
	server := sampletools.NewMCPServer()
	p.mcpTool("search", serveTool(t, server), "search")
	leader, other, stopLeader := twoReplicas(t, p, counted.wrap)

	t.Run("on a cooldown that one of them started", func(t *testing.T) {
		forbidden := rest.Report{ToolName: "calendar", OriginatingUserID: "alice", Error: &rest.ToolError{HTTPStatus: 403}}
		if v, err := other.Report(t.Context(), forbidden); err != nil || v.Outcome != "Classified" {
			t.Fatalf("%+v, %v", v, err)
		}
		began := time.Now()
		eventually(t, "the leader to know the cooldown", func() error {
			h, err := leader.Health(t.Context(), "calendar", client.Caller{User: "alice"})
			if err == nil && len(h.Cooldowns) == 0 {
				err = errors.New("no cooldown")
			}
			return err
		})
		t.Logf("agreed after %s", time.Since(began).Round(time.Millisecond))
		if v, err := leader.Report(t.Context(), forbidden); err != nil || v.Outcome != "CoolingDown" {
			t.Errorf("the leader says %+v, %v", v, err)
		}
		if row := p.row(v1alpha1.ScopeUser, "alice", "calendar"); row == nil || row.Status.Cooldowns[0].Hits != 1 {
			t.Errorf("the row is %+v", row)
		}
	})

	t.Run("and nothing is written twice", func(t *testing.T) {
		counted.since()
		for i := range 20 { // Some of them would meet the leader, which writes conditions.
			if _, err := other.Report(t.Context(), rest.Report{ToolName: fmt.Sprint("calendar-", i), Error: &rest.ToolError{HTTPStatus: 403}}); err != nil {
				t.Fatal(err)
			}
		}
		want := slices.Concat(slices.Repeat([]string{"POST toolhealths"}, 20), slices.Repeat([]string{"PUT toolhealths/status"}, 20))
		seen := slices.DeleteFunc(counted.since(), func(write string) bool { return !strings.Contains(write, "toolhealths") })
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("writes of 20 verdicts (-want +got):\n%s", diff)
		}
	})

	t.Run("a recheck through the one that does not lead waits for the one that does", func(t *testing.T) {
		eventually(t, "the Tool to be known", func() error {
			v, err := other.Report(t.Context(), rest.Report{ToolName: "search", OriginatingUserID: "bob", Error: &rest.ToolError{HTTPStatus: 403}})
			if err == nil && !v.ToolKnown {
				err = errors.New("not known")
			}
			return err
		})
		r, err := other.Recheck(t.Context(), "search", client.Caller{}, 30*time.Second)
		if err != nil || !r.Done || r.Health.State != "OK" || server.Searches() == 0 {
			t.Errorf("%+v, %v after %d probes", r, err, server.Searches())
		}
	})

	t.Run("one is stopped under load, and no request hangs", func(t *testing.T) {
		var group sync.WaitGroup
		answers := make(chan error, 64)
		for range cap(answers) {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := leader.Report(ctx, rest.Report{ToolName: "calendar", OriginatingUserID: "alice", Error: &rest.ToolError{HTTPStatus: 403}})
				if errors.Is(err, context.DeadlineExceeded) {
					err = fmt.Errorf("hangs: %w", err)
				} else {
					err = nil // An answer, or a connection that ended.
				}
				answers <- err
			})
		}
		stopLeader()
		group.Wait()
		close(answers)
		for err := range answers {
			if err != nil {
				t.Error(err)
			}
		}
		// The other one takes over: it answers at once, and it leads soon.
		if v, err := other.Report(t.Context(), rest.Report{ToolName: "calendar", OriginatingUserID: "alice", Error: &rest.ToolError{HTTPStatus: 403}}); err != nil || v.Outcome != "CoolingDown" {
			t.Errorf("%+v, %v", v, err)
		}
		// A diagnosis a moment ago stands for another look, so nothing is looked at again before the pause is over.
		eventually(t, "a diagnosis by the one that is left", func() error {
			r, err := other.Recheck(t.Context(), "calendar", client.Caller{}, 10*time.Second)
			if err == nil && !r.Done {
				err = errors.New(r.Message)
			}
			return err
		})
	})
}
