package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxCalls bounds the calls of one turn that are looked at.
	maxCalls = 8
	// maxArguments bounds a call's arguments, in bytes: those of a probe that the model chooses.
	maxArguments = 4 << 10
)

// errDeadline means that a diagnosis took too long.
var errDeadline = fmt.Errorf("the diagnosis ran into its deadline (%w)", context.DeadlineExceeded)

// errShort says why an answer was cut that is no fault of the model.
var errShort = errors.New("few tokens were left of the token ceiling or of a daily budget")

// run is one diagnosis on its way.
type run struct {
	engine   *Engine
	in       Input
	chat     llm.Chat
	messages []llm.Message
	read     bool                // the health was read
	probed   map[probeKey]string // what each probe answered
	short    bool                // the last answer had to be shorter than a turn's, because few tokens were left
	limited  bool                // a probe was asked for beyond the limit
	out      Outcome
}

// Run has chat diagnose the report of in (specification §5.2) within in.Limits. It changes nothing: see Decide.
func (e *Engine) Run(ctx context.Context, in Input, chat llm.Chat) Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, in.Limits.Deadline, fmt.Errorf("%w: it may take %s", errDeadline, in.Limits.Deadline))
	defer cancel()
	r := &run{engine: e, in: in, chat: chat, messages: opening(in, e.Clock.Now()), probed: map[probeKey]string{}}
	answer, err := r.converse(ctx)
	var unusable unusableError
	switch {
	case errors.As(err, &unusable):
		r.out.Fallback, r.out.Exhausted, r.out.NotKept = unusable.why, unusable.exhausted, unusable.notKept
		r.out.Ceiling, r.out.Unpaid = unusable.ceiling, unusable.unpaid
	case err != nil:
		r.out.Err = err
	default:
		r.parse(answer)
	}
	return r.out
}

// opening is how a conversation begins.
func opening(in Input, now time.Time) []llm.Message {
	return []llm.Message{{Role: llm.RoleSystem, Content: systemPrompt}, {Role: llm.RoleUser, Content: userPrompt(in, now)}}
}

// unusableError says why a conversation ended without an answer, where that is no fault of the connection: for what the
// next call costs.
type unusableError struct {
	why                                 string
	exhausted, notKept, ceiling, unpaid bool // as in Outcome
}

func (e unusableError) Error() string { return e.why }

// parse reads the verdict in the last answer.
func (r *run) parse(answer llm.Response) {
	output, err := Parse(answer.Message.Content)
	switch {
	case err != nil && answer.Cut && r.short:
		r.out.Fallback = err.Error() + "; it was cut short: " + errShort.Error()
	case err != nil && answer.Cut:
		r.out.Fallback = err.Error() + "; it was cut at its length limit"
	case err != nil:
		r.out.Fallback = err.Error()
	default:
		r.out.Output = output
	}
}

// converse asks until an answer calls no tools.
func (r *run) converse(ctx context.Context) (llm.Response, error) {
	for turn := 0; ; turn++ {
		answer, err := r.ask(ctx, tools(r.in))
		if err != nil || len(answer.Message.ToolCalls) == 0 {
			return answer, err
		}
		message := tidy(answer.Message, turn)
		r.messages = append(r.messages, message)
		exhausted := turn >= r.in.Limits.MaxIterations
		for _, call := range message.ToolCalls {
			content := refusal(limitReached)
			if !exhausted {
				content = r.carryOut(ctx, call)
			}
			r.messages = append(r.messages, llm.Message{Role: llm.RoleTool, ToolCallID: call.ID, Content: content})
		}
		if exhausted || r.limited {
			r.messages = append(r.messages, llm.Message{Role: llm.RoleUser, Content: closingPrompt})
			return r.ask(ctx, nil)
		}
	}
}

// ask takes a turn. Each model that is asked in it is paid for by itself.
func (r *run) ask(ctx context.Context, tools []llm.Tool) (llm.Response, error) {
	if ctx.Err() != nil {
		return llm.Response{}, context.Cause(ctx)
	}
	answer, err := r.chat.Complete(ctx, llm.Request{Messages: r.messages, Tools: tools, MaxTokens: maxTurnTokens, Try: r.try})
	if !errors.As(err, new(unusableError)) {
		r.out.Usage.Turns++
	}
	var failure *llm.Failure
	if r.short && errors.As(err, &failure) && failure.Kind == llm.CutOff {
		err = fmt.Errorf("%w: %w", errShort, err)
	}
	return answer, err
}

// try lets one model be asked, if its worst case is left of the run's ceiling and of the daily budgets.
func (r *run) try(ctx context.Context, request *llm.Request) (func(llm.Response, error), error) {
	hold, err := r.afford(ctx, request)
	if err != nil {
		return nil, err
	}
	r.short = request.MaxTokens < maxTurnTokens
	return func(answer llm.Response, err error) { r.pay(ctx, hold, *request, answer, err) }, nil
}

// tidy returns an assistant's message as it may go back to the endpoint: bounded, every call with an id of its own, a
// possible name and arguments that are JSON, because some endpoints refuse a conversation with anything else.
func tidy(m llm.Message, turn int) llm.Message {
	out := llm.Message{Role: llm.RoleAssistant, Content: text.Cut(m.Content, maxAnswer)}
	ids := make(map[string]bool)
	for i, call := range m.ToolCalls[:min(len(m.ToolCalls), maxCalls)] {
		if call.ID == "" || len(call.ID) > 128 || ids[call.ID] {
			call.ID = fmt.Sprintf("call-%d-%d", turn, i)
		}
		ids[call.ID] = true
		if !toolName.MatchString(call.Name) {
			call.Name = "unknown"
		}
		if len(call.Arguments) > maxArguments || !json.Valid([]byte(call.Arguments)) {
			call.Arguments = "{}"
		}
		out.ToolCalls = append(out.ToolCalls, call)
	}
	return out
}
