package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

func sampleMCP(t *testing.T) (*sampletools.MCPServer, string) {
	t.Helper()
	server := sampletools.NewMCPServer()
	url := serve(t, server.ServeHTTP)
	t.Cleanup(server.Heal)
	return server, url + "/mcp"
}

func mcpReadOnly(tool string) func(*v1alpha1.ToolSpec) {
	return func(s *v1alpha1.ToolSpec) {
		s.Safety = v1alpha1.SafetyWrite
		s.Endpoint.MCP.Tool = "create_ticket"
		s.Probe.ReadOnlyCall = &v1alpha1.ReadOnlyCall{MCP: &v1alpha1.MCPReadOnlyCall{Tool: v1alpha1.ToolName(tool)}}
	}
}

func TestMCPProbeOfASampleTool(t *testing.T) {
	status := func(code int32) *int32 { return &code }
	tool := func(name string) func(*v1alpha1.ToolSpec) {
		return func(s *v1alpha1.ToolSpec) { s.Endpoint.MCP.Tool = v1alpha1.ToolName(name) }
	}
	for _, tc := range []struct {
		name         string
		prepare      func(*sampletools.MCPServer)
		id           Identity
		changes      []func(*v1alpha1.ToolSpec)
		want         Result // Error holds what must be equal, its texts what must be contained
		wantSearches int
	}{
		{"works", func(*sampletools.MCPServer) {}, user(), nil,
			Result{Success: true, StatusCode: 200}, 1},
		{"answers as expected", func(*sampletools.MCPServer) {}, system, []func(*v1alpha1.ToolSpec){expect(nil, "HITCH hiker")},
			Result{Success: true, StatusCode: 200}, 1},
		{"answers something else", func(*sampletools.MCPServer) {}, system, []func(*v1alpha1.ToolSpec){expect(nil, "Vogon")},
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Message: `does not contain "Vogon"`}}, 1},
		{"a tool that writes is probed by one that reads", func(*sampletools.MCPServer) {}, system, []func(*v1alpha1.ToolSpec){mcpReadOnly("search")},
			Result{Success: true, StatusCode: 200}, 1},
		{"knows its token", func(s *sampletools.MCPServer) { s.RequireToken(token) }, user(), nil,
			Result{Success: true, StatusCode: 200}, 1},
		{"refuses another token", func(s *sampletools.MCPServer) { s.RequireToken("other") }, user(), nil,
			Result{StatusCode: 401, Error: &v1alpha1.ToolError{HTTPStatus: status(401), Message: "HTTP 401 Unauthorized", Body: "unauthorized"}}, 0},
		{"asks for a token", func(s *sampletools.MCPServer) { s.RequireToken("other") }, system, nil,
			Result{StatusCode: 401, AuthChallenge: true, Error: &v1alpha1.ToolError{HTTPStatus: status(401), Message: "HTTP 401", Body: "unauthorized"}}, 0},
		{"is unavailable", func(s *sampletools.MCPServer) {
			s.FailHTTP(sampletools.Answer{Status: 503, Body: "closed for tea", Headers: map[string]string{"Retry-After": "7"}})
		}, user(), nil,
			Result{StatusCode: 503, Error: &v1alpha1.ToolError{HTTPStatus: status(503), Message: "HTTP 503 Service Unavailable", Body: "closed for tea"}}, 0},
		{"is gone", func(s *sampletools.MCPServer) { s.FailHTTP(sampletools.Answer{Status: 404, Body: "no such page"}) }, user(), nil,
			Result{StatusCode: 404, Error: &v1alpha1.ToolError{HTTPStatus: status(404), Message: "HTTP 404 Not Found", Body: "no such page"}}, 0},
		{"speaks no MCP", func(s *sampletools.MCPServer) { s.FailHTTP(sampletools.Answer{Status: 200, Body: "<html>"}) }, user(), nil,
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Message: `unsupported content type`}}, 0},
		{"speaks broken JSON", func(s *sampletools.MCPServer) { s.FailHTTP(sampletools.Answer{Status: 200, Body: "{"}) }, user(), nil,
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Message: "failed to decode response"}}, 0},
		{"fails itself", func(s *sampletools.MCPServer) { s.FailTool("the index is corrupt") }, user(), nil,
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Body: `"text":"the index is corrupt"`}}, 1},
		{"gives a JSON-RPC error", func(s *sampletools.MCPServer) { s.FailRPC(-32050, "index locked") }, user(), nil,
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Message: "index locked", ErrorCode: "-32050"}}, 1},
		{"does not have the tool", func(*sampletools.MCPServer) {}, user(), []func(*v1alpha1.ToolSpec){tool("nonesuch")},
			Result{StatusCode: 200, Error: &v1alpha1.ToolError{Message: `unknown tool "nonesuch"`, ErrorCode: "-32602"}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, url := sampleMCP(t)
			tc.prepare(server)
			got := probe(t, mcpTool(url, tc.changes...), tc.id)
			tc.want.As, tc.want.Possible = tc.id.As, true
			contained := cmp.Options{
				cmpopts.IgnoreFields(Result{}, "At", "Duration"),
				cmpopts.IgnoreFields(v1alpha1.ToolError{}, "Headers", "Message", "Body", "ExceptionTypes", "Host"),
			}
			if diff := cmp.Diff(tc.want, got, contained); diff != "" {
				t.Fatalf("%+v (-want +got):\n%s", got.Error, diff)
			}
			if got.Error != nil && (!strings.Contains(got.Error.Message, tc.want.Error.Message) || !strings.Contains(got.Error.Body, tc.want.Error.Body)) {
				t.Errorf("got message %q and body %q", got.Error.Message, got.Error.Body)
			}
			if server.Searches() != tc.wantSearches || server.Tickets() != 0 {
				t.Errorf("%d searches, want %d; %d tickets, want none", server.Searches(), tc.wantSearches, server.Tickets())
			}
			if server.Requests() > 6 {
				t.Errorf("it took %d requests", server.Requests())
			}
		})
	}
}

