package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxAnswer bounds what is read of one answer, in bytes. A verdict needs some hundred.
	maxAnswer = 1 << 20
	// maxErrorText bounds what an error quotes of an endpoint's answer, in bytes.
	maxErrorText = 300
	// bytesPerToken is the usual rule of thumb for English text. It counts where an endpoint reports no usage, so that
	// a token ceiling holds all the same.
	bytesPerToken = 4
)

// errTooLong means that an endpoint's answer is longer than maxAnswer.
var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)

// OpenAIOptions say which models answer.
type OpenAIOptions struct {
	// Endpoint is the base URL of the API, as in https://api.example.com/v1.
	Endpoint string
	// APIKey is sent with every request; empty: none is.
	APIKey string
	// Models are tried in order: the next one only where one fails.
	Models []string
	// HTTPClient sends the requests. Nil: a plain one. Redirects are never followed, whatever it says, because
	// the key must not leave for where the endpoint points.
	HTTPClient *http.Client
}

// NewOpenAI returns a Chat with models behind an OpenAI-compatible chat completions endpoint.
func NewOpenAI(opts OpenAIOptions) Chat {
	httpClient := http.Client{}
	if opts.HTTPClient != nil {
		httpClient = *opts.HTTPClient
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	config := openai.DefaultConfig(opts.APIKey)
	config.BaseURL = opts.Endpoint
	config.HTTPClient = bounded{&httpClient}
	return &openAI{client: openai.NewClientWithConfig(config), models: opts.Models, key: opts.APIKey}
}

type openAI struct {
	client *openai.Client
	models []string
	key    string
}

// Complete asks the models in order until one answers.
func (o *openAI) Complete(ctx context.Context, r Request) (Response, error) {
	if len(o.models) == 0 {
		return Response{}, errors.New("no model is configured")
	}
	var problems []string
	for _, model := range o.models {
		response, err := o.ask(ctx, model, r)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return Response{}, fmt.Errorf("asking model %s: %w", model, context.Cause(ctx))
		}
		problems = append(problems, fmt.Sprintf("model %s: %s", model, o.explain(err)))
	}
	return Response{}, errors.New(strings.Join(problems, "; "))
}

// explain returns the text of an error as far as it may be shown: an endpoint may send back the key it got.
func (o *openAI) explain(err error) string {
	var status *openai.RequestError
	message := err.Error()
	if errors.As(err, &status) {
		message = fmt.Sprintf("HTTP status %d: %s", status.HTTPStatusCode, status.Body)
	}
	message = text.Cut(message, maxAnswer)
	if o.key != "" {
		message = strings.ReplaceAll(message, o.key, "[redacted]")
	}
	return text.Plain(redact.Text(message), maxErrorText)
}

func (o *openAI) ask(ctx context.Context, model string, r Request) (Response, error) {
	// Servers other than OpenAI's know the limit by its old name alone.
	request := openai.ChatCompletionRequest{Model: model, MaxTokens: r.MaxTokens} //nolint:staticcheck // SA1019: see above.
	for _, m := range r.Messages {
		request.Messages = append(request.Messages, encode(m))
	}
	for _, tool := range r.Tools {
		request.Tools = append(request.Tools, openai.Tool{
			Type:     openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters},
		})
	}
	answer, err := o.client.CreateChatCompletion(ctx, request)
	if errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated) {
		// Nothing was sent yet: the library knows that such models want the limit under another name.
		request.MaxTokens, request.MaxCompletionTokens = 0, r.MaxTokens //nolint:staticcheck // SA1019: see above.
		answer, err = o.client.CreateChatCompletion(ctx, request)
	}
	if err != nil {
		return Response{}, err
	}
	if len(answer.Choices) == 0 {
		return Response{}, errors.New("the answer holds no choice")
	}
	choice := answer.Choices[0]
	response := Response{
		Message: decode(choice.Message),
		Usage:   Usage{Prompt: int64(answer.Usage.PromptTokens), Completion: int64(answer.Usage.CompletionTokens)},
		Cut:     choice.FinishReason == openai.FinishReasonLength,
	}
	if response.Usage.Prompt <= 0 && response.Usage.Completion <= 0 {
		response.Usage = estimate(r.Messages, response.Message)
	}
	return response, nil
}

func encode(m Message) openai.ChatCompletionMessage {
	out := openai.ChatCompletionMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
			ID: call.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: call.Name, Arguments: call.Arguments},
		})
	}
	return out
}

func decode(m openai.ChatCompletionMessage) Message {
	out := Message{Role: RoleAssistant, Content: m.Content}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return out
}

// estimate returns about what an answer cost.
func estimate(prompt []Message, answer Message) Usage {
	var sent int64
	for _, m := range prompt {
		sent += sizeOf(m)
	}
	return Usage{Prompt: sent/bytesPerToken + 1, Completion: sizeOf(answer)/bytesPerToken + 1}
}

func sizeOf(m Message) int64 {
	size := len(m.Content)
	for _, call := range m.ToolCalls {
		size += len(call.Name) + len(call.Arguments)
	}
	return int64(size)
}

// bounded is an HTTP client whose answers end with errTooLong at maxAnswer bytes.
type bounded struct{ client *http.Client }

// Do sends a request.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	response, err := b.client.Do(r) //nolint:gosec // G704: the endpoint is configuration, and a recipe's passes the dialer guard.
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	// One byte more than is left tells a longer answer from one that ends here.
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if n > b.left {
		return b.left, errTooLong
	}
	b.left -= n
	return n, err
}
