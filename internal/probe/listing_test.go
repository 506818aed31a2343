package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

const anyInput = `"inputSchema":{"type":"object"}`

// listing serves an MCP server whose tools/list answers as list says, and counts the calls of tools.
func listing(t *testing.T, list func(cursor string) string) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = &atomic.Int32{}
	url = between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
		var message struct {
			ID     json.RawMessage
			Params struct{ Cursor string }
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = json.Unmarshal(body, &message)
		answer := `"result":{"content":[]}`
		switch method {
		case "tools/list":
			answer = list(message.Params.Cursor)
		case "tools/call":
			calls.Add(1)
		default:
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, message.ID, answer)
		return true
	})
	return url, calls
}

func page(tools, next string) string {
	return `"result":{"tools":[` + tools + `],"nextCursor":"` + next + `"}`
}

func TestWhatAServerSaysOfAToolDecides(t *testing.T) {
	tool := func(annotations string) func(string) string {
		return func(string) string { return page(`{"name":"search",`+anyInput+annotations+`}`, "") }
	}
	others := strings.TrimSuffix(strings.Repeat(`{"name":"other",`+anyInput+`},`, 100), ",")
	for _, tc := range []struct {
		name        string
		list        func(cursor string) string
		wantCalls   int32
		wantRefused Refusal
		want        string // in why it was not possible
	}{
		{"nothing", tool(``), 1, "", ""},
		{"no annotations", tool(`,"annotations":{}`), 1, "", ""},
		{"null", tool(`,"annotations":null`), 1, "", ""},
		{"other things", tool(`,"annotations":{"title":"Search","openWorldHint":true,"idempotentHint":false}`), 1, "", ""},
		{"read-only", tool(`,"annotations":{"readOnlyHint":true}`), 1, "", ""},
		{"read-only and not destructive", tool(`,"annotations":{"readOnlyHint":true,"destructiveHint":false}`), 1, "", ""},
		{"not destructive", tool(`,"annotations":{"destructiveHint":false}`), 1, "", ""},
		{"not read-only", tool(`,"annotations":{"readOnlyHint":false}`), 0, RefusedUnsafe, "not read-only (readOnlyHint)"},
		{"not read-only, but not destructive", tool(`,"annotations":{"readOnlyHint":false,"destructiveHint":false}`), 0, RefusedUnsafe, "not read-only"},
		{"destructive", tool(`,"annotations":{"destructiveHint":true}`), 0, RefusedUnsafe, "destructive (destructiveHint)"},
		{"both at once", tool(`,"annotations":{"readOnlyHint":true,"destructiveHint":true}`), 0, RefusedUnsafe, "destructive"},
		{"of another tool", func(string) string {
			return page(`{"name":"Search",`+anyInput+`,"annotations":{"destructiveHint":true}}`, "")
		}, 1, "", ""},
		{"twice, and the first counts", func(string) string {
			return page(`{"name":"search",`+anyInput+`,"annotations":{"destructiveHint":true}},{"name":"search",`+anyInput+`}`, "")
		}, 0, RefusedUnsafe, "destructive"},
		{"no tools", func(string) string { return page("", "") }, 1, "", ""},
		{"no list", func(string) string { return `"error":{"code":-32601,"message":"no such method"}` }, 1, "", ""},
		{"another error", func(string) string { return `"error":{"code":-32000,"message":"not now"}` }, 1, "", ""},
		{"on a later page", func(cursor string) string {
			if cursor == "" {
				return page(others, "2")
			}
			return page(`{"name":"search",`+anyInput+`,"annotations":{"readOnlyHint":false}}`, "3")
		}, 0, RefusedUnsafe, "not read-only"},
		{"on the last page, that it may be called", func(cursor string) string {
			if len(cursor) < maxPages-1 {
				return page(others, cursor+"x")
			}
			return page(`{"name":"search",`+anyInput+`}`, "")
		}, 1, "", ""},
		{"on the last page, that it is not there", func(cursor string) string {
			if len(cursor) < maxPages-1 {
				return page(others, cursor+"x")
			}
			return page(others, "")
		}, 1, "", ""},
		{"pages without end", func(cursor string) string { return page(others, cursor+"x") }, 0, "", "more than 8 pages"},
		{"a cursor that leads back", func(string) string { return page(others, "again") }, 0, "", "leads back"},
		{"a page that is large", func(string) string {
			return page(`{"name":"other","description":"`+strings.Repeat("x", 900<<10)+`",`+anyInput+`},{"name":"search",`+anyInput+`}`, "")
		}, 1, "", ""},
		{"a page that is too large", func(string) string {
			return page(`{"name":"other","description":"`+strings.Repeat("x", maxListing)+`",`+anyInput+`}`, "")
		}, 0, "", "larger than 1024 KiB"},
		{"a page that takes fifty times its length in memory", func(string) string {
			return page(strings.Repeat("{},", maxValues)+`{"name":"search",`+anyInput+`}`, "")
		}, 0, "", "or 65536 values"},
		{"a long page of many tools", func(string) string {
			return page(strings.Repeat(`{"name":"other","description":"`+strings.Repeat("says what it does ", 10)+`",`+anyInput+`},`, 4000)+`{"name":"search",`+anyInput+`}`, "")
		}, 1, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url, calls := listing(t, tc.list)
			got := probe(t, mcpTool(url), system)
			if calls.Load() != tc.wantCalls || got.Refused != tc.wantRefused || !strings.Contains(got.Impossible, tc.want) || got.Possible != (tc.wantCalls > 0) {
				t.Errorf("%d calls, got %+v %+v", calls.Load(), got, got.Error)
			}
			target := target(t, mcpTool(url))
			look := prober(t).Look(t.Context(), target, system)
			if look.Refused != tc.wantRefused || look.Refused != "" && (!look.Known || !strings.Contains(look.Reason, tc.want)) {
				t.Errorf("a look says %+v", look)
			}
			if calls.Load() != tc.wantCalls {
				t.Error("a look called the tool")
			}
		})
	}
}