func TestTheHeadersOfAnMCPFailureAreKept(t *testing.T) {
	server, url := sampleMCP(t)
	server.FailHTTP(sampletools.Answer{Status: 503, Headers: map[string]string{"Retry-After": "7"}})
	if got := probe(t, mcpTool(url), system); got.Error == nil || got.Error.Headers["Retry-After"] != "7" {
		t.Errorf("got %+v", got)
	}
}

func TestAToolThatHangsIsATimeout(t *testing.T) {
	server, url := sampleMCP(t)
	server.Hang()
	got := probe(t, mcpTool(url, func(s *v1alpha1.ToolSpec) { s.Probe.TimeoutSeconds = 1 }), user())
	if !got.Possible || got.Success || got.Error == nil || !strings.Contains(fmt.Sprint(got.Error.ExceptionTypes), timeoutType) {
		t.Fatalf("got %+v", got)
	}
	if got.Duration < time.Second || got.Duration > 2*time.Second {
		t.Errorf("got a duration of %s for a timeout of 1 s", got.Duration)
	}
}

// legacy answers MCP by hand, as servers do that only know initialize.
func legacy(answers map[string]string, requests *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var call struct {
			ID     any
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &call)
		answer, known := answers[call.Method]
		if call.Method == "tools/list" && !known {
			answer, known = `"result":{"tools":[{"name":"search","inputSchema":{"type":"object"}}]}`, true
		}
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case call.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "1")
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`
			fallthrough
		case known:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,%s}`, call.ID, answer)
		case call.ID == nil || call.Method == "": // a notification, or an answer to what the server asked
			w.WriteHeader(http.StatusAccepted)
		default:
			http.Error(w, "unexpected "+call.Method, http.StatusBadRequest)
		}
	}
}

func TestMCPServersThatOnlyKnowInitialize(t *testing.T) {
	large := strings.Repeat("x", maxAnswer)
	for _, tc := range []struct {
		name, answer string
		want         func(Result) bool
	}{
		{"a result", `"result":{"content":[{"type":"text","text":"fine"}]}`, func(r Result) bool { return r.Success }},
		{"a result without content", `"result":{}`, func(r Result) bool { return r.Success }},
		{"structured content", `"result":{"isError":true,"content":[],"structuredContent":{"reason":"no ink"}}`,
			func(r Result) bool {
				return r.Error != nil && strings.Contains(r.Error.Body, `{\"reason\":\"no ink\"}`)
			}},
		{"an error that shows the token", `"error":{"code":-1,"message":"no such token: ` + token + `"}`,
			func(r Result) bool {
				return r.Error != nil && strings.HasSuffix(r.Error.Message, "no such token: [redacted]")
			}},
		{"an error of its own", `"error":{"code":-1,"message":"no"}`, func(r Result) bool { return r.Error != nil && r.Error.ErrorCode == "-1" }},
		{"the code that the SDK uses for itself", `"error":{"code":-32005,"message":"no"}`, func(r Result) bool { return r.Possible && !r.Success }},
		{"an answer of another shape", `"result":[1,2]`, func(r Result) bool { return r.Possible && !r.Success && r.Error.Message != "" }},
		{"an answer that is null", `"result":null`, func(r Result) bool { return r.Impossible == "" }},
		{"content that is null", `"result":{"content":[null]}`, func(r Result) bool { return r.Impossible == "" }},
		{"content without a kind", `"result":{"content":[{"type":""}]}`, func(r Result) bool { return r.Impossible == "" && !r.Success }},
		{"an answer that is too large", `"result":{"content":[{"type":"text","text":"` + large + `"}]}`,
			func(r Result) bool {
				return !r.Possible && strings.Contains(r.Impossible, "larger than 64 KiB: choose")
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int32
			got := probe(t, mcpTool(serve(t, legacy(map[string]string{"tools/call": tc.answer}, &requests))), user())
			if !tc.want(got) {
				t.Errorf("got %+v %+v", got, got.Error)
			}
			if requests.Load() != 6 { // server/discover, initialize, initialized, tools/list, tools/call and the closing
				t.Errorf("it took %d requests", requests.Load())
			}
		})
	}
}

