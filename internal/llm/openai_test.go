package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

const key = "a-very-private-key"

// start serves a script and returns a client for it.
func start(t *testing.T, models []string, steps ...scripted.Step) (llm.Chat, *scripted.Server) {
	t.Helper()
	script := scripted.New(steps...)
	server := httptest.NewServer(script)
	t.Cleanup(server.Close)
	return llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL + "/v1/", APIKey: key, Models: models, HTTPClient: server.Client()}), script
}

func ask(content string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: content}}, MaxTokens: 100}
}

func TestToolCallsMakeTheRoundTrip(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "tool_health_read", Arguments: `{"a":"\"<é>"}`}
	chat, script := start(t, []string{"big"},
		scripted.Step{Text: "let me see", ToolCalls: []llm.ToolCall{call}, Usage: llm.Usage{Prompt: 11, Completion: 5}},
		scripted.Step{Text: "done", Usage: llm.Usage{Prompt: 20, Completion: 2}, Cut: true})
	request := ask("hello")
	request.Tools = []llm.Tool{{Name: "tool_health_read", Description: "reads", Parameters: json.RawMessage(`{"type":"object"}`)}}

	got, err := chat.Complete(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{Usage: llm.Usage{Prompt: 11, Completion: 5},
		Message: llm.Message{Role: llm.RoleAssistant, Content: "let me see", ToolCalls: []llm.ToolCall{call}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first answer (-want +got):\n%s", diff)
	}

	request.Messages = append(request.Messages, got.Message, llm.Message{Role: llm.RoleTool, ToolCallID: "c1", Content: `{"ok":true}`})
	request.Tools = nil
	got, err = chat.Complete(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want = llm.Response{Usage: llm.Usage{Prompt: 20, Completion: 2}, Cut: true, Message: llm.Message{Role: llm.RoleAssistant, Content: "done"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second answer (-want +got):\n%s", diff)
	}

	requests := script.Requests()
	if len(requests) != 2 || requests[0].Authorization != "Bearer "+key {
		t.Fatalf("the server got %d requests with %q", len(requests), requests[0].Authorization)
	}
	// The wire format is looked at as text: the server decodes with the library that the client encodes with.
	for _, part := range []string{`"model":"big"`, `"max_tokens":100`, `"role":"user"`, `"content":"hello"`, `"tools":[{"function":{"name":"tool_health_read","description":"reads"`, `"parameters":{"type":"object"}`} {
		if !strings.Contains(requests[0].Body, part) {
			t.Errorf("the first request lacks %s: %s", part, requests[0].Body)
		}
	}
	for _, part := range []string{`"tool_calls":[{"id":"c1","type":"function","function":{"name":"tool_health_read"`, `"role":"tool"`, `"tool_call_id":"c1"`} {
		if !strings.Contains(requests[1].Body, part) {
			t.Errorf("the second request lacks %s: %s", part, requests[1].Body)
		}
	}
	if strings.Contains(requests[1].Body, `"tools"`) {
		t.Errorf("tools were offered where there are none: %s", requests[1].Body)
	}
}

func TestModelsAreTriedInOrder(t *testing.T) {
	chat, script := start(t, []string{"first", "second", "third"},
		scripted.Step{Status: 429, Text: "slow down"}, scripted.Step{Raw: "{"}, scripted.Step{Text: "I am third"})
	got, err := chat.Complete(t.Context(), ask("hello"))
	if err != nil || got.Message.Content != "I am third" {
		t.Fatalf("got %+v, %v", got, err)
	}
	var models []string
	for _, r := range script.Requests() {
		models = append(models, r.Model)
	}
	if diff := cmp.Diff([]string{"first", "second", "third"}, models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestAModelThatReasonsGetsItsLimitUnderItsName(t *testing.T) {
	chat, script := start(t, []string{"o3-mini"}, scripted.Step{Text: "hm"})
	if _, err := chat.Complete(t.Context(), ask("hello")); err != nil {
		t.Fatal(err)
	}
	if body := script.Requests()[0].Body; !strings.Contains(body, `"max_completion_tokens":100`) || strings.Contains(body, `"max_tokens"`) {
		t.Errorf("the request is %s", body)
	}
}

func TestTheKeyFollowsNoRedirect(t *testing.T) {
	elsewhere := scripted.New(scripted.Step{Text: "gotcha"})
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/chat/completions", http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL, APIKey: key, Models: []string{"m"}}).Complete(t.Context(), ask("hello"))
	if err == nil || len(elsewhere.Requests()) != 0 {
		t.Errorf("error %v, and %d requests arrived elsewhere", err, len(elsewhere.Requests()))
	}
}

func TestACancelledQuestionEndsAtOnce(t *testing.T) {
	chat, script := start(t, []string{"first", "second"}, scripted.Step{Delay: time.Minute})
	cause := errors.New("the lease was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := chat.Complete(ctx, ask("hello")); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if n := len(script.Requests()); n != 1 {
		t.Errorf("%d models were asked", n)
	}
}

// What ends the question while the next model is considered is told as such: it is no failure of the first one.
func TestAQuestionThatEndsBetweenTwoModelsIsNoFailure(t *testing.T) {
	chat, _ := start(t, []string{"first", "second"}, scripted.Step{Status: 500, Text: "sorry"})
	cause := errors.New("the lease was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	request, tries := ask("hello"), 0
	request.Try = func(ctx context.Context, _ *llm.Request) (func(llm.Response, error), error) {
		if tries++; tries == 2 {
			cancel(cause)
			return nil, context.Cause(ctx)
		}
		return func(llm.Response, error) {}, nil
	}
	if _, err := chat.Complete(ctx, request); !errors.Is(err, cause) || errors.As(err, new(*llm.Failure)) {
		t.Errorf("got %v", err)
	}
}

func TestAModelThatIsNoneForChatsIsUnknown(t *testing.T) {
	chat, script := start(t, []string{"text-davinci-003"}, scripted.Step{Text: "hi"})
	_, err := chat.Complete(t.Context(), ask("hello"))
	var failure *llm.Failure
	if !errors.As(err, &failure) || failure.Kind != llm.UnknownModel || len(script.Requests()) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAModelOrAKey(t *testing.T) {
	if _, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: "http://127.0.0.1:1"}).Complete(t.Context(), ask("hello")); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("without a model: %v", err)
	}
	script := scripted.New(scripted.Step{Text: "hi"})
	server := httptest.NewServer(script)
	defer server.Close()
	if _, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL, Models: []string{"m"}}).Complete(t.Context(), ask("hello")); err != nil {
		t.Fatal(err)
	}
	if got := script.Requests()[0].Authorization; got != "" {
		t.Errorf("without a key, %q was sent", got)
	}
}
