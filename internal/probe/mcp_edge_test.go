package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// library serves a real MCP server with one tool, in one of the ways in which servers differ.
func library(t *testing.T, options *mcp.StreamableHTTPOptions, search mcp.ToolHandler) http.Handler {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "library"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: map[string]any{"type": "object"}}, search)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
}

func says(text string) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// legacyOnly refuses what only the newest protocol knows, so that a client falls back to initialize and sessions.
func legacyOnly(next http.Handler, methods *sync.Map) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &message)
		count, _ := methods.LoadOrStore(r.Method+" "+message.Method, &atomic.Int32{})
		count.(*atomic.Int32).Add(1)
		if message.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, message.ID)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	}
}

func timesOf(methods *sync.Map, method string) int32 {
	count, ok := methods.Load(method)
	if !ok {
		return 0
	}
	return count.(*atomic.Int32).Load()
}

// TestServersOfEveryKindAnswer: real servers, with the newest protocol and with initialize, with sessions and without,
// with JSON and with events.
func TestServersOfEveryKindAnswer(t *testing.T) {
	for name, options := range map[string]mcp.StreamableHTTPOptions{
		"events, with sessions": {}, "JSON, with sessions": {JSONResponse: true}, "events, stateless": {Stateless: true}, "JSON, stateless": {Stateless: true, JSONResponse: true},
	} {
		for _, old := range []bool{false, true} {
			for _, works := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, old %t, works %t", name, old, works), func(t *testing.T) {
					handle := says("a towel")
					if !works {
						handle = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
							return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no ink"}}}, nil
						}
					}
					handler, methods := library(t, &options, handle), &sync.Map{}
					if old {
						handler = legacyOnly(handler, methods)
					}
					got := probe(t, mcpTool(serve(t, handler.ServeHTTP), expect(nil, "TOWEL")), system)
					if got.Success != works || !got.Possible || !works && got.Error.Body != `{"content":[{"type":"text","text":"no ink"}],"isError":true}` {
						t.Errorf("got %+v %+v", got, got.Error)
					}
					if old && !options.Stateless && timesOf(methods, "DELETE ") != 1 {
						t.Error("the session was not closed")
					}
					if n := timesOf(methods, "GET "); n != 0 {
						t.Errorf("%d standing streams were opened", n)
					}
				})
			}
		}
	}
}

// TestALostSessionIsOpenedAnewOnce, as when the server restarts between two requests.
func TestALostSessionIsOpenedAnewOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		at      string // the method at which sessions are lost
		times   int32  // how often
		want    bool
		opened  int32
		wantErr string
	}{
		{"at the list", "tools/list", 1, true, 2, ""},
		{"at the call", "tools/call", 1, true, 2, ""},
		{"at every call", "tools/call", 100, false, 2, "HTTP 404 Not Found"},
		{"at every list", "tools/list", 100, false, 2, "HTTP 404 Not Found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handler, methods := library(t, &mcp.StreamableHTTPOptions{}, says("fine")), &sync.Map{}
			var lost atomic.Int32
			losing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), `"`+tc.at+`"`) && lost.Add(1) <= tc.times {
					http.Error(w, "session not found", http.StatusNotFound)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				handler.ServeHTTP(w, r)
			})
			got := probe(t, mcpTool(serve(t, legacyOnly(losing, methods))), system)
			if got.Success != tc.want || !got.Possible || got.Error != nil && !strings.Contains(got.Error.Message, tc.wantErr) {
				t.Errorf("got %+v %+v", got, got.Error)
			}
			if n := timesOf(methods, "POST initialize"); n != tc.opened {
				t.Errorf("the session was opened %d times", n)
			}
		})
	}
}

// rpc answers one method by hand, with what say writes after the request's id is known.
func rpc(t *testing.T, at string, say func(w http.ResponseWriter, id string)) string {
	t.Helper()
	return between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		if method != at && method != "tools/call" {
			return false
		}
		var message struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&message)
		if method == at {
			say(w, string(message.ID))
			return true
		}
		events(w, fine(string(message.ID)))
		return true
	})
}

func events(w http.ResponseWriter, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, message := range messages {
		_, _ = io.WriteString(w, "event: message\ndata: "+message+"\n\n")
		w.(http.Flusher).Flush()
	}
}