func TestAStreamWithoutEndIsBounded(t *testing.T) {
	for name, event := range map[string]string{
		"comments":      ": nothing\n\n",
		"notifications": "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n",
		"questions":     "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n",
		"one long line": "x",
		"event ids":     "id: 1\ndata:\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			var requests, written atomic.Int64
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "text/event-stream")
				for r.Context().Err() == nil && written.Load() < 256<<20 {
					n, err := io.WriteString(w, strings.Repeat(event, 100))
					written.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			start := time.Now()
			got := probe(t, mcpTool(url, func(s *v1alpha1.ToolSpec) { s.Probe.TimeoutSeconds = 2 }), user())
			if got.Success {
				t.Errorf("got %+v", got)
			}
			if took := time.Since(start); took > hangs {
				t.Errorf("it took %s", took)
			}
			// Two megabytes or so of each answer wait in the sockets' buffers.
			if requests.Load() > maxExchanges+1 || written.Load() > 128<<20 {
				t.Errorf("%d requests, %d bytes", requests.Load(), written.Load())
			}
		})
	}
}

// between lets the test answer some calls itself, and the rest as legacy does.
func between(t *testing.T, own func(w http.ResponseWriter, r *http.Request, method string) bool) string {
	t.Helper()
	var requests atomic.Int32
	rest := legacy(nil, &requests)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		var call struct{ Method string }
		_ = json.Unmarshal(body, &call)
		if !own(w, r, call.Method) {
			rest(w, r)
		}
	})
}

func TestTheClosingOfASessionHidesNoFailure(t *testing.T) {
	var closed atomic.Bool
	url := between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		if r.Method == http.MethodDelete {
			closed.Store(true)
		}
		if method == "notifications/initialized" {
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return true
		}
		return false
	})
	got := probe(t, mcpTool(url), system)
	if !closed.Load() || got.StatusCode != http.StatusInternalServerError || got.Error == nil || got.Error.HTTPStatus == nil || !strings.Contains(got.Error.Body, "out of memory") {
		t.Errorf("closed: %t, got %+v %+v", closed.Load(), got, got.Error)
	}
}

// hangs is longer than any probe takes, however slow the machine is, and shorter than one that is stuck.
const hangs = time.Minute

func TestAServerThatHangsOnClosingHoldsNothingUp(t *testing.T) {
	url := between(t, func(_ http.ResponseWriter, r *http.Request, method string) bool {
		if r.Method != http.MethodDelete && method != "tools/call" {
			return false
		}
		<-r.Context().Done()
		return true
	})
	start := time.Now()
	got := probe(t, mcpTool(url, func(s *v1alpha1.ToolSpec) { s.Probe.TimeoutSeconds = 1 }), system)
	if took := time.Since(start); took > hangs || got.Success {
		t.Errorf("it took %s, got %+v", took, got)
	}
}

func TestABrokenStreamIsNotTriedAgain(t *testing.T) {
	var gets atomic.Int32
	url := between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		if r.Method == http.MethodGet {
			gets.Add(1)
		}
		if method != "tools/call" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\ndata:\n\n")
		return true
	})
	got := probe(t, mcpTool(url), system)
	if gets.Load() != 0 || !got.Possible || got.Success || got.Error == nil || got.Duration > 5*time.Second {
		t.Errorf("%d more requests, got %+v", gets.Load(), got)
	}
}

