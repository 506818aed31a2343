package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// keeperOf keeps an account at the tests' time, over an API server in memory.
func keeperOf(limits budget.Limits) *budget.Keeper {
	c := fake.NewClientBuilder().Build()
	return &budget.Keeper{Client: c, Live: c, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(10), Namespace: "agrajag-system", Limits: limits}
}

// left returns how many tokens the tenant of the tests may still hold.
func left(t *testing.T, k *budget.Keeper) int64 {
	t.Helper()
	hold, err := k.Account("acme").Hold(t.Context(), 0, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	hold.Settle(t.Context(), 0)
	return hold.Tokens
}

func TestWhatACallIsCharged(t *testing.T) {
	request := llm.Request{Messages: []llm.Message{
		{Role: llm.RoleSystem, Content: strings.Repeat("a word ", 100)}, // 700 bytes, ours
		{Role: llm.RoleUser, Content: strings.Repeat("工具坏了", 100)},      // 1,200 bytes of 400 characters
		{Role: llm.RoleTool, Content: strings.Repeat("0", 100)},         // 100 bytes
	}}
	answer := llm.Message{Role: llm.RoleAssistant, Content: strings.Repeat("x", 800)}
	const (
		worst    = 350 + 1200 + 100 + 3*16 + 512
		possible = 700 + 1200 + 100 + 3*16 + 512
	)
	if got := worstPrompt(request); got != worst {
		t.Errorf("at worst it costs %d, want %d", got, worst)
	}
	for _, tc := range []struct {
		name           string
		reported, want llm.Usage
	}{
		{"what is reported counts", llm.Usage{Prompt: 900, Completion: 200}, llm.Usage{Prompt: 900, Completion: 200}},
		{"hidden thoughts count", llm.Usage{Prompt: 900, Completion: 20_000}, llm.Usage{Prompt: 900, Completion: 20_000}},
		{"nothing reported: the worst case", llm.Usage{}, llm.Usage{Prompt: worst, Completion: 816}},
		{"a negative cost earns nothing", llm.Usage{Prompt: -900, Completion: -1 << 60}, llm.Usage{Prompt: worst, Completion: 816}},
		{"one token for all of it is not believed", llm.Usage{Prompt: 1, Completion: 1}, llm.Usage{Prompt: worst, Completion: 816}},
		{"only one half is reported", llm.Usage{Completion: 200}, llm.Usage{Prompt: worst, Completion: 200}},
		{"more than possible is not believed either", llm.Usage{Prompt: 1 << 60, Completion: 1 << 62}, llm.Usage{Prompt: possible, Completion: 128 << 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, billed(request, llm.Response{Message: answer, Usage: tc.reported})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Before each call its worst case has to fit. Then the bill keeps the ceiling, whatever the endpoint does.
func TestTheCeilingIsAskedBeforeEachCall(t *testing.T) {
	first := FirstCall(newWorld(t).input, now)
	unclear := []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"}
	unreported := func(step scripted.Step) scripted.Step {
		step.Usage = llm.Usage{}
		return step
	}
	for _, tc := range []struct {
		name      string
		ceiling   int64
		steps     []scripted.Step
		wantMax   []int // the limit on each answer; -1: any that a verdict fits in
		wantTurns int32
		want      string // in the fallback
		wantRows  []string
	}{
		{name: "with room every answer may be long", ceiling: 60_000, steps: []scripted.Step{calls(llm.ToolHealthRead), says(v1alpha1.Unclear)},
			wantMax: []int{4096, 4096}, wantTurns: 2},
		{name: "with little room the answer is to be shorter", ceiling: first + 100, steps: []scripted.Step{says(v1alpha1.Unclear)}, wantMax: []int{612}, wantTurns: 1},
		{name: "as short as a verdict can be", ceiling: first, steps: []scripted.Step{says(v1alpha1.Unclear)}, wantMax: []int{512}, wantTurns: 1},
		{name: "with less nothing is asked, and nothing is said about the tool", ceiling: first - 1, want: fmt.Sprintf("the token ceiling of %d was reached before there was a verdict: %d are left and the next call may cost %d: raise spec.tokenCeiling of the DiagnosisRecipe", first-1, first-1, first)},
		{name: "what a call cost is no longer there for the next", ceiling: first + 1000, steps: []scripted.Step{calls(llm.ToolHealthRead), says(v1alpha1.Unclear)},
			wantMax: []int{1512}, wantTurns: 1, want: "the token ceiling", wantRows: unclear},
		{name: "a cheap call leaves room for another", ceiling: first + 2600, steps: []scripted.Step{calls(llm.ToolHealthRead), says(v1alpha1.Unclear)},
			wantMax: []int{3112, -1}, wantTurns: 2},
		{name: "not if the endpoint does not say that it was cheap", ceiling: first + 2600, wantTurns: 1, want: "the token ceiling", wantMax: []int{3112}, wantRows: unclear,
			steps: []scripted.Step{unreported(calls(llm.ToolHealthRead)), says(v1alpha1.Unclear)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.input.Limits.TokenCeiling = tc.ceiling
			out, requests := w.runScript(t, tc.steps...)
			var limits []int
			for i, r := range requests {
				limit := r.MaxTokens //nolint:staticcheck // SA1019: what is sent.
				if i < len(tc.wantMax) && tc.wantMax[i] < 0 && limit >= minTurnTokens {
					limit = -1
				}
				limits = append(limits, limit)
			}
			if diff := cmp.Diff(tc.wantMax, limits); diff != "" {
				t.Errorf("the answers were limited to (-want +got):\n%s", diff)
			}
			if out.Err != nil || out.Usage.Turns != tc.wantTurns || !strings.Contains(out.Fallback, tc.want) || (out.Fallback == "") != (tc.want == "") {
				t.Errorf("after %d turns: %q, %v; want %d and %q", out.Usage.Turns, out.Fallback, out.Err, tc.wantTurns, tc.want)
			}
			if diff := cmp.Diff(tc.wantRows, describeRows(t, w.input, Decide(w.input, out, now).Rows)); tc.want != "" && diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if out.Ceiling != (tc.want != "") {
				t.Errorf("that the ceiling is why is said: %t", out.Ceiling)
			}
			if used := out.Usage.PromptTokens + out.Usage.CompletionTokens; used > tc.ceiling {
				t.Errorf("it cost %d of %d", used, tc.ceiling)
			}
		})
	}
}

func TestADailyBudgetIsAskedBeforeEachCall(t *testing.T) {
	first := FirstCall(newWorld(t).input, now)
	for _, tc := range []struct {
		name      string
		limits    budget.Limits
		steps     []scripted.Step
		wantTurns int32
		want      string
		wantRows  []string
	}{
		{name: "enough is left", limits: budget.Limits{PerTenant: 100_000, All: 100_000}, steps: []scripted.Step{says(v1alpha1.Intermittent)}, wantTurns: 1,
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"}},
		{name: "the last call has a short answer", limits: budget.Limits{PerTenant: first}, steps: []scripted.Step{says(v1alpha1.Intermittent)}, wantTurns: 1,
			wantRows: []string{"PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"}},
		{name: "too little for a call: nothing is asked, and nothing is said about the tool", limits: budget.Limits{PerTenant: first - 1}, want: "the daily budget of"},
		{name: "nor with too little for all", limits: budget.Limits{PerTenant: 100_000, All: first - 1}, want: "of all tenants is used up"},
		{name: "it ends between two calls: without a failed probe nothing is known either", limits: budget.Limits{PerTenant: first + 1000},
			steps: []scripted.Step{calls(llm.ToolHealthRead)}, wantTurns: 1, want: "of tenant acme is used up"},
		{name: "a probe that failed is known", limits: budget.Limits{PerTenant: first + 1000}, steps: []scripted.Step{calls(llm.ToolProbeAsSystem)}, wantTurns: 1,
			want: "of tenant acme is used up", wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.tool.Fail(sampletools.Answer{Status: 503})
			keeper := keeperOf(tc.limits)
			w.input.Account = keeper.Account("acme")
			before := left(t, keeper)
			out, requests := w.runScript(t, tc.steps...)
			if out.Usage.Turns != tc.wantTurns || len(requests) != int(tc.wantTurns) || out.Exhausted != (tc.want != "") || !strings.Contains(out.Fallback, tc.want) {
				t.Errorf("after %d turns: %q, %v", out.Usage.Turns, out.Fallback, out.Err)
			}
			if used := out.Usage.PromptTokens + out.Usage.CompletionTokens; before-left(t, keeper) != used {
				t.Errorf("the run used %d, its budget went from %d to %d", used, before, left(t, keeper))
			}
			if diff := cmp.Diff(tc.wantRows, describeRows(t, w.input, Decide(w.input, out, now).Rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// An account that cannot be asked, before the first call or between two, says nothing about the tool.
func TestAnAccountThatCannotBeAsked(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, budget.ConfigMapName, nil)
	for _, tc := range []struct {
		name     string
		first    string // what the model calls first
		works    int    // how many writes work
		err      error
		want     string
		wantRows []string
	}{
		{"a role that lacks a right, at once", llm.ToolHealthRead, 0, forbidden, "the manager's role", nil},
		{"a role that lost a right between two calls", llm.ToolHealthRead, 1, forbidden, "the manager's role", nil},
		{"an API server that went away between two calls", llm.ToolHealthRead, 1, apierrors.NewServiceUnavailable("etcd is gone"), "or the API server (write ConfigMap agrajag-daily-tokens: etcd is gone)", nil},
		{"what a probe showed before is known", llm.ToolProbeAsSystem, 1, forbidden, "the manager's role", []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.tool.Fail(sampletools.Answer{Status: 503})
			keeper, writes := keeperOf(budget.Limits{PerTenant: 1_000_000}), 0
			fail := func() error {
				if writes++; writes > tc.works {
					return tc.err
				}
				return nil
			}
			keeper.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					return errors.Join(fail(), c.Create(ctx, o, opts...))
				},
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return fail() },
			})
			w.input.Account = keeper.Account("acme")
			step := calls(tc.first)
			step.Usage = llm.Usage{Prompt: 1200, Completion: 100_000} // more than a block, so that the next call has to write
			w.input.Limits.TokenCeiling = 1_000_000
			out, requests := w.runScript(t, step)
			if len(requests) != tc.works || out.Err != nil || out.Exhausted || !out.NotKept || !strings.Contains(out.Fallback, tc.want) || len(out.Fallback) > 450 {
				t.Errorf("after %d calls: %+v", len(requests), out)
			}
			if diff := cmp.Diff(tc.wantRows, describeRows(t, w.input, Decide(w.input, out, now).Rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// What was paid for is not lost to a moment in which the API server does not answer.
func TestAnAccountThatCannotBeAskedForAMoment(t *testing.T) {
	w := newWorld(t)
	w.tool.Fail(sampletools.Answer{Status: 503})
	keeper, writes := keeperOf(budget.Limits{PerTenant: 1_000_000}), 0
	keeper.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			if writes++; writes < 3 { // Of the settling and of the next call.
				return apierrors.NewServiceUnavailable("etcd elects")
			}
			return nil
		},
	})
	w.input.Account = keeper.Account("acme")
	step, verdict := calls(llm.ToolProbeAsSystem), says(v1alpha1.TechnicallyBroken)
	step.Usage = llm.Usage{Prompt: 1200, Completion: 100_000}
	w.input.Limits.TokenCeiling = 1_000_000
	out, requests := w.runScript(t, step, verdict)
	if len(requests) != 2 || out.Fallback != "" || out.Err != nil || out.NotKept || writes != 3 {
		t.Errorf("after %d calls and %d writes: %+v", len(requests), writes, out)
	}
}

func TestACallThatFails(t *testing.T) {
	t.Run("one that is refused costs nothing", func(t *testing.T) {
		w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 100_000})
		w.input.Account = keeper.Account("acme")
		out, _ := w.runScript(t, scripted.Step{Status: 503, Text: "overloaded"})
		if out.Err == nil || left(t, keeper) != 100_000 || out.Usage.PromptTokens != 0 {
			t.Errorf("%d are left after %+v", left(t, keeper), out)
		}
	})
	t.Run("an answer that cannot be used and does not say what it cost is charged the worst", func(t *testing.T) {
		w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 100_000})
		w.input.Account = keeper.Account("acme")
		out, requests := w.runScript(t, scripted.Step{Cut: true})
		worst := FirstCall(w.input, now) - minTurnTokens + maxTurnTokens
		if out.Err == nil || len(requests) != 1 || left(t, keeper) != 100_000-worst {
			t.Errorf("%d are left after %+v, want %d charged", left(t, keeper), out, worst)
		}
	})
	t.Run("one that says what it cost is charged that", func(t *testing.T) {
		w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 100_000})
		w.input.Account = keeper.Account("acme")
		out, _ := w.runScript(t, scripted.Step{Cut: true, Usage: llm.Usage{Prompt: 1200, Completion: 300}})
		if out.Err == nil || left(t, keeper) != 98_500 {
			t.Errorf("%d are left after %+v", left(t, keeper), out)
		}
	})
	t.Run("one that is broken off costs all that was held for it", func(t *testing.T) {
		w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 100_000})
		w.input.Account = keeper.Account("acme")
		ctx, cancel := context.WithCancel(t.Context())
		out := w.engine.Run(ctx, w.input, interrupted{cancel})
		worst := FirstCall(w.input, now) - minTurnTokens + maxTurnTokens
		if used := out.Usage.PromptTokens + out.Usage.CompletionTokens; out.Err == nil || used != worst || left(t, keeper) != 100_000-worst {
			t.Errorf("%d are left and %d used after %v, want %d used", left(t, keeper), used, out.Err, worst)
		}
	})
}