// hold keeps an answer open until the client has gone.
func hold(w http.ResponseWriter) {
	for ; ; time.Sleep(10 * time.Millisecond) { // An answer that is too long would end it before.
		if _, err := io.WriteString(w, ":\n\n"); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

func fine(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"fine"}]}}`
}

// TestWhatServersDoBesideAnswering.
func TestWhatServersDoBesideAnswering(t *testing.T) {
	notification := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working on it"}}`
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":0.5}}`
	for _, tc := range []struct {
		name string
		at   string
		say  func(w http.ResponseWriter, id string)
		want func(Result) bool
	}{
		{"notifications before the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, notification, progress, progress, `{"jsonrpc":"2.0","method":"notifications/unheard-of"}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"a ping before the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":"p1","method":"ping"}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"a request for a sample, and then the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":10}}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"a request for roots, and then the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":"s1","method":"roots/list"}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"a request for elicitation, and then the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"message":"password?","requestedSchema":{"type":"object"}}}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"an answer to something else before the answer", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":9999,"result":{}}`, fine(id))
		}, func(r Result) bool { return r.Success }},
		{"a comment and an event of another name", "tools/call", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(w, ": keep-alive\n\nevent: ping\ndata: {}\n\nid: 1\ndata: "+fine(id)+"\n\n")
		}, func(r Result) bool { return r.Success }},
		{"the stream ends without the answer", "tools/call", func(w http.ResponseWriter, _ string) { events(w, notification) },
			func(r Result) bool {
				return r.Possible && !r.Success && strings.Contains(r.Error.Message, "without response")
			}},
		{"the stream breaks off within the answer", "tools/call", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+fine(id)[:40])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, func(r Result) bool { return r.Possible && !r.Success }},
		{"the list's stream ends without the answer", "tools/list", func(w http.ResponseWriter, _ string) { events(w, notification) },
			func(r Result) bool { return r.Possible && !r.Success }},
		{"an error in a stream that stays open", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32050,"message":"out of paper"}}`)
			hold(w)
		}, func(r Result) bool { return r.Possible && !r.Success && r.Error.ErrorCode == "-32050" }},
		{"an error of JSON-RPC with a status of its own", "tools/call", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32050,"message":"out of paper"}}`)
		}, func(r Result) bool {
			return r.Possible && r.StatusCode == http.StatusBadRequest && r.Error.ErrorCode == "-32050"
		}},
		{"202 Accepted to the call", "tools/call", func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusAccepted) },
			func(r Result) bool { return r.Possible && !r.Success }},
		{"a result that is huge", "tools/call", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(fine(id), "fine", strings.Repeat("fine ", maxListing), 1))
		}, func(r Result) bool { return !r.Possible && strings.Contains(r.Impossible, "larger than 64 KiB") }},
		{"a huge result in an event", "tools/call", func(w http.ResponseWriter, id string) {
			events(w, strings.Replace(fine(id), "fine", strings.Repeat("fine ", maxListing), 1))
		}, func(r Result) bool { return !r.Possible && strings.Contains(r.Impossible, "larger than 64 KiB") }},
		{"a protocol that nobody speaks", "initialize", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}`, id)
		}, func(r Result) bool {
			return r.Possible && !r.Success && strings.Contains(r.Error.Message, "unsupported protocol version")
		}},
		{"the oldest protocol over HTTP", "initialize", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`, id)
		}, func(r Result) bool { return r.Success }},
		{"initialize refused", "initialize", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version"}}`, id)
		}, func(r Result) bool { return r.Possible && !r.Success && r.Error.ErrorCode == "-32602" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := probeFor(t, mcpTool(rpc(t, tc.at, tc.say)), 3*time.Second); !tc.want(got) {
				t.Errorf("got %+v %+v", got, got.Error)
			}
		})
	}
}

// TestAServerGetsNoSample: a probe answers requests of the server, so that it goes on, and gives it nothing.
func TestAServerGetsNoSample(t *testing.T) {
	var mu sync.Mutex
	var answers []string
	url := between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		body, _ := io.ReadAll(r.Body)
		if method == "" && r.Method == http.MethodPost {
			mu.Lock()
			answers = append(answers, string(body))
			mu.Unlock()
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if method != "tools/call" {
			return false
		}
		var message struct{ ID json.RawMessage }
		_ = json.Unmarshal(body, &message)
		events(w, `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"tell"}}],"maxTokens":10}}`)
		for deadline := time.Now().Add(hangs); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			answered := len(answers) > 0
			mu.Unlock()
			if answered {
				break
			}
		}
		_, _ = io.WriteString(w, "data: "+fine(string(message.ID))+"\n\n")
		return true
	})
	got := probe(t, mcpTool(url), system)
	mu.Lock()
	defer mu.Unlock()
	if !got.Success || len(answers) != 1 || !strings.Contains(answers[0], `"error"`) || strings.Contains(answers[0], `"result"`) {
		t.Errorf("got %+v %+v, the server was answered %q", got, got.Error, answers)
	}
}

// TestAServerThatAsksWithoutEnd is no failure of the tool: it was not asked to the end.
func TestAServerThatAsksWithoutEnd(t *testing.T) {
	var requests atomic.Int32
	url := between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		requests.Add(1)
		if method != "tools/list" {
			return false
		}
		var message struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&message)
		for i := range maxExchanges {
			events(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i))
		}
		for deadline := time.Now().Add(hangs); requests.Load() < maxExchanges && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		events(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, message.ID, page("", "next")))
		return true
	})
	if got := probe(t, mcpTool(url), system); got.Possible || !strings.Contains(got.Impossible, "more than 24 requests") {
		t.Errorf("got %+v %+v", got, got.Error)
	}
}

