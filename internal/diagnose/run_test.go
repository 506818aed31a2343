package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	openai "github.com/sashabaranov/go-openai"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

const (
	aliceToken  = "alices-token"
	systemToken = "systems-token"
)

// world is a real sample tool, an engine that may probe it, and a report about it.
type world struct {
	tool   *sampletools.HTTPAPI
	engine *Engine
	input  Input
}

func newWorld(t *testing.T, change ...func(*Input)) *world {
	t.Helper()
	tool := sampletools.NewHTTPAPI(aliceToken, systemToken)
	server := httptest.NewServer(tool)
	t.Cleanup(server.Close)
	rules, problems := classify.Compile(classify.Bundled())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := inputOf(change...)
	in.Rules = rules
	in.Tool = &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "essays", Name: "search"}, Spec: v1alpha1.ToolSpec{
		Safety:      v1alpha1.SafetySafeProbe,
		Endpoint:    &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(server.URL + "/v1/search?q=health")}},
		Credentials: &v1alpha1.ToolCredentials{System: &v1alpha1.SecretName{Name: "system"}},
	}}
	return &world{tool: tool, engine: engineWith(t, secretOf("agrajag-user-"+tenancy.Hash12("alice"), probe.SecretTypeUser, aliceToken),
		secretOf("system", probe.SecretTypeSystem, systemToken)), input: in}
}

func secretOf(name string, kind corev1.SecretType, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "essays", Name: name}, Type: kind,
		Data: map[string][]byte{"token": []byte(token), "hosts": []byte("127.0.0.1")}}
}

func engineWith(t *testing.T, secrets ...client.Object) *Engine {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &Engine{
		Prober:      probe.New(probe.Options{Guard: probe.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}),
		Credentials: probe.Credentials{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(secrets...).Build()},
		Clock:       testclock.NewFakePassiveClock(now),
	}
}

// runScript runs the diagnosis with the real client against a scripted endpoint.
func (w *world) runScript(t *testing.T, steps ...scripted.Step) (Outcome, []scripted.Request) {
	t.Helper()
	script := scripted.New(steps...)
	server := httptest.NewServer(script)
	defer server.Close()
	chat := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL + "/v1", APIKey: "k", Models: []string{"m"}, HTTPClient: server.Client()})
	return w.engine.Run(t.Context(), w.input, chat), script.Requests()
}

func calls(names ...string) scripted.Step {
	step := scripted.Step{Usage: llm.Usage{Prompt: 1200, Completion: 60}}
	for i, name := range names {
		step.ToolCalls = append(step.ToolCalls, llm.ToolCall{ID: fmt.Sprintf("id-%d", i), Name: name, Arguments: `{"url":"http://evil.example","userId":"bob"}`})
	}
	return step
}

func says(class v1alpha1.Classification) scripted.Step {
	return scripted.Step{Text: fmt.Sprintf("```json\n{\"classification\":%q,\"humanNote\":\"so be it\"}\n```", class), Usage: llm.Usage{Prompt: 1500, Completion: 40}}
}

// answers returns what the tools answered, in the last request.
func answers(requests []scripted.Request) []string {
	var contents []string
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == llm.RoleTool {
			contents = append(contents, m.ToolCallID+" "+m.Content)
		}
	}
	return contents
}