// TestWhatAServerSaysInAStreamDecides: servers answer with JSON or with events, and both are read alike.
func TestWhatAServerSaysInAStreamDecides(t *testing.T) {
	for name, options := range map[string]*mcp.StreamableHTTPOptions{
		"events, with sessions": {}, "JSON, with sessions": {JSONResponse: true}, "events, stateless": {Stateless: true}, "JSON, stateless": {Stateless: true, JSONResponse: true},
	} {
		server := mcp.NewServer(&mcp.Implementation{Name: "library"}, nil)
		var calls atomic.Int32
		handle := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(1)
			return &mcp.CallToolResult{}, nil
		}
		schema := map[string]any{"type": "object"}
		server.AddTool(&mcp.Tool{Name: "search", InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, handle)
		server.AddTool(&mcp.Tool{Name: "erase", InputSchema: schema, Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true)}}, handle)
		server.AddTool(&mcp.Tool{Name: "write", InputSchema: schema, Annotations: &mcp.ToolAnnotations{}}, handle)
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
		url := serve(t, handler.ServeHTTP)
		for tool, want := range map[string]Refusal{"search": "", "erase": RefusedUnsafe, "write": RefusedUnsafe} {
			got := probe(t, mcpTool(url, func(s *v1alpha1.ToolSpec) { s.Endpoint.MCP.Tool = v1alpha1.ToolName(tool) }), system)
			if got.Refused != want || got.Success != (want == "") {
				t.Errorf("%s, %s: got %+v %+v", name, tool, got, got.Error)
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%s: %d calls, want one", name, calls.Load())
		}
	}
}

func allowModelInput(s *v1alpha1.ToolSpec) { s.Probe.AllowModelInput = true }