func TestAnEarlierStreamSaysNothingAboutALaterAnswer(t *testing.T) {
	called, flooded := make(chan struct{}), make(chan struct{})
	url := between(t, func(w http.ResponseWriter, _ *http.Request, method string) bool {
		switch method {
		case "initialize":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{},`+
				`"serverInfo":{"name":"old","version":"1"}}}`+"\n\n")
			w.(http.Flusher).Flush()
			<-called
			defer close(flooded)
			for range 1024 {
				if _, err := io.WriteString(w, strings.Repeat("\n", 64<<10)); err != nil {
					break
				}
			}
			return true
		case "tools/call":
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			close(called)
			<-flooded
			time.Sleep(50 * time.Millisecond) // for the client to see its end of the flood
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":4,"error":{"code":-7,"message":"no"}}`)
			return true
		}
		return false
	})
	got := probe(t, mcpTool(url), system)
	if !got.Possible || got.Error == nil || got.Error.ErrorCode != "-7" {
		t.Errorf("got %+v %+v", got, got.Error)
	}
}

func TestAToolThatAsksForMoreIsNoFailure(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "curious"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{Message: "who are you?"}},
			}, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	got := probe(t, mcpTool(serve(t, handler.ServeHTTP)), user())
	if got.Possible || !strings.Contains(got.Impossible, "complete spec.probe.input") {
		t.Errorf("got %+v %+v", got, got.Error)
	}
}

func TestWhatAnMCPProbeSends(t *testing.T) {
	var mu sync.Mutex
	var calls, methods, offers []string
	sample := sampletools.NewMCPServer()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		var call struct {
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
				// Capabilities are what the client offers the server.
				Capabilities json.RawMessage
			}
		}
		_ = json.Unmarshal(body, &call)
		mu.Lock()
		methods = append(methods, r.Method+" "+r.Header.Get("X-Token"))
		if call.Method == "tools/call" {
			calls = append(calls, call.Params.Name+string(call.Params.Arguments))
		}
		if call.Method == "initialize" {
			offers = append(offers, string(call.Params.Capabilities))
		}
		mu.Unlock()
		sample.ServeHTTP(w, r)
	})
	empty := ""
	inHeader := func(s *v1alpha1.ToolSpec) {
		s.Credentials = &v1alpha1.ToolCredentials{Scheme: &empty, Header: "X-Token"}
	}
	noInput := func(s *v1alpha1.ToolSpec) { s.Probe.Input, s.Endpoint.MCP.Tool = nil, "unlisted" }
	exact := func(s *v1alpha1.ToolSpec) {
		s.Probe.Input, s.Endpoint.MCP.Tool = &apiextensionsv1.JSON{Raw: []byte(`{"q":"x","n":12345678901234567890}`)}, "unlisted"
	}
	probe(t, mcpTool(url, inHeader, exact), user())
	probe(t, mcpTool(url, inHeader, noInput), user())
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{`unlisted{"q":"x","n":12345678901234567890}`, `unlisted{}`}, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(offers) == 0 || slices.ContainsFunc(offers, func(offer string) bool { return offer != "{}" }) {
		t.Errorf("it offers the server %q", offers)
	}
	for _, method := range methods {
		if method != "POST "+token && method != "DELETE "+token {
			t.Errorf("it sent %s", method)
		}
	}
}

func TestProbesLeaveNothingBehind(t *testing.T) {
	server, url := sampleMCP(t)
	api := sampletools.NewHTTPAPI(token)
	apiURL := serve(t, api.ServeHTTP)
	prober := prober(t)
	overMCP, overHTTP := target(t, mcpTool(url)), target(t, httpTool(apiURL+"/v1/search"))
	round := func() {
		server.Heal()
		for _, fail := range []func(){server.Heal, func() { server.FailTool("broken") }, func() { server.FailHTTP(sampletools.Answer{Status: 503}) }} {
			fail()
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() { prober.Probe(t.Context(), overMCP, user(), overMCP.Input) })
				group.Go(func() { prober.Probe(t.Context(), overHTTP, user(), Input{}) })
			}
			group.Wait()
		}
	}
	round()
	before := settled()
	for range 5 {
		round()
	}
	if after := settled(); after > before+5 {
		t.Errorf("%d goroutines became %d", before, after)
	}
}

// settled returns the number of goroutines once those that are about to end have ended.
func settled() int {
	least := runtime.NumGoroutine()
	for range 20 {
		time.Sleep(20 * time.Millisecond)
		least = min(least, runtime.NumGoroutine())
	}
	return least
}
