package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// fakeAPI answers a Guard and remembers what it was told.
type fakeAPI struct {
	mu        sync.Mutex
	health    rest.Health
	err       error
	hangs     bool
	asked     int
	reports   []rest.Report
	successes []rest.Success
}

func (f *fakeAPI) Health(ctx context.Context, tool string, _ Caller) (rest.Health, error) {
	f.mu.Lock()
	f.asked++
	hangs, health, err := f.hangs, f.health, f.err
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return rest.Health{}, ctx.Err()
	}
	health.ToolName = tool
	return health, err
}

func (f *fakeAPI) Report(_ context.Context, r rest.Report) (rest.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, r)
	return rest.Verdict{Signature: "http-5xx"}, f.err
}

func (f *fakeAPI) Success(_ context.Context, s rest.Success) (rest.Health, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.successes = append(f.successes, s)
	return rest.Health{}, f.err
}

func (f *fakeAPI) set(change func(*fakeAPI)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// questions returns how often it was asked for a tool's health.
func (f *fakeAPI) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func down() rest.Health {
	return rest.Health{State: "DOWN", Text: "Currently unavailable until about 15:04: plan without it.", UserActionHint: "Renew your token."}
}

// finish sends what waits.
func finish(t *testing.T, g *Guard) {
	t.Helper()
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAToolThatIsDownIsNotCalled(t *testing.T) {
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	with := func(edit func(*rest.Health)) rest.Health {
		h := down()
		edit(&h)
		return h
	}
	for _, tc := range []struct {
		name       string
		mode       Mode
		health     rest.Health
		refused    bool
		told, asks int
	}{
		{"a tool that is OK is called", Refuse, rest.Health{State: "OK"}, false, 0, 1},
		{"one that is DEGRADED, too", Refuse, rest.Health{State: "DEGRADED"}, false, 0, 1},
		{"one that is DOWN is not", Refuse, down(), true, 1, 1},
		{"until its recovery is due", Refuse, with(func(h *rest.Health) { h.ExpectedRecoveryAt = &soon }), true, 1, 1},
		{"then the call is the test", Refuse, with(func(h *rest.Health) { h.Retesting = true }), false, 0, 1},
		{"a warning lets it pass", Warn, down(), false, 1, 1},
		{"off asks nothing", Off, down(), false, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api, told := &fakeAPI{health: tc.health}, 0
			g := NewGuard(api, GuardOptions{Mode: tc.mode, OnTrouble: func(context.Context, string, rest.Health) { told++ }, Budget: time.Minute})
			defer finish(t, g)
			err := g.Before(t.Context(), "search")
			var refused *RefusedError
			if errors.As(err, &refused) != tc.refused || told != tc.told || api.questions() != tc.asks {
				t.Errorf("%v, told %d times, asked %d times", err, told, api.questions())
			}
			if tc.refused && err.Error() != "search was not called: it is DOWN. Currently unavailable until about 15:04: plan without it. The user can do this: Renew your token." {
				t.Errorf("it says %q", err)
			}
		})
	}
	g := NewGuard(&fakeAPI{}, GuardOptions{FreshFor: time.Hour})
	defer finish(t, g)
	g.remember(subject{tool: "search"}, func(k *knowledge) {
		k.health, k.at = down(), time.Now()
		k.health.ExpectedRecoveryAt = &past
	})
	if err := g.Before(t.Context(), "search"); err != nil {
		t.Errorf("a recovery that fell due since it was asked for: %v", err)
	}
}

func TestAGuardFailsOpen(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fakeAPI)
	}{
		{"while Agrajag is away", func(f *fakeAPI) { f.err = errors.New("connection refused") }},
		{"while it is slow", func(f *fakeAPI) { f.hangs = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := &fakeAPI{health: down()}
			tc.change(api)
			g := NewGuard(api, GuardOptions{Budget: time.Millisecond})
			for range 100 {
				if err := g.Before(t.Context(), "search"); err != nil {
					t.Fatal(err)
				}
			}
			// One question for each second's rest: a hundred calls take less.
			if got := api.questions(); got > 10 {
				t.Errorf("it was asked %d times", got)
			}
			api.set(func(f *fakeAPI) { f.hangs = false })
			finish(t, g)
		})
	}
}

