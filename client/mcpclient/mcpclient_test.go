package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/mcpresult"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

// recorder is an API of which one tool is DOWN.
type recorder struct {
	mu   sync.Mutex
	said []string
}

func (r *recorder) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, what)
}

func (r *recorder) Health(_ context.Context, tool string, _ client.Caller) (rest.Health, error) {
	if tool == "mcp_dead" {
		return rest.Health{State: "DOWN", Text: "Unavailable since noon: plan without it."}, nil
	}
	return rest.Health{State: "OK"}, nil
}

func (r *recorder) Report(_ context.Context, report rest.Report) (rest.Verdict, error) {
	r.add("error " + report.ToolName + " " + report.Error.ErrorCode + " " + report.Error.Body)
	return rest.Verdict{Signature: "x"}, nil
}

func (r *recorder) Success(_ context.Context, s rest.Success) (rest.Health, error) {
	r.add("success " + s.ToolName)
	return rest.Health{}, nil
}

func TestToolCallsAreGuarded(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "v1"}, nil)
	fails, called := true, 0
	type in struct{}
	add := func(name string, run func(ctx context.Context) error) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, _ *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
			called++
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "fine"}}}, nil, run(ctx)
		})
	}
	add("search", func(context.Context) error {
		if fails {
			return errors.New("the index is corrupt")
		}
		return nil
	})
	add("dead", func(context.Context) error { return nil })
	add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })

	api := &recorder{}
	guard := client.NewGuard(api, client.GuardOptions{Budget: time.Minute})
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "v1"}, nil)
	c.AddSendingMiddleware(Middleware(guard, func(tool string) string { return "mcp_" + tool }))
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := c.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, tool string) (*mcp.CallToolResult, error) {
		return session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	}
	if result, err := call(t.Context(), "search"); err != nil || !result.IsError {
		t.Errorf("a failed call: %v, %v", result, err)
	}
	fails = false
	if result, err := call(t.Context(), "search"); err != nil || result.IsError {
		t.Errorf("one that works: %v, %v", result, err)
	}
	before := called
	result, err := call(t.Context(), "dead")
	if err != nil || !result.IsError || called != before {
		t.Errorf("a tool that is DOWN: %v, %v, called %d times", result, err, called-before)
	} else if text := result.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "plan without it") {
		t.Errorf("the model is told %q", text)
	}
	if _, err := call(t.Context(), "unknown"); err == nil {
		t.Error("no error of the protocol")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := call(ctx, "slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := errors.Join(session.Close(), guard.Close(t.Context())); err != nil {
		t.Error(err)
	}
	want := []string{`error mcp_search  {"content":[{"type":"text","text":"the index is corrupt"}],"isError":true}`, "success mcp_search", "error mcp_unknown -32602 "}
	if diff := cmp.Diff(want, api.said); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// The HTTP client of an MCP client may be guarded, too: what that refuses is no error of the tool.
func TestRefusalsFurtherInAreNotReported(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "v1"}, nil)
	served := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer served.Close()
	api := &recorder{}
	inner, outer := client.NewGuard(api, client.GuardOptions{Budget: time.Minute}), client.NewGuard(api, client.GuardOptions{Budget: time.Minute})
	var refuses atomic.Bool
	transport := &client.Transport{Guard: inner, Tool: func(*http.Request) string {
		if refuses.Load() {
			return "mcp_dead"
		}
		return ""
	}}
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "v1"}, nil)
	c.AddSendingMiddleware(Middleware(outer, nil))
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: served.URL, HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	refuses.Store(true)
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "search"}); err == nil {
		t.Error("the call was not refused")
	}
	refuses.Store(false)
	_ = session.Close()
	if err := errors.Join(inner.Close(t.Context()), outer.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if len(api.said) != 0 {
		t.Errorf("reported: %q", api.said)
	}
}

// What is cut off here must not hide from Agrajag that there was more: it would store the half of a secret.
func TestNoHalfOfASecretIsStored(t *testing.T) {
	const known = 8 // So much of a secret is worth something.
	for _, secret := range []string{
		"ghp_" + "Zx8Qm2Lp0Rt7Yv4Wn9Kc3Hb6Jd1Fs5Ga8Ue2", "AKIA" + "Y3FDQ7XW2LMNOPZ5", "AIza" + "SyD8f3Kq9Lm2Np5Rt7Wx1Yz4Bc6Ef0Gh3Jk", "glpat-" + "x7Kq9Lm2Np5Rt7Wx1Yz4",
		"npm_" + "Zx8Qm2Lp0Rt7Yv4Wn9Kc3Hb6Jd1Fs5Ga8Ue2",
	} {
		for _, cut := range []int{v1alpha1.MaxErrorBody, rest.MaxErrorBody} {
			for n := known; n < len(secret); n += 4 {
				before := strings.Repeat("a", cut-n-1) + " "
				for name, content := range map[string][]mcp.Content{
					"one text":  {&mcp.TextContent{Text: before + secret + " and more"}},
					"two texts": {&mcp.TextContent{Text: before[:len(before)-1]}, &mcp.ImageContent{}, &mcp.TextContent{Text: secret}, &mcp.TextContent{Text: "and more"}},
				} {
					e := &v1alpha1.ToolError{Body: mcpresult.Body(&mcp.CallToolResult{Content: content}, rest.MaxErrorBody)}
					redact.Error(e)
					if at := strings.Index(e.Body, secret[:known]); at >= 0 {
						t.Fatalf("%s, cut after %d of %d bytes of a secret: %q is stored", name, n, len(secret), e.Body[at:])
					}
				}
			}
		}
	}
}

// Errors that a rule knows on the wire it knows of a guarded client, and others are told apart.
func TestRulesReadAFailedResult(t *testing.T) {
	rules, problems := classify.Compile(classify.Bundled())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	verdict := func(said string) classify.Verdict {
		body := mcpresult.Body(&mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: said}}}, rest.MaxErrorBody)
		return rules.Classify(classify.Call{Tool: "search"}, &v1alpha1.ToolError{Body: body}, time.Now())
	}
	if got := verdict("Your token has expired, please log in again"); got.Class != v1alpha1.UserSpecificTechnical {
		t.Errorf("an expired token is %s by rule %s", got.Class, got.RuleID)
	}
	if one, other := verdict("the index is corrupt"), verdict("no such column"); one.Signature == other.Signature {
		t.Errorf("two errors that no rule knows are both %s", one.Signature)
	}
}

func TestOneByteMoreIsSentThanIsLookedAt(t *testing.T) {
	if rest.MaxErrorBody != redact.ReadOfBody+1 {
		t.Errorf("%d bytes are sent, %d looked at", rest.MaxErrorBody, redact.ReadOfBody)
	}
}