func TestAModelProbesAsBothInOneTurnAndDecides(t *testing.T) {
	w := newWorld(t)
	w.tool.RefuseToken(aliceToken)
	out, requests := w.runScript(t, calls(llm.ToolHealthRead, llm.ToolProbeAsUser, llm.ToolProbeAsSystem), says(v1alpha1.UserSpecificTechnical))
	want := Outcome{
		Probes: []v1alpha1.ProbeAudit{
			{As: v1alpha1.ProbeAsUser, Possible: true, StatusCode: ptr.To[int32](401), ErrorSignature: "http-401"},
			{As: v1alpha1.ProbeAsSystem, Possible: true, Success: true, StatusCode: ptr.To[int32](200)},
		},
		Evidence: []Evidence{{As: v1alpha1.ProbeAsUser, Failed: true, Refused: true, Signature: "http-401"}, {As: v1alpha1.ProbeAsSystem, Success: true}},
		Usage:    v1alpha1.Usage{Turns: 2, PromptTokens: 2700, CompletionTokens: 100},
		Output:   Output{Classification: v1alpha1.UserSpecificTechnical, HumanNote: "so be it"},
	}
	if diff := cmp.Diff(want, out, cmpopts.IgnoreFields(v1alpha1.ProbeAudit{}, "At", "DurationMs", "Response")); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if response := out.Probes[0].Response; !strings.Contains(response, "unauthorized") || out.Probes[1].Response != "" {
		t.Errorf("the audit keeps %q of the failed answer and %q of the good one", response, out.Probes[1].Response)
	}
	if w.tool.CallsBy(aliceToken) != 1 || w.tool.CallsBy(systemToken) != 1 || w.tool.Calls() != 2 {
		t.Errorf("the tool was called %d times", w.tool.Calls())
	}
	got := answers(requests)
	if len(got) != 3 || !strings.HasPrefix(got[0], "id-0 ") || !strings.HasPrefix(got[1], "id-1 ") || !strings.HasPrefix(got[2], "id-2 ") {
		t.Fatalf("the calls were answered by %q", got)
	}
	var health llm.HealthFinding
	var user llm.ProbeFinding
	if errors.Join(json.Unmarshal([]byte(llm.Unframe(got[0][5:])), &health), json.Unmarshal([]byte(llm.Unframe(got[1][5:])), &user)) != nil {
		t.Fatalf("the answers are no JSON: %q", got)
	}
	if !health.ToolKnown || !health.Probeable || health.OriginatingUserID != "alice" || health.Scope != v1alpha1.ScopeProject || health.ErrorSignature != "http-5xx" {
		t.Errorf("tool_health_read answered %+v", health)
	}
	if user.StatusCode != http.StatusUnauthorized || user.Classification != v1alpha1.Unclear || user.ErrorSignature != "http-401" || !user.Possible || user.Success {
		t.Errorf("tool_probe_as_user answered %+v", user)
	}
	if strings.Contains(requests[1].Body, aliceToken) || strings.Contains(requests[1].Body, systemToken) {
		t.Error("a token reached the model")
	}
}

