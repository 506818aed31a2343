// Package scripted is an OpenAI-compatible chat completions server that answers from a script, so that tests and
// the demo run the real client against real HTTP without a model.
package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agrajag-dev/agrajag/internal/llm"
)

// maxRequest bounds what is read of one request, in bytes.
const maxRequest = 4 << 20

// Step is one answer. The first that is set of Serve, Raw, Status, and Text with ToolCalls counts.
type Step struct {
	// Delay passes before the answer, unless the client leaves earlier.
	Delay time.Duration
	// Serve answers by itself: for what no other field can say, such as an answer without end.
	Serve http.HandlerFunc
	// Headers are sent beside what any other field says.
	Headers map[string]string
	// Raw is sent as the whole body, with Status if that is set.
	Raw string
	// Status, if not 0 or 200, is an HTTP error with Text as its message.
	Status int
	// Text is the assistant's text.
	Text string
	// ToolCalls are the tools that the assistant calls.
	ToolCalls []llm.ToolCall
	// Usage is the cost that is reported.
	Usage llm.Usage
	// Cut says that the answer reached its length limit.
	Cut bool
	// Finish, if not empty, is the reason for which the answer ends.
	Finish openai.FinishReason
}

// Request is a request that the server got.
type Request struct {
	openai.ChatCompletionRequest
	// Authorization is the header of that name.
	Authorization string
	// Body is the request as it was sent.
	Body string
}

// Server answers requests from its script. It is an http.Handler, safe for concurrent use.
type Server struct {
	answer   func(request Request, n int) Step
	mu       sync.Mutex
	requests []Request
}

// New returns a Server that answers with the steps, in order; after the last one with status 500.
func New(steps ...Step) *Server {
	return &Server{answer: func(_ Request, n int) Step {
		if n > len(steps) {
			return Step{Status: http.StatusInternalServerError, Text: "the script has ended"}
		}
		return steps[n-1]
	}}
}

// NewFunc returns a Server whose answers depend on what it is asked, for conversations at once or begun anew.
func NewFunc(answer func(Request) Step) *Server {
	return &Server{answer: func(request Request, _ int) Step { return answer(request) }}
}

// Turn returns how many answers of the model the request's conversation holds so far.
func (r Request) Turn() int {
	turn := 0
	for _, message := range r.Messages {
		if message.Role == openai.ChatMessageRoleAssistant {
			turn++
		}
	}
	return turn
}

// Requests returns what the server got so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		fail(w, http.StatusNotFound, "only POST …/chat/completions is served")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	request := Request{Authorization: r.Header.Get("Authorization"), Body: string(body)}
	if err == nil {
		err = json.Unmarshal(body, &request.ChatCompletionRequest)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	step, n := s.next(request)
	if step.Delay > 0 {
		select {
		case <-time.After(step.Delay):
		case <-r.Context().Done():
			return
		}
	}
	for name, value := range step.Headers {
		w.Header().Set(name, value)
	}
	switch {
	case step.Serve != nil:
		step.Serve(w, r)
	case step.Raw != "":
		w.WriteHeader(cmp.Or(step.Status, http.StatusOK))
		_, _ = io.WriteString(w, step.Raw)
	case step.Status != 0 && step.Status != http.StatusOK:
		fail(w, step.Status, step.Text)
	default:
		send(w, http.StatusOK, answer(step, request.Model, n))
	}
}

// next records a request and returns the step that answers it, and its number.
func (s *Server) next(request Request) (Step, int) {
	s.mu.Lock()
	s.requests = append(s.requests, request)
	n := len(s.requests)
	s.mu.Unlock() // An answer may take its time.
	return s.answer(request, n), n
}

func answer(step Step, model string, n int) openai.ChatCompletionResponse {
	message := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: step.Text}
	for _, call := range step.ToolCalls {
		message.ToolCalls = append(message.ToolCalls, openai.ToolCall{
			ID: call.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: call.Name, Arguments: call.Arguments},
		})
	}
	reason := openai.FinishReasonStop
	switch {
	case step.Finish != "":
		reason = step.Finish
	case step.Cut:
		reason = openai.FinishReasonLength
	case len(step.ToolCalls) > 0:
		reason = openai.FinishReasonToolCalls
	}
	return openai.ChatCompletionResponse{
		ID: fmt.Sprintf("scripted-%d", n), Object: "chat.completion", Model: model,
		Choices: []openai.ChatCompletionChoice{{Message: message, FinishReason: reason}},
		Usage: openai.Usage{
			PromptTokens: int(step.Usage.Prompt), CompletionTokens: int(step.Usage.Completion),
			TotalTokens: int(step.Usage.Prompt + step.Usage.Completion),
		},
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	send(w, status, openai.ErrorResponse{Error: &openai.APIError{Message: message, Type: "scripted"}})
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