// TestAWireAsksNobodyElseAndNoLongerThanItsSession: the SDK detaches some requests from their caller.
func TestAWireAsksNobodyElseAndNoLongerThanItsSession(t *testing.T) {
	var asked atomic.Int32
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})
	ctx, end := context.WithCancel(t.Context())
	session := &wire{ctx: ctx, run: &run{prober: prober(t), target: target(t, mcpTool(url)), credential: user().Credential}}
	ask := func(url string) error {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := session.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for _, elsewhere := range []string{strings.Replace(url, "127.0.0.1", "127.0.0.2", 1), strings.Replace(url, "http:", "https:", 1)} {
		if err := ask(elsewhere); err == nil || !strings.Contains(err.Error(), "another host") {
			t.Errorf("%s: got %v", elsewhere, err)
		}
	}
	time.AfterFunc(50*time.Millisecond, end)
	if err := ask(url); !errors.Is(err, context.Canceled) {
		t.Errorf("a session that ended while it waited: got %v", err)
	}
	if err := ask(url); !errors.Is(err, context.Canceled) || asked.Load() != 1 {
		t.Errorf("a session that had ended: got %v, and %d requests arrived", err, asked.Load())
	}
}

// TestWhatAToolSaysInOtherForms is held against what is expected, too.
func TestWhatAToolSaysInOtherForms(t *testing.T) {
	for name, result := range map[string]*mcp.CallToolResult{
		"an embedded resource":  {Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "towel"}}}},
		"structured content":    {Content: []mcp.Content{}, StructuredContent: map[string]any{"item": "towel"}},
		"text behind a picture": {Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("x")}, &mcp.TextContent{Text: "towel"}}},
	} {
		handler := library(t, nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return result, nil })
		url := serve(t, handler.ServeHTTP)
		for expected, success := range map[string]bool{"towel": true, "tea": false} {
			if got := probe(t, mcpTool(url, expect(nil, expected)), system); got.Success != success || !got.Possible {
				t.Errorf("%s, where %s is expected: got %+v %+v", name, expected, got, got.Error)
			}
		}
	}
}

// TestAChallengeIsReachableWhateverItNames: the addresses in it are not asked.
func TestAChallengeIsReachableWhateverItNames(t *testing.T) {
	var asked atomic.Int32
	trap := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	for _, challenge := range []string{
		"Bearer", `Bearer realm="x", error="invalid_token"`, `Bearer resource_metadata="` + trap + `/.well-known/oauth-protected-resource"`,
		`Bearer authorization_uri="` + trap + `"`, `Basic realm="x"`, "",
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/mcp" {
				asked.Add(1)
			}
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			http.Error(w, `{"error":"unauthorized"}`, http.StatusUnauthorized)
		})
		got := probe(t, mcpTool(url+"/mcp"), system)
		if !got.Possible || got.Success || !got.AuthChallenge || got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: got %+v", challenge, got)
		}
		if got := probe(t, mcpTool(url+"/mcp"), user()); got.AuthChallenge || !got.Possible {
			t.Errorf("%q, with a token: got %+v", challenge, got)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d requests went where the challenge said", asked.Load())
	}
}

// TestAServerThatRefusesGET, as those do that keep no standing stream, works.
func TestAServerThatRefusesGET(t *testing.T) {
	handler := library(t, &mcp.StreamableHTTPOptions{}, says("fine"))
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method {
				w.Header().Set("Allow", "POST")
				http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
				return
			}
			handler.ServeHTTP(w, r)
		})
		if got := probe(t, mcpTool(url), system); !got.Success {
			t.Errorf("%s refused: got %+v %+v", method, got, got.Error)
		}
	}
}

// TestASlowServer is waited for as long as the Tool says, in all.
func TestASlowServer(t *testing.T) {
	for _, at := range []string{"server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"} {
		url := between(t, func(_ http.ResponseWriter, r *http.Request, method string) bool {
			if method == at {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}
			return method == at
		})
		got := probeFor(t, mcpTool(url), 200*time.Millisecond)
		if !got.Possible || got.Success || !strings.Contains(fmt.Sprint(got.Error.ExceptionTypes), timeoutType) {
			t.Errorf("slow at %s: got %+v %+v", at, got, got.Error)
		}
	}
	var unlisted v1alpha1.ToolName = "unlisted"
	got := probe(t, mcpTool(serve(t, library(t, nil, says("fine")).ServeHTTP), func(s *v1alpha1.ToolSpec) { s.Endpoint.MCP.Tool = unlisted }), system)
	if !got.Possible || got.Success || got.Error.ErrorCode != "-32602" {
		t.Errorf("a tool that is not on the list: got %+v %+v", got, got.Error)
	}
}
