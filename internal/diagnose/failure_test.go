package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/runfailure"
)

func TestEveryKindOfFailureHasACategoryAndAdvice(t *testing.T) {
	for _, kind := range llm.FailureKinds() {
		f := FailureOf(Input{}, &llm.Failure{Kind: kind})
		if f.Category == "" || f.Stage == "" || f.Kind != string(kind) || strings.HasPrefix(f.Message, " ") || strings.Contains(f.Message, "{") {
			t.Errorf("%s: %+v", kind, f)
		}
	}
	if len(modelFailures) != len(llm.FailureKinds()) {
		t.Errorf("%d kinds have a category, of %d", len(modelFailures), len(llm.FailureKinds()))
	}
}

// What the provider did, what is decided about it, and what a person reads.
func TestWhatBecomesOfAFailedRun(t *testing.T) {
	tenants := &AI{Namespace: "acme", Credential: "model-key"}
	for _, tc := range []struct {
		name string
		ai   *AI
		step scripted.Step
		want string
		said string
	}{
		{"a rate limit passes when it says", nil, scripted.Step{Status: 429, Text: "try again in 12s"}, "ask provider_transient/RateLimited retry MayPass in 12s", "asks for fewer requests"},
		{"a rate limit of hours is a used-up allowance", nil, scripted.Step{Status: 429, Text: "try again in 2h"}, "ask provider_budget/RateLimited terminate NeedsChange", "raise the account's limits"},
		{"an overloaded endpoint passes", nil, scripted.Step{Status: 503}, "ask provider_transient/Overloaded retry MayPass in 30s", "wait until it works again, or mend --model-endpoint"},
		{"a long outage is waited for in bounds", nil, scripted.Step{Status: 503, Headers: map[string]string{"Retry-After": "3600"}}, "ask provider_transient/Overloaded retry MayPass in 5m0s", ""},
		{"the operator's key", nil, scripted.Step{Status: 401, Text: "no"}, "ask credentials/KeyRefused terminate NeedsChange", "mend the file of --model-key-file (model m: HTTP status 401: no)"},
		{"a tenant's key", tenants, scripted.Step{Status: 403, Text: "no"}, "ask credentials/KeyRefused terminate NeedsChange", "mend data.apiKey of Secret acme/model-key"},
		{"no key where one is wanted", &AI{Namespace: "acme"}, scripted.Step{Status: 401}, "ask credentials/KeyRefused terminate NeedsChange", "mend spec.ai.credential of DiagnosisRecipe acme/default"},
		{"no funds", tenants, scripted.Step{Status: 402}, "ask provider_budget/NoFunds terminate NeedsChange", "add funds"},
		{"an unknown model", tenants, scripted.Step{Status: 404, Text: "no such model"}, "ask provider_request/UnknownModel terminate NeedsChange", "mend spec.ai.models of DiagnosisRecipe acme/default"},
		{"no tools", nil, scripted.Step{Status: 400, Text: "m does not support tools"}, "ask provider_request/NoTools terminate NeedsChange", "put another into --model, or turn tool calling on"},
		{"too long", nil, scripted.Step{Status: 413}, "ask provider_request/TooLong terminate NeedsChange", "larger context"},
		{"a filter", nil, scripted.Step{Text: "x", Finish: "content_filter"}, "ask policy/ContentFiltered terminate NeedsChange", "loosen the filter"},
		{"a web page", tenants, scripted.Step{Raw: "<html>"}, "ask provider_request/Misdirected terminate NeedsChange", "mend spec.ai.endpoint of DiagnosisRecipe acme/default"},
		{"another bad request", nil, scripted.Step{Status: 418}, "ask provider_request/BadRequest terminate NeedsChange", ""},
		{"no JSON", nil, scripted.Step{Raw: "hm"}, "parse model_output/Unreadable retry MayPass in 0s", ""},
		{"an empty message", nil, scripted.Step{}, "parse model_output/Empty retry MayPass in 0s", ""},
		{"all thought, no answer", nil, scripted.Step{Cut: true}, "parse model_output/CutOff retry MayPass in 0s", "thinks less"},
		{"what nobody knows", nil, scripted.Step{Status: 700, Raw: "?"}, "ask unknown/Unknown preserve Unknown", "look at the text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(in *Input) { in.AI = tc.ai })
			out, _ := w.runScript(t, tc.step)
			if out.Err == nil || Decide(w.input, out, now).Rows != nil {
				t.Fatalf("the run did not fail, or writes %+v", out)
			}
			f := FailureOf(w.input, out.Err)
			if got := describe(f); got != tc.want || !strings.Contains(f.Message, tc.said) {
				t.Errorf("got %s: %s\nwant %s: … %s …", got, f.Message, tc.want, tc.said)
			}
		})
	}
}

func describe(f runfailure.Failure) string {
	d := runfailure.Decide(f, nil, now)
	s := fmt.Sprintf("%s %s/%s %s %s", d.Stage, d.Category, d.Kind, d.Action, d.Reason)
	if d.DueAt != nil {
		s += fmt.Sprintf(" in %s", d.DueAt.Sub(now))
	}
	return s
}

