package scripted_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

func TestServerFollowsItsScript(t *testing.T) {
	script := scripted.New(
		scripted.Step{Text: "one", Delay: 10 * time.Millisecond},
		scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: "look", Arguments: "{}"}}},
		scripted.Step{Status: http.StatusTooManyRequests, Text: "wait"},
		scripted.Step{Raw: "raw"},
	)
	server := httptest.NewServer(script)
	defer server.Close()
	const ask = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	tests := []struct {
		name, method, path, body string
		wantStatus               int
		want                     string
	}{
		{"another path", "POST", "/v1/models", ask, 404, "only POST"},
		{"another method", "GET", "/v1/chat/completions", "", 404, "only POST"},
		{"no JSON", "POST", "/v1/chat/completions", "hello", 400, "invalid character"},
		{"text", "POST", "/v1/chat/completions", ask, 200, `"finish_reason":"stop"`},
		{"tool calls", "POST", "/chat/completions", ask, 200, `"finish_reason":"tool_calls"`},
		{"an error", "POST", "/chat/completions", ask, 429, `"message":"wait"`},
		{"raw", "POST", "/chat/completions", ask, 200, "raw"},
		{"the end", "POST", "/chat/completions", ask, 500, "the script has ended"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tc.method, server.URL+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != tc.wantStatus || !strings.Contains(string(body), tc.want) {
				t.Errorf("got %d %s, %v; want %d %s", response.StatusCode, body, err, tc.wantStatus, tc.want)
			}
		})
	}
	if requests := script.Requests(); len(requests) != 5 || requests[0].Model != "m" || requests[0].Messages[0].Content != "hi" || requests[4].Body != ask {
		t.Errorf("recorded %+v", requests)
	}
}