func TestInputIsHeldAgainstTheSchema(t *testing.T) {
	none := func(s *v1alpha1.ToolSpec) { s.Probe.Input = nil }
	unlisted := func(s *v1alpha1.ToolSpec) { s.Endpoint.MCP.Tool = "unlisted" }
	byModel := func(raw string) *Input { return &Input{JSON: json.RawMessage(raw), ByModel: true} }
	for _, tc := range []struct {
		name        string
		changes     []func(*v1alpha1.ToolSpec)
		input       *Input // nil: the Tool's own
		wantSuccess bool
		wantRefused Refusal
		want        string
	}{
		{"the Tool's fits", nil, nil, true, "", ""},
		{"the Tool's does not", []func(*v1alpha1.ToolSpec){input(`{"q":7}`)}, nil, false, RefusedInput, "at /properties/q: type: mend spec.probe.input"},
		{"the Tool's lacks something", []func(*v1alpha1.ToolSpec){none}, nil, false, RefusedInput, `missing properties: ["q"]: mend spec.probe.input`},
		{"a model's is not asked for", nil, byModel(`{"q":"towel"}`), false, "", "spec.probe.allowModelInput is not set"},
		{"a model's fits", []func(*v1alpha1.ToolSpec){none, allowModelInput}, byModel(`{"q":"towel"}`), true, "", ""},
		{"a model's fits, and the Tool's would not", []func(*v1alpha1.ToolSpec){input(`{"q":7}`), allowModelInput}, byModel(`{"q":"towel"}`), true, "", ""},
		{"a model's does not", []func(*v1alpha1.ToolSpec){allowModelInput}, byModel(`{"q":"towel","delete":true}`), false, RefusedInput, `additional properties ["delete"]`},
		{"a model's is no object", []func(*v1alpha1.ToolSpec){allowModelInput}, byModel(`["q"]`), false, "", "the input must be an object"},
		{"a model's is too large", []func(*v1alpha1.ToolSpec){allowModelInput}, byModel(`{"q":"` + strings.Repeat("x", MaxInput) + `"}`), false, "", "at most 16384 bytes"},
		{"a model's for a tool that is not listed", []func(*v1alpha1.ToolSpec){allowModelInput, unlisted}, byModel(`{"q":"towel"}`), false, "", "no schema to check the input by"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, url := sampleMCP(t)
			target := target(t, mcpTool(url, tc.changes...))
			if tc.input == nil {
				tc.input = &target.Input
			}
			got := prober(t).Probe(t.Context(), target, system, *tc.input)
			if got.Success != tc.wantSuccess || got.Refused != tc.wantRefused || !strings.Contains(got.Impossible, tc.want) || got.Error != nil {
				t.Errorf("got %+v %+v", got, got.Error)
			}
			if called := server.Searches() > 0; called != tc.wantSuccess {
				t.Errorf("%d searches", server.Searches())
			}
		})
	}
	overHTTP := target(t, httpTool("http://127.0.0.1:1", allowModelInput))
	if got := prober(t).Probe(t.Context(), overHTTP, system, *byModel(`{"q":"x"}`)); overHTTP.AllowModelInput || !strings.Contains(got.Impossible, "allowModelInput") {
		t.Errorf("over HTTP a model may choose: %+v", got)
	}
}

// TestASchemaThatIsNoUse: it is no ground to blame or to block the Tool's own input, and none to send a model's.
func TestASchemaThatIsNoUse(t *testing.T) {
	for _, schema := range []string{`{"type":"object","$ref":"#"}`, `{"type":"object","$ref":"http://127.0.0.1:1/x"}`, `{"type":"object","properties":{"q":{"pattern":"(?=x)"}}}`} {
		url, calls := listing(t, func(string) string { return page(`{"name":"search","inputSchema":`+schema+`}`, "") })
		target := target(t, mcpTool(url, allowModelInput))
		if got := prober(t).Probe(t.Context(), target, system, target.Input); !got.Success {
			t.Errorf("%s: the Tool's own input: %+v", schema, got)
		}
		byModel := Input{JSON: target.Input.JSON, ByModel: true}
		if got := prober(t).Probe(t.Context(), target, system, byModel); got.Possible || !strings.Contains(got.Impossible, "cannot be checked by") || calls.Load() != 1 {
			t.Errorf("%s: a model's input: %+v", schema, got)
		}
	}
}

func TestALookAtWhatCannotBeAsked(t *testing.T) {
	sample := sampletools.NewMCPServer()
	sample.RequireToken(token)
	url := serve(t, sample.ServeHTTP)
	for name, tool := range map[string]*v1alpha1.Tool{
		"over HTTP": httpTool(url), "a refused address": mcpTool("http://169.254.169.254/"), "a server that wants a token": mcpTool(url),
		"a server that is away": mcpTool("http://127.0.0.1:1/"),
	} {
		if got := prober(t).Look(t.Context(), target(t, tool), system); got != (Look{}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := prober(t).Look(t.Context(), target(t, mcpTool(url)), user()); got != (Look{Known: true}) || sample.Searches() != 0 {
		t.Errorf("with the token: got %+v", got)
	}
}
