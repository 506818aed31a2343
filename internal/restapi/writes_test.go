package restapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// What is told by a request that can be sent again is written now or not at all, and whoever tells it knows which.
func TestWhatIsNotWrittenIsTold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		path  string
		body  any
		says  string
		holds func(p project, token string) bool // once it is sent again
	}{
		{"a success", "successes", rest.Success{ToolName: "down"}, "of 1 rows 0 are written: the API server does not take it in time. Send the same again",
			func(p project, token string) bool { return p.health(token, "down", "").State == "OK" }},
		{"a connection that closes", "events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"mcp_a", "mcp_b"}}, "of 2 rows 0 are written",
			func(p project, token string) bool { return p.health(token, "mcp_b", "").State == "DOWN" }},
		{"one that opens again", "events", rest.Event{Type: rest.ConnectionReopened, ToolNames: []string{"closed"}}, "of 1 rows 0 are written",
			func(p project, token string) bool { return p.health(token, "closed", "").State == "OK" }},
		{"a session that ends", "events", rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1", OriginatingUserID: "alice"}, "of 1 rows 0 are written",
			func(p project, token string) bool { return p.in(token, "alice", "s1") == "OK" }},
		{"a tool that is to be looked at", "recheck?tool=down", nil, "the tool is not looked at: the API server does not take it in time",
			func(p project, _ string) bool { return len(p.jobs()) == 1 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newWorld(t).project("")
			token := p.runtime()
			base := "/v1/projects/" + p.name + "/"
			p.report(token, rest.Report{ToolName: "down", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
			p.report(token, clientFailed("alice", "s1"))
			p.do(token, http.MethodPost, base+"events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"closed"}}).into(http.StatusOK, &rest.EventResult{})
			eventually(t, "the rows in the cache", func() bool {
				rows, err := p.server.Checker.Store.OfSession(t.Context(), p.name, "s1", "alice")
				return err == nil && len(rows) == 1
			})
			p.outage.refuses.Store(true)
			for range 2 {
				got := p.do(token, http.MethodPost, base+tc.path, tc.body)
				if detail := got.detail(http.StatusServiceUnavailable); !strings.Contains(detail, tc.says) || got.Header.Get("Retry-After") == "" {
					t.Errorf("while the API server is away: %q", detail)
				}
			}
			for path, needsNoWrite := range map[string]any{
				"successes": rest.Success{ToolName: "works"}, "events": rest.Event{Type: rest.SessionEnded, OriginatingUserID: "bob", OriginatingSessionID: "s1"},
			} {
				if got := p.do(token, http.MethodPost, base+path, needsNoWrite); got.Status != http.StatusOK {
					t.Errorf("%+v needs no write and is answered %d: %s", needsNoWrite, got.Status, got.Body)
				}
			}
			p.outage.refuses.Store(false)
			eventually(t, "the same to be written", func() bool {
				return p.do(token, http.MethodPost, base+tc.path, tc.body).Status < 300 && tc.holds(p, token)
			})
		})
	}
}

// The API server accepts connections and answers nothing: what needs a write holds no places for long, so that what needs
// none is answered.
func TestHangingWritesTakeNoPlaces(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	known := status("warm-up", 403, forUser("alice"))
	p.report(token, known)
	p.report(token, rest.Report{ToolName: "down", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
	unclear := status("search", 503)
	p.report(token, unclear)
	eventually(t, "the cooldown and the job", func() bool {
		return p.report(token, known).Outcome == "CoolingDown" && p.report(token, unclear).Outcome == "Coalesced"
	})
	p.outage.hangs.Store(true)
	defer p.outage.hangs.Store(false)
	caller := &http.Client{Timeout: 20 * time.Second} // Far longer than any of it may take.
	type request struct {
		path string
		body any
	}
	news := func(i int) request {
		return request{"errors", status("search", 503, func(r *rest.Report) { r.Error.Message = fmt.Sprint("message ", i) })}
	}
	storm := func(n int) {
		var group sync.WaitGroup
		for i := range n {
			next := []request{{"successes", rest.Success{ToolName: "down"}}, {"recheck?tool=down", nil}, news(i),
				{"events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"mcp_a", "mcp_b"}}}}[i%4]
			group.Go(func() {
				code, answer, err := p.send(caller, token, next.path, next.body)
				if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[next.path == "errors"]; err != nil || code != want {
					t.Errorf("%+v is answered %d, %v: %s", next, code, err, answer)
				}
			})
		}
		group.Wait()
	}
	storm(maxPerCaller)
	if t.Failed() {
		return
	}
	var group sync.WaitGroup
	ended := make(chan struct{})
	group.Go(func() { // As many as leave a place, over and over.
		for {
			select {
			case <-ended:
				return
			default:
				storm(maxPerCaller - 1)
			}
		}
	})
	for i := range 200 {
		if v, err := post(caller, p, token, known); err != nil || v.Outcome != "CoolingDown" || !v.Stored {
			t.Errorf("report %d, which needs no write: %v, %+v", i, err, v)
		}
		if v, err := post(caller, p, token, unclear); err != nil || v.Outcome != "Coalesced" || !v.Stored {
			t.Errorf("report %d of what is being diagnosed: %v, %+v", i, err, v)
		}
	}
	close(ended)
	group.Wait()
	p.outage.hangs.Store(false)
	eventually(t, "a success", func() bool {
		code, _, err := p.send(caller, token, "successes", rest.Success{ToolName: "down"})
		return err == nil && code == http.StatusOK && p.health(token, "down", "").State == "OK"
	})
}

// send posts to the project from any goroutine.
func (p project) send(caller *http.Client, token, path string, body any) (code int, answer []byte, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequest(http.MethodPost, p.url+"/v1/projects/"+p.name+"/"+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := caller.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// While the API server is away, one write a second finds out whether it is back.
func TestOneWriteFindsOutWhetherTheAPIServerIsBack(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC))
	away := errors.New("connection refused")
	l := NewLate(clock)
	tries := 0
	now := func(err error) error {
		return l.Now(t.Context(), func(context.Context) error { tries++; return err })
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		do    func() error
		want  error
		tries int
	}{
		{"it goes away", 0, func() error { return now(away) }, away, 1},
		{"a moment later", 0, func() error { return now(nil) }, errAway, 0},
		{"a report a moment later", 0, func() error {
			return errors.New(l.Do(t.Context(), "a", func(context.Context) error { tries++; return nil }))
		}, errors.New(storedLater), 0},
		{"while one finds out", lateEvery, func() error {
			return l.Now(t.Context(), func(context.Context) error { tries++; return now(nil) })
		}, errAway, 1},
		{"it is still away", lateEvery, func() error { return now(away) }, away, 1},
		{"it is back", lateEvery, func() error { return now(nil) }, nil, 1},
		{"at once", 0, func() error { return now(nil) }, nil, 1},
	} {
		clock.Step(step.after)
		tries = 0
		if err := step.do(); fmt.Sprint(err) != fmt.Sprint(step.want) || tries != step.tries {
			t.Errorf("%s: %v after %d tries, want %v after %d", step.name, err, tries, step.want, step.tries)
		}
	}
}