// Every model that is asked is paid for by itself, and none that cannot be.
func TestEachModelIsPaidForByItself(t *testing.T) {
	first := FirstCall(newWorld(t).input, now)
	worst := first - minTurnTokens + maxTurnTokens
	verdict := says(v1alpha1.Unclear)
	overloaded, cut := scripted.Step{Status: 503, Text: "busy"}, scripted.Step{Cut: true}
	gateway, broken := scripted.Step{Status: 504}, scripted.Step{Serve: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5000")
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"I have thought a lot `))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
	for _, tc := range []struct {
		name            string
		ceiling, budget int64
		steps           []scripted.Step
		wantRequests    int
		wantUsed        int64
		wantErr         string
	}{
		{"one that refuses costs nothing, and the next may be asked", 60_000, 100_000, []scripted.Step{overloaded, verdict}, 2, 1540, ""},
		{"one that may have worked is charged beside the one that answers", 60_000, 100_000, []scripted.Step{cut, verdict}, 2, worst + 1540, ""},
		{"all that may have worked are charged", 60_000, 100_000, []scripted.Step{cut, cut, cut}, 3, 3 * worst, "before it said anything"},
		{"all that break off are charged", 60_000, 100_000, []scripted.Step{broken, broken, broken}, 3, 3 * worst, "unexpected EOF"},
		{"all that a gateway gives up are charged", 60_000, 100_000, []scripted.Step{gateway, gateway, gateway}, 3, 3 * worst, "HTTP status 504"},
		{"one that breaks off is charged beside one that refuses and one that answers", 60_000, 100_000, []scripted.Step{broken, overloaded, verdict}, 3, worst + 1540, ""},
		{"the last alone, where the others refused", 60_000, 100_000, []scripted.Step{overloaded, overloaded, cut}, 3, worst, "busy"},
		{"nothing more is asked than the ceiling lets", worst + first - 1, 100_000, []scripted.Step{cut, verdict}, 1, worst, "model m2 was not asked: the token ceiling"},
		{"nor behind one that broke off", worst + first - 1, 100_000, []scripted.Step{broken, verdict}, 1, worst, "model m2 was not asked: the token ceiling"},
		{"nor than the budget lets", 60_000, worst + first - 1, []scripted.Step{cut, verdict}, 1, worst, "model m2 was not asked: the daily budget"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: tc.budget})
			w.input.Account, w.input.Limits.TokenCeiling = keeper.Account("acme"), tc.ceiling
			script := scripted.New(tc.steps...)
			server := httptest.NewServer(script)
			defer server.Close()
			out := w.engine.Run(t.Context(), w.input, llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL + "/v1", Models: []string{"m1", "m2", "m3"}}))
			used := out.Usage.PromptTokens + out.Usage.CompletionTokens
			if n := len(script.Requests()); n != tc.wantRequests || used != tc.wantUsed || tc.budget-left(t, keeper) != used || out.Usage.Turns != 1 {
				t.Errorf("%d requests used %d in %d turns, and %d are left; want %d and %d", n, used, out.Usage.Turns, left(t, keeper), tc.wantRequests, tc.wantUsed)
			}
			if (out.Err == nil) != (tc.wantErr == "") || out.Err != nil && !strings.Contains(out.Err.Error(), tc.wantErr) || out.Exhausted || out.Fallback != "" {
				t.Errorf("it ended with %v, %+v", out.Err, out)
			}
		})
	}
}