func TestAModelThatNeverStopsIsAskedToSummarise(t *testing.T) {
	tests := []struct {
		name      string
		limits    func(*Limits)
		steps     []scripted.Step
		wantCalls int
		wantTurns int32
		wantLast  string // the answer to the last call
	}{
		{
			name: "beyond the probes", limits: func(l *Limits) { l.MaxProbes, l.MaxIterations = 1, 6 },
			steps:     []scripted.Step{calls(llm.ToolProbeAsSystem, llm.ToolProbeAsSystem, llm.ToolProbeAsUser), says(v1alpha1.Working)},
			wantCalls: 1, wantTurns: 2, wantLast: `id-2 {"error":"probe limit reached"}`,
		},
		{
			name: "beyond the turns", limits: func(l *Limits) { l.MaxProbes, l.MaxIterations = 6, 1 },
			steps:     []scripted.Step{calls(llm.ToolProbeAsSystem), calls(llm.ToolProbeAsSystem, "nonsense"), says(v1alpha1.Working)},
			wantCalls: 1, wantTurns: 3, wantLast: `id-1 {"error":"probe limit reached"}`,
		},
		{
			name: "with no probe allowed", limits: func(l *Limits) { l.MaxProbes = 0 },
			steps:     []scripted.Step{calls(llm.ToolProbeAsSystem), says(v1alpha1.Working)},
			wantCalls: 0, wantTurns: 2, wantLast: `id-0 {"error":"probe limit reached"}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.limits(&w.input.Limits)
			out, requests := w.runScript(t, tc.steps...)
			if out.Err != nil || out.Fallback != "" || out.Output.Classification != v1alpha1.Working {
				t.Errorf("the run ended with %+v", out)
			}
			if w.tool.Calls() != tc.wantCalls || len(out.Evidence) != tc.wantCalls || out.Usage.Turns != tc.wantTurns {
				t.Errorf("%d probes and %d turns, want %d and %d", w.tool.Calls(), out.Usage.Turns, tc.wantCalls, tc.wantTurns)
			}
			last := requests[len(requests)-1]
			if got := answers(requests); got[len(got)-1] != tc.wantLast {
				t.Errorf("the last call was answered %q", got[len(got)-1])
			}
			if closing := last.Messages[len(last.Messages)-1]; closing.Role != llm.RoleUser || closing.Content != "probe-limit reached — summarise now" {
				t.Errorf("the closing message is %+v", closing)
			}
			if len(last.Tools) != 0 || len(requests[0].Tools) != 3 {
				t.Errorf("%d tools were offered at first, %d at last", len(requests[0].Tools), len(last.Tools))
			}
		})
	}
}

func TestAModelThatCannotBeUsedLeadsToTheFallback(t *testing.T) {
	costly := calls(llm.ToolHealthRead)
	costly.Usage = llm.Usage{Prompt: 1200, Completion: 58_000}
	tests := []struct {
		name      string
		steps     []scripted.Step
		wantTurns int32
		want      string
	}{
		{"prose only", []scripted.Step{{Text: "It is broken."}}, 1, "no JSON object with a classification"},
		{"a verdict cut in the middle", []scripted.Step{{Text: `{"classification":"WORK`, Cut: true}}, 1, "cut at its length limit"},
		{"tool calls even where there are no tools", []scripted.Step{calls("a"), calls("a"), calls("a"), calls("a"), calls("a")}, 5, "no JSON object"},
		{"the token ceiling before a verdict", []scripted.Step{costly, says(v1alpha1.Working)}, 1, "the token ceiling of 60000 was reached"},
		{"the token ceiling before the summary", []scripted.Step{calls("a"), calls("a"), calls("a"), costly, says(v1alpha1.Working)}, 4, "the token ceiling"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			out, _ := w.runScript(t, tc.steps...)
			if out.Err != nil || !strings.Contains(out.Fallback, tc.want) || out.Usage.Turns != tc.wantTurns {
				t.Errorf("after %d turns: fallback %q, error %v; want %d and %q", out.Usage.Turns, out.Fallback, out.Err, tc.wantTurns, tc.want)
			}
			if rows := describeRows(t, w.input, Decide(w.input, out, now).Rows); !cmp.Equal(rows, []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"}) {
				t.Errorf("the fallback wrote %q", rows)
			}
		})
	}
}

func TestARunWithoutAnAnswerIsAnError(t *testing.T) {
	t.Run("the model refuses, after a probe", func(t *testing.T) {
		w := newWorld(t)
		out, _ := w.runScript(t, calls(llm.ToolProbeAsSystem), scripted.Step{Status: 503, Text: "overloaded"})
		if out.Err == nil || !strings.Contains(out.Err.Error(), "overloaded") || len(out.Probes) != 1 || out.Usage.Turns != 2 {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("the model cannot be reached", func(t *testing.T) {
		refused, err := sampletools.Refused()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t)
		out := w.engine.Run(t.Context(), w.input, llm.NewOpenAI(llm.OpenAIOptions{Endpoint: refused, Models: []string{"m"}}))
		if out.Err == nil || !strings.Contains(out.Err.Error(), "refused") || Decide(w.input, out, now).Rows != nil {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("the deadline passes while the model thinks", func(t *testing.T) {
		w := newWorld(t)
		w.input.Limits.Deadline = 50 * time.Millisecond
		out, _ := w.runScript(t, scripted.Step{Delay: time.Minute, Text: "{}"})
		if !errors.Is(out.Err, context.DeadlineExceeded) || !strings.Contains(out.Err.Error(), "50ms") {
			t.Errorf("got %v", out.Err)
		}
	})
	t.Run("the deadline passes while the tool is probed", func(t *testing.T) {
		w := newWorld(t)
		slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		defer slow.Close()
		w.input.Tool.Spec.Endpoint.HTTP.URL = v1alpha1.URL(slow.URL)
		w.input.Limits.Deadline = 100 * time.Millisecond
		out := w.engine.Run(t.Context(), w.input, llm.Builtin{})
		if !errors.Is(out.Err, context.DeadlineExceeded) || len(out.Evidence) != 0 || Decide(w.input, out, now).Rows != nil {
			t.Errorf("a probe that was broken off counts: %+v", out)
		}
	})
	t.Run("the manager stops", func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if out := w.engine.Run(ctx, w.input, llm.Builtin{}); !errors.Is(out.Err, context.Canceled) || out.Usage.Turns != 0 {
			t.Errorf("got %+v", out)
		}
	})
}

func TestWhatAModelCannotHave(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*world)
		call     string
		want     string // in the answer
		wantNone bool   // no audit
	}{
		{name: "a tool that does not exist", call: "delete_everything", want: `unknown tool \"delete_everything\"`, wantNone: true},
		{name: "a tool whose name no endpoint accepts back", call: "läuft\nnicht", want: `unknown tool \"unknown\"`, wantNone: true},
		{name: "a probe as nobody", call: llm.ToolProbeAsUser, want: "the report names no user",
			change: func(w *world) { w.input.Job.Spec.OriginatingUserID = tenancy.SystemUser }},
		{name: "a probe without the user's Secret", call: llm.ToolProbeAsUser, want: "credential not found",
			change: func(w *world) { w.input.Job.Spec.OriginatingUserID = "carol" }},
		{name: "a probe with a system Secret of another type", call: llm.ToolProbeAsSystem, want: "credential not allowed",
			change: func(w *world) { w.input.Tool.Spec.Credentials.System.Name = "agrajag-user-" + tenancy.Hash12("alice") }},
		{name: "a probe of an unknown tool", call: llm.ToolProbeAsSystem, want: "no Tool", change: func(w *world) { w.input.Tool = nil }},
		{name: "a probe of a tool that writes", call: llm.ToolProbeAsSystem, want: "SAFE_PROBE",
			change: func(w *world) { w.input.Tool.Spec.Safety = v1alpha1.SafetyWrite }},
		{name: "a probe where diagnosis is disabled", call: llm.ToolProbeAsSystem, want: "diagnosis is disabled",
			change: func(w *world) { w.input.Tool.Spec.Diagnosis = v1alpha1.DiagnosisDisabled }},
		{name: "a probe without an endpoint", call: llm.ToolProbeAsSystem, want: "no usable endpoint",
			change: func(w *world) { w.input.Tool.Spec.Endpoint = nil }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			if tc.change != nil {
				tc.change(w)
			}
			out, requests := w.runScript(t, calls(tc.call), says(v1alpha1.Unclear))
			if got := answers(requests); len(got) != 1 || !strings.Contains(got[0], tc.want) {
				t.Errorf("the call was answered %q, want %q", got, tc.want)
			}
			if out.Err != nil || len(out.Evidence) != 0 || w.tool.Calls() != 0 {
				t.Errorf("something was probed, or the run failed: %+v", out)
			}
			if tc.wantNone {
				if len(out.Probes) != 0 {
					t.Errorf("the audit is %+v", out.Probes)
				}
				return
			}
			if len(out.Probes) != 1 || out.Probes[0].Possible || !strings.Contains(out.Probes[0].Response, tc.want) {
				t.Errorf("the audit is %+v, want it to say %q", out.Probes, tc.want)
			}
		})
	}
}

func TestAFloodOfCallsIsBounded(t *testing.T) {
	w := newWorld(t)
	w.input.Tool = nil                       // every probe is impossible, so that none counts as sent
	w.input.Limits.TokenCeiling = 10_000_000 // half a megabyte came, whatever its cost is said to be
	flood := calls(strings.Split(strings.Repeat(llm.ToolProbeAsSystem+" ", 100)+llm.ToolHealthRead, " ")...)
	for i := range flood.ToolCalls {
		flood.ToolCalls[i].ID = "same"
		flood.ToolCalls[i].Arguments = strings.Repeat("{", 5000)
	}
	out, requests := w.runScript(t, flood, says(v1alpha1.Unclear))
	if len(out.Probes) != 1 || len(out.Evidence) != 0 {
		t.Errorf("%d audits, %d probes", len(out.Probes), len(out.Evidence))
	}
	ids := make(map[string]bool)
	var sent openai.ChatCompletionMessage
	for _, m := range requests[1].Messages {
		if len(m.ToolCalls) > 0 {
			sent = m
		}
	}
	for _, call := range sent.ToolCalls {
		ids[call.ID] = true
		if call.Function.Arguments != "{}" {
			t.Errorf("arguments went back: %.40q", call.Function.Arguments)
		}
	}
	if len(ids) != maxCalls || len(answers(requests)) != maxCalls {
		t.Errorf("%d calls with ids of their own and %d answers, want %d", len(ids), len(answers(requests)), maxCalls)
	}
}

func TestTheHealthIsReadOnce(t *testing.T) {
	w := newWorld(t)
	_, requests := w.runScript(t, calls(llm.ToolHealthRead, llm.ToolHealthRead), says(v1alpha1.Unclear))
	if got := answers(requests); len(got) != 2 || !strings.Contains(got[1], "read already") {
		t.Errorf("the calls were answered %q", got)
	}
}

func TestTheBuiltinDiagnosisEndToEnd(t *testing.T) {
	tests := []struct {
		name     string
		change   []func(*Input)
		arrange  func(*world)
		wantRows []string
		wantNote string
	}{
		{
			name:     "one user's token is refused and the tool works for the system",
			arrange:  func(w *world) { w.tool.RefuseToken(aliceToken) },
			wantRows: []string{`USER/alice: DOWN USER_SPECIFIC_TECHNICAL hint="Renew your sign-in or token for search; others can use it." cool=http-5xx/15m0s`},
			wantNote: "as alice: HTTP 401, as system: works",
		},
		{
			name:     "the tool is down for everybody",
			arrange:  func(w *world) { w.tool.Fail(sampletools.Answer{Status: 503, Body: "maintenance"}) },
			wantRows: []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=5m0s cool=http-5xx/5m0s"},
			wantNote: "as alice: HTTP 503, as system: HTTP 503",
		},
		{
			name:     "the tool works by now",
			change:   []func(*Input){withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")},
			arrange:  func(*world) {},
			wantRows: []string{"PROJECT/essays: OK WORKING cool=http-403/23h0m0s"},
			wantNote: "as alice: works, as system: works",
		},
		{
			name:     "the tool is unknown",
			arrange:  func(w *world) { w.input.Tool = nil },
			wantRows: []string{"PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"},
			wantNote: "Nothing could be probed (no Tool in the project describes it)",
		},
		{
			name:   "a tool that writes can be read, which does not lift its outage",
			change: []func(*Input){withRow(v1alpha1.ScopeProject, v1alpha1.StateDown, v1alpha1.TechnicallyBroken, "http-5xx")},
			arrange: func(w *world) {
				w.input.Tool.Spec.Safety = v1alpha1.SafetyWrite
				w.input.Tool.Spec.Endpoint.HTTP.Method = http.MethodPost
				w.input.Tool.Spec.Probe = &v1alpha1.ToolProbe{ReadOnlyCall: &v1alpha1.ReadOnlyCall{HTTP: &v1alpha1.HTTPReadOnlyCall{Path: "/v1/search?q=health"}}}
			},
			wantRows: []string{"PROJECT/essays: DOWN UNCLEAR cool=http-5xx/1h0m0s cool=http-403/23h0m0s"},
			wantNote: "The tool can be read, but the call that failed writes (as alice: works, as system: works)",
		},
		{
			name: "a tool without a system credential asks for one, and refuses the user's",
			arrange: func(w *world) {
				w.input.Tool.Spec.Credentials = nil
				w.tool.RequireAuth(true)
				w.tool.RefuseToken(aliceToken)
			},
			wantRows: []string{`USER/alice: DOWN USER_SPECIFIC_TECHNICAL hint="Renew your sign-in or token for search; others can use it." cool=http-5xx/15m0s`},
			wantNote: "as system: reachable, asks for a credential",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.change...)
			tc.arrange(w)
			out := w.engine.Run(t.Context(), w.input, llm.Builtin{})
			if out.Err != nil || out.Fallback != "" {
				t.Fatalf("the run ended with %v, %s", out.Err, out.Fallback)
			}
			if out.Usage != (v1alpha1.Usage{Turns: 3}) {
				t.Errorf("it cost %+v", out.Usage)
			}
			applied := Decide(w.input, out, now)
			if diff := cmp.Diff(tc.wantRows, describeRows(t, w.input, applied.Rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if !strings.Contains(applied.Diagnosis.HumanNote, tc.wantNote) {
				t.Errorf("the note is %q, want %q", applied.Diagnosis.HumanNote, tc.wantNote)
			}
		})
	}
}

func TestAnMCPToolIsDiagnosed(t *testing.T) {
	w := newWorld(t, anonymous)
	tool := sampletools.NewMCPServer()
	server := httptest.NewServer(tool)
	defer server.Close()
	tool.FailHTTP(sampletools.Answer{Status: http.StatusServiceUnavailable, Body: "gateway down"})
	w.input.Tool.Spec.Endpoint = &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(server.URL)}}
	w.input.Tool.Spec.Credentials = nil
	out := w.engine.Run(t.Context(), w.input, llm.Builtin{})
	want := []string{"PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=5m0s cool=http-5xx/5m0s"}
	if diff := cmp.Diff(want, describeRows(t, w.input, Decide(w.input, out, now).Rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s\n%+v", diff, out)
	}
}

// TestAProbeFailsAtTheToolsOwnHost: no rule about unknown hosts concerns a probe.
func TestAProbeFailsAtTheToolsOwnHost(t *testing.T) {
	w := newWorld(t)
	anywhere := v1alpha1.ErrorPattern{ID: "unknown-host", Match: v1alpha1.ErrorMatch{Host: v1alpha1.HostUnknown}, Signature: "unknown-host", Classification: v1alpha1.Unclear}
	own := v1alpha1.ErrorPattern{ID: "own-host", Match: v1alpha1.ErrorMatch{Host: v1alpha1.HostEndpoint}, Signature: "own-host", Classification: v1alpha1.Unclear}
	w.input.Rules, _ = classify.Compile(classify.Layer{Entries: []classify.Entry{{Pattern: anywhere}, {Pattern: own}}})
	w.tool.Fail(sampletools.Answer{Status: 503})
	out, _ := w.runScript(t, calls(llm.ToolProbeAsSystem), says(v1alpha1.Intermittent))
	if len(out.Probes) != 1 || out.Probes[0].ErrorSignature != "own-host" {
		t.Errorf("probes: %+v; want one of signature own-host", out.Probes)
	}
}

func TestTheSameProbeIsOneWhateverTheOrderOfItsInput(t *testing.T) {
	r := &run{in: Input{Tool: &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{
		Probe: &v1alpha1.ToolProbe{AllowModelInput: true}, Endpoint: &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{}}}}}}
	key := func(arguments string) probeKey { return r.keyOf(v1alpha1.ProbeAsUser, arguments) }
	if key(`{"sampleInput":{"a":1,"b":2}}`) != key(`{ "sampleInput": {"b":2, "a":1} }`) {
		t.Error("the same input in another order is another probe")
	}
	if key(`{"sampleInput":{"a":1}}`) == key(`{"sampleInput":{"a":2}}`) || key(`{}`) == key(`{"sampleInput":{"a":1}}`) {
		t.Error("another input is the same probe")
	}
	if key(`{"sampleInput":{"a":9007199254740992}}`) == key(`{"sampleInput":{"a":9007199254740993}}`) {
		t.Error("two large numbers are the same probe")
	}
	if key(`{}`) != key(`{"sampleInput":{}}`) {
		t.Error("no input is another probe than none declared")
	}
	r.in.Tool.Spec.Probe.AllowModelInput = false
	if key(`{"sampleInput":{"a":1}}`) != key(`{}`) {
		t.Error("input that the Tool does not let it choose makes another probe")
	}
}
