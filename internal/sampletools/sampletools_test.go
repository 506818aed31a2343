package sampletools

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	url, stop, err := Serve("127.0.0.1:0", handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestHTTPAPIDoesAsItIsTold(t *testing.T) {
	for _, tc := range []struct {
		name       string
		prepare    func(*HTTPAPI)
		path       string
		token      string
		wantStatus int
		wantBody   string
	}{
		{"a healthy service finds", func(*HTTPAPI) {}, "/v1/search?q=towel", "", 200, "massively useful"},
		{"and finds for a user", func(*HTTPAPI) {}, "/v1/search?q=towel", "alice", 200, "massively useful"},
		{"nothing is found for an unknown word", func(*HTTPAPI) {}, "/v1/search?q=x", "", 200, `"found":0`},
		{"another path is not there", func(*HTTPAPI) {}, "/", "", 404, "nothing here"},
		{"an unknown token is refused", func(*HTTPAPI) {}, "/v1/search", "mallory", 401, "unauthorized"},
		{"without a token when one is needed", func(a *HTTPAPI) { a.RequireAuth(true) }, "/v1/search", "", 401, "unauthorized"},
		{"a failure hits everybody", func(a *HTTPAPI) { a.Fail(Answer{Status: 503, Body: "closed"}) }, "/v1/search", "alice", 503, "closed"},
		{"a refused token is refused", func(a *HTTPAPI) { a.RefuseToken("alice") }, "/v1/search", "alice", 401, "unauthorized"},
		{"the others are not", func(a *HTTPAPI) { a.RefuseToken("alice") }, "/v1/search", "bob", 200, "found"},
		{"healing ends a failure", func(a *HTTPAPI) { a.Fail(Answer{Status: 503}); a.RefuseToken("alice"); a.Heal() }, "/v1/search", "alice", 200, "found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := NewHTTPAPI("alice", "bob")
			tc.prepare(api)
			status, body := get(t, serve(t, api)+tc.path, tc.token)
			if status != tc.wantStatus || !strings.Contains(body, tc.wantBody) {
				t.Errorf("got %d %q, want %d with %q", status, body, tc.wantStatus, tc.wantBody)
			}
			if api.Calls() != 1 || api.CallsBy(tc.token) != 1 {
				t.Errorf("counted %d calls, %d by this token, want 1 and 1", api.Calls(), api.CallsBy(tc.token))
			}
		})
	}
}

func TestHTTPAPIIsSafeForConcurrentUse(t *testing.T) {
	api := NewHTTPAPI("alice")
	url := serve(t, api)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			api.Fail(Answer{Status: 500})
			get(t, url, "alice")
			api.Heal()
		})
	}
	group.Wait()
	if got := api.CallsBy("alice"); got != 8 {
		t.Errorf("counted %d calls, want 8", got)
	}
}

func TestMCPServerHasOneToolThatReadsAndOneThatWrites(t *testing.T) {
	server := NewMCPServer()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: serve(t, server), DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range tools.Tools {
		readOnly[tool.Name] = tool.Annotations != nil && tool.Annotations.ReadOnlyHint
	}
	if diff := cmp.Diff(map[string]bool{"search": true, "create_ticket": false}, readOnly); diff != "" {
		t.Errorf("tools and whether they only read (-want +got):\n%s", diff)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_ticket", Arguments: map[string]any{"title": "tea"}})
	if err != nil || result.IsError || server.Tickets() != 1 || server.Searches() != 0 {
		t.Errorf("create_ticket: %v %+v, %d tickets, %d searches", err, result, server.Tickets(), server.Searches())
	}
}

func TestNothingListensAtRefused(t *testing.T) {
	url, err := Refused()
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v and %v, want a refused connection", connection, err)
	}
}

func TestServeSaysWhyItCannot(t *testing.T) {
	if _, _, err := Serve("nowhere.invalid:0", http.NotFoundHandler()); err == nil {
		t.Error("got no error")
	}
}