// A diagnosis that is broken off while its account is asked ends as such, and not for want of an account.
func TestAnAccountThatIsAskedWhenTheManagerStops(t *testing.T) {
	w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 100_000})
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("the lease was lost")
	keeper.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			cancel(lost)
			return ctx.Err()
		},
	})
	w.input.Account = keeper.Account("acme")
	out := w.engine.Run(ctx, w.input, interrupted{func() { t.Error("the model was asked") }})
	if !errors.Is(out.Err, lost) || out.Fallback != "" {
		t.Errorf("got %+v", out)
	}
}

// interrupted is a model during whose answer the manager stops.
type interrupted struct{ stop func() }

func (i interrupted) Complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	done, err := r.Try(ctx, &r)
	if err != nil {
		return llm.Response{}, err
	}
	i.stop()
	done(llm.Response{}, context.Cause(ctx))
	return llm.Response{}, context.Cause(ctx)
}

func TestTheBuiltinDiagnosticianIsNotCounted(t *testing.T) {
	w, keeper := newWorld(t), keeperOf(budget.Limits{PerTenant: 1, All: 1})
	w.input.Account, w.input.Limits.TokenCeiling = keeper.Account("acme"), 1
	out := w.engine.Run(t.Context(), w.input, llm.Builtin{})
	if out.Fallback != "" || out.Err != nil || out.Usage != (v1alpha1.Usage{Turns: 3}) || left(t, keeper) != 1 {
		t.Errorf("with a budget of one token: %+v", out)
	}
}