func TestReportsNeverBlock(t *testing.T) {
	block := make(chan struct{})
	api := blockingAPI{fakeAPI: &fakeAPI{}, block: block}
	g := NewGuard(api, GuardOptions{Mode: Off})
	for range maxQueued * 2 {
		g.Failed(t.Context(), "search", rest.ToolError{HTTPStatus: 503})
	}
	if got := g.Dropped(); got < maxQueued-1 || got > maxQueued {
		t.Errorf("%d reports were dropped", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("closed for no time at all: %v", err)
	}
	close(block)
	finish(t, g)
}

type blockingAPI struct {
	*fakeAPI
	block chan struct{}
}

func (b blockingAPI) Report(context.Context, rest.Report) (rest.Verdict, error) {
	<-b.block
	return rest.Verdict{}, nil
}

func TestASuccessIsReportedOnlyAfterTrouble(t *testing.T) {
	ctx := WithCaller(t.Context(), Caller{User: "alice", Session: "s1"})
	for _, tc := range []struct {
		name string
		run  func(*Guard)
		want []rest.Success
	}{
		{"a tool that works", func(g *Guard) { g.Worked(ctx, "search"); g.Worked(ctx, "search") }, nil},
		{"after an error", func(g *Guard) { g.Failed(ctx, "search", rest.ToolError{HTTPStatus: 503}); g.Worked(ctx, "search") },
			[]rest.Success{{ToolName: "search", OriginatingUserID: "alice", OriginatingSessionID: "s1"}}},
		{"once", func(g *Guard) {
			g.Failed(ctx, "search", rest.ToolError{HTTPStatus: 503})
			g.Worked(ctx, "search")
			g.Worked(ctx, "search")
		}, []rest.Success{{ToolName: "search", OriginatingUserID: "alice", OriginatingSessionID: "s1"}}},
		{"another caller's error is none of this one's", func(g *Guard) {
			g.Failed(t.Context(), "search", rest.ToolError{HTTPStatus: 503})
			g.Worked(ctx, "search")
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := &fakeAPI{health: rest.Health{State: "OK"}}
			g := NewGuard(api, GuardOptions{Mode: Off})
			tc.run(g)
			finish(t, g)
			for i := range api.successes {
				api.successes[i].ErrorSignature = "" // Known or not, as the report was faster or not.
			}
			if diff := cmp.Diff(tc.want, api.successes); diff != "" {
				t.Errorf("successes (-want +got):\n%s", diff)
			}
		})
	}
	api := &fakeAPI{health: rest.Health{State: "DEGRADED"}}
	g := NewGuard(api, GuardOptions{Budget: time.Minute})
	if err := g.Before(ctx, "search"); err != nil {
		t.Error(err)
	}
	g.Worked(ctx, "search")
	finish(t, g)
	if len(api.successes) != 1 {
		t.Errorf("a tool that was known to be in trouble: %v", api.successes)
	}
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	g := NewGuard(&fakeAPI{}, GuardOptions{Mode: Off})
	defer finish(t, g)
	for i := range maxKnown * 2 {
		g.remember(subject{tool: fmt.Sprint(i)}, func(*knowledge) {})
	}
	if len(g.known) > maxKnown {
		t.Errorf("%d tools", len(g.known))
	}
}

// tools is a server whose paths are answered with a status, and its guarded client.
func guarded(t *testing.T, api API, o GuardOptions) (*Guard, *http.Client, string) {
	t.Helper()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			w.Header().Set("Retry-After", "60")
			http.Error(w, strings.Repeat("maintenance ", 5000), http.StatusServiceUnavailable)
		case "/slow":
			<-r.Context().Done()
		case "/hangup":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(served.Close)
	g := NewGuard(api, o)
	tool := func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }
	return g, &http.Client{Transport: &Transport{Guard: g, Tool: tool, Base: served.Client().Transport}}, served.URL
}

func get(ctx context.Context, t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestTransportReportsWhatTheToolAnswered(t *testing.T) {
	api := &fakeAPI{health: rest.Health{State: "OK"}}
	g, c, url := guarded(t, api, GuardOptions{})
	body, err := get(t.Context(), t, c, url+"/broken")
	if err != nil || len(body) != 12*5000+1 {
		t.Errorf("the caller got %d bytes, %v: all that was sent is due", len(body), err)
	}
	if _, err := get(t.Context(), t, c, url+"/hangup"); err == nil {
		t.Error("no error")
	}
	if _, err := get(t.Context(), t, c, url+"/works"); err != nil {
		t.Error(err)
	}
	finish(t, g)
	if len(api.reports) != 2 || len(api.successes) != 0 {
		t.Fatalf("reports %+v, successes %+v", api.reports, api.successes)
	}
	first, second := api.reports[0], api.reports[1]
	if first.ToolName != "broken" || first.Error.HTTPStatus != 503 || first.Error.Headers["Retry-After"] != "60" || len(first.Error.Body) != rest.MaxErrorBody {
		t.Errorf("answered: %+v", first)
	}
	if second.ToolName != "hangup" || second.Error.HTTPStatus != 0 || second.Error.Message == "" || len(second.Error.ExceptionTypes) == 0 {
		t.Errorf("not answered: %+v", second)
	}
}

func TestTransportReportsNoCancelledCallsAndNoRefusals(t *testing.T) {
	api := &fakeAPI{health: rest.Health{State: "OK"}}
	g, c, url := guarded(t, api, GuardOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := get(ctx, t, c, url+"/slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	api.set(func(f *fakeAPI) { f.health = down() })
	var refused *RefusedError
	if _, err := get(t.Context(), t, c, url+"/works"); !errors.As(err, &refused) {
		t.Errorf("a tool that is DOWN: %v", err)
	}
	outer := &http.Client{Transport: &Transport{Guard: NewGuard(api, GuardOptions{Mode: Off}), Base: c.Transport, Tool: func(*http.Request) string { return "outer" }}}
	if _, err := get(t.Context(), t, outer, url+"/works"); !errors.As(err, &refused) {
		t.Errorf("a refusal further in: %v", err)
	}
	finish(t, outer.Transport.(*Transport).Guard)
	finish(t, g)
	if len(api.reports)+len(api.successes) != 0 {
		t.Errorf("reports %+v, successes %+v", api.reports, api.successes)
	}
}

func TestTransportLeavesOtherRequestsAlone(t *testing.T) {
	api := &fakeAPI{health: down()}
	g, c, url := guarded(t, api, GuardOptions{})
	if _, err := get(t.Context(), t, c, url+"/"); err != nil || api.questions() != 0 {
		t.Errorf("a request that calls no tool: %v, asked %d times", err, api.questions())
	}
	finish(t, g)
}
