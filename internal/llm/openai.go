package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	openai "github.com/sashabaranov/go-openai"
	"k8s.io/utils/clock"

	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxAnswer bounds what is read of one answer, in bytes. A verdict needs some hundred.
	maxAnswer = 1 << 20
	// maxErrorText bounds what an error quotes of an endpoint's answer, in bytes.
	maxErrorText = 300
)

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
	// Clock tells how far off a moment is that an endpoint asks to wait for. Nil: the real one.
	Clock clock.PassiveClock
}

// NewOpenAI returns a Chat with models behind an OpenAI-compatible chat completions endpoint.
func NewOpenAI(opts OpenAIOptions) Chat {
	httpClient := http.Client{}
	if opts.HTTPClient != nil {
		httpClient = *opts.HTTPClient
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	wire := &wire{client: &httpClient, key: opts.APIKey, clock: opts.Clock}
	config := openai.DefaultConfig(opts.APIKey)
	config.BaseURL = opts.Endpoint
	config.HTTPClient = wire
	return &openAI{client: openai.NewClientWithConfig(config), models: opts.Models, wire: wire}
}

type openAI struct {
	client *openai.Client
	models []string
	wire   *wire
}

// Complete asks the models in order until one answers. It stops at a failure that the next one would share, and waits for
// nothing: when to ask again is for the caller to decide. Its error is a *Failure, unless ctx ended.
func (o *openAI) Complete(ctx context.Context, r Request) (Response, error) {
	if len(o.models) == 0 {
		return Response{}, &Failure{Kind: UnknownModel, message: "no model is configured"}
	}
	var failures []*Failure
	var spent Usage
	for _, model := range o.models {
		response, tried, err := o.try(ctx, model, r)
		if !tried && len(failures) == 0 {
			return Response{}, err
		}
		if !tried && ctx.Err() == nil {
			return Response{Usage: spent}, sum(o.models, failures).and(fmt.Sprintf("model %s was not asked: %v", text.Plain(model, maxModelName), err))
		}
		spent.Prompt += response.Usage.Prompt
		spent.Completion += response.Usage.Completion
		response.Usage = spent
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return Response{Usage: spent}, fmt.Errorf("asking model %s: %w", model, context.Cause(ctx))
		}
		failures = append(failures, o.failureOf(err))
		if failures[len(failures)-1].Kind.ofEndpoint() {
			break
		}
	}
	return Response{Usage: spent}, sum(o.models, failures)
}

// try asks one model, if r.Try lets it.
func (o *openAI) try(ctx context.Context, model string, r Request) (response Response, tried bool, err error) {
	done := func(Response, error) {}
	if r.Try != nil {
		if done, err = r.Try(ctx, &r); err != nil {
			return Response{}, false, err
		}
	}
	var reached atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }} // After TLS has agreed.
	response, err = o.ask(httptrace.WithClientTrace(ctx, trace), model, r)
	if err != nil {
		failure := o.failureOf(err)
		failure.MayCost = reached.Load() && !failure.refused
		err = failure
	}
	done(response, err)
	return response, true, err
}

// failureOf says what kind of failure an error of the library is.
func (o *openAI) failureOf(err error) *Failure {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, openai.ErrChatCompletionInvalidModel):
		return o.wire.failure(UnknownModel, "the model is none for chats")
	case isJSON(err):
		return o.wire.failure(Unreadable, "the answer is not of the API's form: "+err.Error())
	default:
		return o.wire.failure(Unknown, err.Error())
	}
}

// isJSON reports whether an error is one of reading JSON.
func isJSON(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
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
		return Response{Usage: usageOf(answer.Usage)}, o.wire.failure(Empty, "the answer holds no choice")
	}
	choice := answer.Choices[0]
	response := Response{
		Message: decode(choice.Message),
		Usage:   usageOf(answer.Usage),
		Cut:     choice.FinishReason == openai.FinishReasonLength,
	}
	return response, o.usable(choice, response)
}

// usable returns why an answer cannot be used, nil if it can.
func (o *openAI) usable(choice openai.ChatCompletionChoice, response Response) error {
	nothing := strings.TrimSpace(response.Message.Content) == "" && len(response.Message.ToolCalls) == 0
	switch {
	case choice.FinishReason == openai.FinishReasonContentFilter:
		return o.wire.failure(ContentFiltered, "the endpoint's content filter stopped the answer")
	case nothing && choice.Message.Refusal != "":
		return o.wire.failure(ContentFiltered, "the model declined: "+choice.Message.Refusal)
	case nothing && response.Cut:
		return o.wire.failure(CutOff, "the answer reached its length limit before it said anything")
	case nothing:
		return o.wire.failure(Empty, "the answer holds neither text nor calls")
	}
	return nil
}

// usageOf returns what an answer says that it cost. No endpoint gives anything back.
func usageOf(u openai.Usage) Usage {
	return Usage{Prompt: int64(max(u.PromptTokens, 0)), Completion: int64(max(u.CompletionTokens, 0))}
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
	for _, part := range m.MultiContent { // Some servers send the text in parts.
		out.Content += part.Text
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return out
}