// Its input and whom it is made as are all that a probe depends on.
func TestTheSameProbeIsAnsweredFromItsFirstResult(t *testing.T) {
	w := newWorld(t)
	w.input.Limits.MaxIterations = 6
	w.tool.RefuseToken(aliceToken)
	out, requests := w.runScript(t, calls(llm.ToolProbeAsUser, llm.ToolProbeAsSystem, llm.ToolProbeAsUser), calls(llm.ToolProbeAsUser), says(v1alpha1.UserSpecificTechnical))
	if w.tool.Calls() != 2 || len(out.Probes) != 2 || len(out.Evidence) != 2 {
		t.Errorf("the tool was called %d times, %d are in the audit and %d in evidence", w.tool.Calls(), len(out.Probes), len(out.Evidence))
	}
	var contents []string
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == llm.RoleTool {
			contents = append(contents, m.Content)
		}
	}
	if len(contents) != 4 || contents[0] != contents[2] || contents[0] != contents[3] || contents[0] == contents[1] || !strings.Contains(contents[0], "401") {
		t.Errorf("the probes were answered %q", contents)
	}
}

// TestWhatADiagnosisCosts logs the figures of docs/diagnosis.md and holds that none comes near to the default target.
func TestWhatADiagnosisCosts(t *testing.T) {
	body := func(in *Input) { in.Job.Spec.Error.Body = strings.Repeat("<p>upstream is gone</p>\n", 500) }
	known := func(in *Input) {
		withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")(in)
	}
	refuse := func(w *world) { w.tool.RefuseToken(aliceToken) }
	fail := func(w *world) {
		w.tool.Fail(sampletools.Answer{Status: 503, Body: strings.Repeat("maintenance ", 100)})
	}
	asks := []scripted.Step{calls(llm.ToolHealthRead), calls(llm.ToolProbeAsUser, llm.ToolProbeAsSystem)}
	for _, tc := range []struct {
		name    string
		change  []func(*Input)
		arrange func(*world)
		verdict v1alpha1.Classification
	}{
		{"an outage", nil, fail, v1alpha1.TechnicallyBroken},
		{"an outage that is known, with a body of 12 KB", []func(*Input){body, known}, fail, v1alpha1.TechnicallyBroken},
		{"one user's token", nil, refuse, v1alpha1.UserSpecificTechnical},
		{"a tool that works by now", []func(*Input){known}, func(*world) {}, v1alpha1.Working},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.change...)
			tc.arrange(w)
			builtin := w.engine.Run(t.Context(), w.input, llm.Builtin{})
			out, requests := w.runScript(t, append(asks, says(tc.verdict))...)
			sent, worst := 0, int64(0)
			for _, r := range requests {
				var as llm.Request
				for _, m := range r.Messages {
					as.Messages = append(as.Messages, llm.Message{Role: m.Role, Content: m.Content})
					sent += len(m.Content)
				}
				as.Tools = tools(w.input)[:len(r.Tools)]
				worst += worstPrompt(as)
			}
			firstCall, _ := json.Marshal(requests[0].Messages)
			t.Logf("built-in: %d turns, 0 tokens; model: %d calls, first %d bytes, at worst %d tokens; all %d bytes, about %d tokens, at worst %d",
				builtin.Usage.Turns, out.Usage.Turns, len(firstCall), FirstCall(w.input, now)-minTurnTokens, sent, sent/4, worst)
			if out.Fallback != "" || out.Err != nil || worst > DefaultLimits().TokenCeiling {
				t.Errorf("it ended with %q, %v, at a worst case of %d", out.Fallback, out.Err, worst)
			}
		})
	}
}