func TestFailuresThatAreNotTheModels(t *testing.T) {
	w := newWorld(t)
	w.input.Limits.Deadline = 50 * time.Millisecond
	out, _ := w.runScript(t, scripted.Step{Delay: time.Minute})
	if f := FailureOf(w.input, out.Err); describe(f) != "ask timeout/DeadlineExceeded retry MayPass in 0s" || !strings.Contains(f.Message, "activeDeadlineSeconds") {
		t.Errorf("a deadline: %s: %s", describe(f), f.Message)
	}
	if f := FailureOf(w.input, errors.New("what?")); describe(f) != "ask unknown/Unknown preserve Unknown" || !strings.Contains(f.Message, "what?") {
		t.Errorf("an error of another kind: %s: %s", describe(f), f.Message)
	}
}

// An answer that is cut where few tokens were left is no fault of the model's.
func TestAnAnswerCutForLackOfTokens(t *testing.T) {
	first := FirstCall(newWorld(t).input, now)
	for _, tc := range []struct {
		name    string
		ceiling int64
		step    scripted.Step
		said    string
	}{
		{"all thought, with room", first + maxTurnTokens - minTurnTokens, scripted.Step{Cut: true}, "thinks less"},
		{"all thought, with little room", first + maxTurnTokens - minTurnTokens - 1, scripted.Step{Cut: true},
			"raise spec.tokenCeiling of the DiagnosisRecipe or the daily token budget (few tokens were left"},
		{"half a verdict, with room", 60_000, scripted.Step{Text: `{"classification":"WORK`, Cut: true}, "cut at its length limit"},
		{"half a verdict, with little room", first, scripted.Step{Text: `{"classification":"WORK`, Cut: true}, "cut short: few tokens were left of the token ceiling"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.input.Limits.TokenCeiling = tc.ceiling
			out, _ := w.runScript(t, tc.step)
			said := out.Fallback
			if out.Err != nil {
				f := FailureOf(w.input, out.Err)
				if said = f.Message; f.Kind != string(llm.CutOff) || strings.Contains(said, "thinks less") != (tc.said == "thinks less") {
					t.Errorf("%+v", f)
				}
			}
			if !strings.Contains(said, tc.said) {
				t.Errorf("it says %q, want %q", said, tc.said)
			}
		})
	}
}

// A model's odd calls are answered, and the run goes on.
func TestOddCallsEndNoRun(t *testing.T) {
	big := strings.Repeat("x", 200_000)
	for _, tc := range []struct {
		name  string
		calls []llm.ToolCall
		// want are the ids under which the calls are answered.
		want []string
	}{
		{"arguments that are no JSON", []llm.ToolCall{{ID: "a", Name: llm.ToolHealthRead, Arguments: `{"tool":`}}, []string{"a"}},
		{"huge arguments", []llm.ToolCall{{ID: "a", Name: llm.ToolHealthRead, Arguments: `{"tool":"` + big + `"}`}}, []string{"a"}},
		{"no arguments", []llm.ToolCall{{ID: "a", Name: llm.ToolHealthRead}}, []string{"a"}},
		{"no id", []llm.ToolCall{{Name: llm.ToolHealthRead}, {Name: llm.ToolHealthRead}}, []string{"call-0-0", "call-0-1"}},
		{"one id twice", []llm.ToolCall{{ID: "a", Name: llm.ToolHealthRead}, {ID: "a", Name: llm.ToolHealthRead}}, []string{"a", "call-0-1"}},
		{"no name", []llm.ToolCall{{ID: "a"}}, []string{"a"}},
		{"an unknown name", []llm.ToolCall{{ID: "a", Name: "tool_health_set_down"}}, []string{"a"}},
		{"a name that is none", []llm.ToolCall{{ID: "a", Name: big + "\n"}}, []string{"a"}},
		{"several at once", []llm.ToolCall{{ID: "a", Name: llm.ToolHealthRead}, {ID: "b", Name: llm.ToolProbeAsSystem}, {ID: "c", Name: "x"}}, []string{"a", "b", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.input.Limits.TokenCeiling = 10_000_000 // A huge call that is said to cost nothing is charged by its size.
			out, requests := w.runScript(t, scripted.Step{ToolCalls: tc.calls}, says(v1alpha1.Unclear))
			if out.Err != nil || out.Fallback != "" || out.Output.Classification != v1alpha1.Unclear {
				t.Fatalf("the run ended with %+v", out)
			}
			var ids []string
			for _, answer := range answers(requests) {
				id, _, _ := strings.Cut(answer, " ")
				ids = append(ids, id)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("answered calls (-want +got):\n%s", diff)
			}
			if last := requests[len(requests)-1].Body; len(last) > 32<<10 {
				t.Errorf("what the model sent goes back at %d bytes", len(last))
			}
		})
	}
}

// A run that a manager's end interrupts has not failed.
func TestAnInterruptedRunIsNoFailureOfTheModel(t *testing.T) {
	w := newWorld(t)
	script := scripted.New(scripted.Step{Delay: time.Minute})
	server := httptest.NewServer(script)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(script.Requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	out := w.engine.Run(ctx, w.input, llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL, Models: []string{"m"}}))
	var failure *llm.Failure
	if !errors.Is(out.Err, context.Canceled) || errors.As(out.Err, &failure) {
		t.Errorf("got %v", out.Err)
	}
}
