package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// deafAPI says of every tool that it is DOWN, once it is released, and hears of no context that ends, as a Token that is
// fetched over a network.
type deafAPI struct {
	*fakeAPI
	release chan struct{}
}

func deaf() deafAPI { return deafAPI{&fakeAPI{health: down()}, make(chan struct{})} }

func (d deafAPI) Health(ctx context.Context, tool string, caller Caller) (rest.Health, error) {
	health, err := d.fakeAPI.Health(ctx, tool, caller)
	<-d.release
	return health, err
}

// asked has n callers ask before a call, waits until none of them gets on, and returns how many were refused by then.
func asked(ctx context.Context, t *testing.T, g *Guard, n int, tool func(i int) string) *atomic.Int64 {
	t.Helper()
	refused := &atomic.Int64{}
	for i := range n {
		go func() {
			if g.Before(ctx, tool(i)) != nil {
				refused.Add(1)
			}
		}()
	}
	synctest.Wait()
	return refused
}

func search(int) string { return "search" }

func TestAllCallersOfATool(t *testing.T) {
	const callers = 4 * maxAsking
	t.Run("share one question, and none calls a tool that is DOWN", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := deaf()
			g := NewGuard(api, GuardOptions{})
			refused := asked(t.Context(), t, g, callers, search)
			close(api.release)
			synctest.Wait()
			if refused.Load() != callers || api.questions() != 1 {
				t.Errorf("of %d callers %d were refused, after %d questions", callers, refused.Load(), api.questions())
			}
			time.Sleep(DefaultFreshFor)
			if n := asked(t.Context(), t, g, callers, search).Load(); n != callers || api.questions() != 2 {
				t.Errorf("when that is no longer fresh, %d are refused, after %d questions", n, api.questions())
			}
			finish(t, g)
		})
	})
	t.Run("wait no longer than their own budget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := deaf()
			g := NewGuard(api, GuardOptions{Budget: time.Minute})
			hasty, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now() // The bubble's clock: it moves as it is slept, and no further.
			if err := g.Before(hasty, "search"); err != nil || time.Since(start) != time.Second {
				t.Errorf("a caller with a second left goes on after %s: %v", time.Since(start), err)
			}
			if err := g.Before(t.Context(), "search"); err != nil || time.Since(start) != time.Second+time.Minute {
				t.Errorf("one with time goes on after %s: %v", time.Since(start), err)
			}
			close(api.release)
			finish(t, g)
		})
	})
	t.Run("get an answer though the one who asked first gave up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := deaf()
			g := NewGuard(api, GuardOptions{})
			first, cancel := context.WithCancel(t.Context())
			asked(first, t, g, 1, search)
			refused := asked(t.Context(), t, g, callers, search)
			cancel()
			synctest.Wait()
			close(api.release)
			synctest.Wait()
			if refused.Load() != callers || api.questions() != 1 {
				t.Errorf("%d were refused, after %d questions", refused.Load(), api.questions())
			}
			finish(t, g)
		})
	})
}

func TestQuestionsThatNobodyWaitsForAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := deaf()
		g := NewGuard(api, GuardOptions{})
		gaveUp, cancel := context.WithCancel(t.Context())
		asked(gaveUp, t, g, 10*maxAsking, func(i int) string { return fmt.Sprint("tool-", i) })
		cancel() // That a caller gives up lets no question end, so that they would pile up.
		synctest.Wait()
		if n := api.questions(); n != maxAsking {
			t.Errorf("%d questions are under way", n)
		}
		if err := g.Before(t.Context(), "search"); err != nil {
			t.Errorf("one for which there is no room: %v", err)
		}
		if g.Before(gaveUp, "search") != nil || api.questions() != maxAsking {
			t.Error("a caller who gave up before is asked for")
		}
		close(api.release)
		synctest.Wait()
		if err := g.Before(t.Context(), "search"); !IsRefused(err) { // Nobody took those who gave up for Agrajag's silence.
			t.Errorf("when there is room again: %v", err)
		}
		finish(t, g)
	})
}

// troubledAPI answers for one tool as it is told to, and that all others are DOWN.
type troubledAPI struct {
	*fakeAPI
	answer func(context.Context) error
}

func (a troubledAPI) Health(ctx context.Context, tool string, caller Caller) (rest.Health, error) {
	if health, err := a.fakeAPI.Health(ctx, tool, caller); tool != "troubled" {
		return health, err
	}
	return rest.Health{}, a.answer(ctx)
}

func TestWhatLetsAGuardRest(t *testing.T) {
	status := func(code int) func(context.Context) error {
		return func(context.Context) error { return &ProblemError{rest.Problem{Status: code}} }
	}
	for _, tc := range []struct {
		name   string
		answer func(context.Context) error
		// left is how much time the caller has; 0: as much as it takes.
		left time.Duration
		rest bool
	}{
		{"a name that is none does not", status(http.StatusBadRequest), 0, false},
		{"a project that is not there does not", status(http.StatusNotFound), 0, false},
		{"a user for whom the caller may not ask does not", status(http.StatusForbidden), 0, false},
		{"too many requests do", status(http.StatusTooManyRequests), 0, true},
		{"a server in trouble does", status(http.StatusServiceUnavailable), 0, true},
		{"what something between us answers does", status(http.StatusFound), 0, true},
		{"a network that fails does", func(context.Context) error { return errors.New("connection refused") }, 0, true},
		{"an answer that is late does", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0, true},
		{"a caller's own deadline that had passed before does not", status(http.StatusBadRequest), -time.Second, false},
		{"one that passes meanwhile does not", func(context.Context) error { time.Sleep(2 * time.Millisecond); return nil }, time.Millisecond, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := troubledAPI{&fakeAPI{health: down()}, tc.answer}
				g := NewGuard(api, GuardOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				if tc.left != 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tc.left)
				}
				defer cancel()
				if err := g.Before(ctx, "troubled"); err != nil {
					t.Error(err)
				}
				if err := g.Before(t.Context(), "search"); IsRefused(err) == tc.rest {
					t.Errorf("then another tool that is DOWN: %v", err)
				}
				time.Sleep(restAfterFailure)
				if err := g.Before(t.Context(), "other"); !IsRefused(err) {
					t.Errorf("a second later: %v", err)
				}
				finish(t, g)
			})
		})
	}
}

// What Agrajag does not answer for one name is not asked again for each call of it.
func TestARefusedQuestionIsRemembered(t *testing.T) {
	api := &fakeAPI{err: &ProblemError{rest.Problem{Status: http.StatusBadRequest}}}
	g := NewGuard(api, GuardOptions{Budget: time.Minute, FreshFor: time.Hour})
	for range 10 {
		if err := g.Before(t.Context(), "troubled"); err != nil {
			t.Error(err)
		}
	}
	if n := api.questions(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	finish(t, g)
}

func TestTheStatusOfAProblemIsTheAnswersOwn(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, `{"status":400,"title":"what something between us says"}`)
	}))
	defer served.Close()
	c, err := New(Options{URL: served.URL, Project: "shop", Token: func() (string, error) { return "a token", nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Health(t.Context(), "search", Caller{})
	if problem := (&ProblemError{}); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable || isRefusal(err) {
		t.Errorf("%v", err)
	}
}
