package diagnose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxTurnTokens bounds one answer, in tokens: a verdict and the thoughts before it.
	maxTurnTokens = 4096
	// minTurnTokens is what an answer needs at least: a verdict has 150, its longest note 500.
	minTurnTokens = 512
	// maxClaim bounds what an endpoint may claim for one answer, in tokens: more than any model in use answers.
	maxClaim = 128 << 10
	// messageTokens is what endpoints put around a message or a tool, and endpointTokens what they put before a
	// conversation with tools; both are more than those of any endpoint that was looked at.
	messageTokens, endpointTokens = 16, 512
	// bytesPerToken is more than a token holds on average: OpenAI's tokenizers make 4 of English, up to 10 of Hindi.
	bytesPerToken = 16
	// WorstFirstCall is the most that the first call of a diagnosis may cost, in tokens: of a long report with many headers and
	// long histories. A ceiling below it may pay for no diagnosis.
	WorstFirstCall = 36_000
	// maxAccountError bounds what a note quotes of why the account could not be asked, in bytes.
	maxAccountError = 250
)

// worstPrompt returns the most tokens that a request can cost before the answer. A tokenizer makes a token of one byte
// at worst: OpenAI's do of rare characters, and nearly so of Amharic (1.1) and emoji (1.3 bytes a token), which rules
// out any guess by characters. Of our own English prose, in the first message and the tools, they make one of 4 bytes:
// half of them is safe.
func worstPrompt(r llm.Request) int64 {
	worst := int64(endpointTokens)
	for _, m := range r.Messages {
		size := sizeOf(m)
		if m.Role == llm.RoleSystem {
			size = (size + 1) / 2
		}
		worst += messageTokens + size
	}
	for _, tool := range r.Tools {
		worst += messageTokens + (sizeOfTool(tool)+1)/2
	}
	return worst
}

func sizeOf(m llm.Message) int64 {
	size := len(m.Content)
	for _, call := range m.ToolCalls {
		size += messageTokens + len(call.ID) + len(call.Name) + len(call.Arguments)
	}
	return int64(size)
}

func sizeOfTool(tool llm.Tool) int64 {
	return int64(len(tool.Name) + len(tool.Description) + len(tool.Parameters))
}

// billed returns what a call is charged. What the endpoint reports counts as far as it can be true: one that reports
// nothing, or too little for what was sent and came back, is charged the worst case; one that reports more than
// possible is charged no more than possible, or its word alone could spend a budget.
func billed(r llm.Request, answer llm.Response) llm.Usage {
	sent := int64(0)
	for _, m := range r.Messages {
		sent += sizeOf(m)
	}
	most := sent + endpointTokens + messageTokens*int64(len(r.Messages)+len(r.Tools))
	for _, tool := range r.Tools {
		most += sizeOfTool(tool)
	}
	came := sizeOf(answer.Message)
	return llm.Usage{
		Prompt:     credible(answer.Usage.Prompt, sent/bytesPerToken, most, worstPrompt(r)),
		Completion: credible(answer.Usage.Completion, came/bytesPerToken, maxClaim, messageTokens+came),
	}
}

// credible returns what was reported, at most most; otherwise if it is none or less than least.
func credible(reported, least, most, otherwise int64) int64 {
	if reported <= 0 || reported < least {
		return otherwise
	}
	return min(reported, most)
}

// FirstCall returns what the first call of a diagnosis may cost at least, in tokens: with less left of a budget it
// need not begin.
func FirstCall(in Input, now time.Time) int64 {
	return worstPrompt(llm.Request{Messages: opening(in, now), Tools: tools(in)}) + minTurnTokens
}

// afford takes what a request may cost at worst from the run's ceiling and from the daily budgets, and sets how long
// the answer may be: shorter where little is left, and no shorter than minTurnTokens.
func (r *run) afford(ctx context.Context, request *llm.Request) (*budget.Hold, error) {
	worst := worstPrompt(*request)
	left := r.in.Limits.TokenCeiling - r.out.Usage.PromptTokens - r.out.Usage.CompletionTokens
	if left < worst+minTurnTokens {
		return nil, unusableError{ceiling: true, unpaid: r.out.Usage.Turns == 0, why: fmt.Sprintf("the token ceiling of %d was reached before there was a verdict: %d are left and the next call may cost %d: raise spec.tokenCeiling of the DiagnosisRecipe",
			r.in.Limits.TokenCeiling, max(left, 0), worst+minTurnTokens)}
	}
	hold, err := r.hold(ctx, worst+minTurnTokens, min(worst+maxTurnTokens, left))
	var exhausted *budget.ExhaustedError
	switch {
	case errors.As(err, &exhausted):
		return nil, unusableError{exhausted: true, unpaid: true, why: err.Error()}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		logf.FromContext(ctx).Error(err, "Diagnosis ended: no token may be spent")
		return nil, unusableError{unpaid: true, notKept: true, why: "the account of the daily token budget could not be asked, so that nothing may be spent: mend it, or the API server (" +
			text.Plain(err.Error(), maxAccountError) + ")"}
	}
	request.MaxTokens = int(hold.Tokens - worst)
	return hold, nil
}

// askAgain is how often and when the account is asked again where that may help: for two seconds, since what was paid for
// before is lost without it.
var askAgain = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 3, Steps: 5}

// hold takes tokens from the daily budgets.
func (r *run) hold(ctx context.Context, least, most int64) (hold *budget.Hold, err error) {
	_ = wait.ExponentialBackoffWithContext(ctx, askAgain, func(ctx context.Context) (done bool, _ error) {
		hold, err = r.in.Account.Hold(ctx, least, most)
		var exhausted *budget.ExhaustedError
		return err == nil || errors.As(err, &exhausted) || errors.Is(err, budget.ErrNotKept), nil
	})
	if hold == nil && err == nil {
		err = context.Cause(ctx)
	}
	return hold, err
}

// pay charges a call. One that failed is charged what the endpoint says; if that says nothing, all that was held for it
// where the endpoint may have worked for it, else nothing: where it was not reached, or refused the request.
func (r *run) pay(ctx context.Context, hold *budget.Hold, request llm.Request, answer llm.Response, err error) {
	cost := billed(request, answer)
	held := llm.Usage{Prompt: worstPrompt(request), Completion: int64(request.MaxTokens)}
	switch {
	case err != nil && ctx.Err() != nil:
		cost = held // It was broken off, and the endpoint may go on.
	case err != nil && answer.Usage == (llm.Usage{}) && mayHaveCost(err):
		cost = held
	case err != nil && answer.Usage == (llm.Usage{}):
		cost = llm.Usage{}
	}
	r.out.Usage.PromptTokens += cost.Prompt
	r.out.Usage.CompletionTokens += cost.Completion
	hold.Settle(context.WithoutCancel(ctx), cost.Prompt+cost.Completion)
}

// mayHaveCost reports whether the endpoint worked for a call that failed.
func mayHaveCost(err error) bool {
	var failure *llm.Failure
	return errors.As(err, &failure) && failure.MayCost
}
