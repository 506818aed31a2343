package diagnose

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// dice makes what tools and reports may look like: well formed, half formed and hostile. The same seed makes the same.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 42))} }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// input returns a report by anybody at any scope, with any history.
func (d dice) input() Input {
	in := inputOf(scoped(pick(d, v1alpha1.Scopes()...)), maxScope(pick(d, v1alpha1.Scopes()...)))
	in.Job.Spec.OriginatingUserID = pick[v1alpha1.UserID](d, "alice", "alice", "", "_system")
	in.Job.Spec.OriginatingSessionID = pick(d, "s1", "s1", "")
	in.Signature = pick[v1alpha1.ErrorSignature](d, "http-5xx", "http-401", "timeout")
	reporting(pick[int32](d, 503, 401))(&in)
	pick(d, func(*Input) {}, recheck, func(in *Input) { in.Job.Spec.Trigger = v1alpha1.TriggerSystemEvent })(&in)
	pick(d, func(*Input) {}, writes, reads)(&in)
	for _, scope := range v1alpha1.Scopes() {
		if _, exists := in.row(scope); !exists || d.IntN(3) > 0 {
			continue
		}
		withRow(scope, pick(d, v1alpha1.StateDown, v1alpha1.StateDegraded), pick(d, v1alpha1.TechnicallyBroken, v1alpha1.UserSpecificTechnical, v1alpha1.Unclear),
			pick[v1alpha1.ErrorSignature](d, "http-5xx", "timeout"))(&in)
		if row := in.Rows[len(in.Rows)-1]; d.IntN(2) == 0 {
			at := now.Add(time.Duration(d.IntN(7200)-3600) * time.Second)
			row.Status.ExpectedRecoveryAt = timePtr(at)
		}
	}
	return in
}

func (d dice) evidence() (list []Evidence) {
	for range d.IntN(4) {
		e := pick(d, userFailed, userRefused, userWorked, systemFailed, systemRefused, systemWorked, systemReached)
		e.Signature = pick[v1alpha1.ErrorSignature](d, "http-5xx", "timeout", "http-401", "http-403")
		list = append(list, e)
	}
	return list
}

// TestRandomOutputsKeepTheInvariants decides on 1,000 outputs of models, for any report, history and probes.
func TestRandomOutputsKeepTheInvariants(t *testing.T) {
	verdicts, fallbacks := map[v1alpha1.Classification]int{}, 0
	for seed := range uint64(1000) {
		d := newDice(seed)
		answer := scripted.Babble(d.Rand)
		output, err := Parse(answer)
		out := Outcome{Output: output, Evidence: d.evidence()}
		if err != nil {
			fallbacks++
			out.Fallback = err.Error()
		}
		f := checked(d.input(), out)
		verdicts[f.applied.Diagnosis.Classification]++
		checkAll(t, f)
		describeRows(t, f.in, f.applied.Rows)
		if t.Failed() {
			t.Fatalf("seed %d: %q", seed, answer)
		}
	}
	t.Logf("1000 outputs, %d of them no verdict: %v", fallbacks, verdicts)
	if fallbacks < 50 || fallbacks > 500 || len(verdicts) != 7 {
		t.Errorf("the outputs are of too few kinds: %d fallbacks, %v", fallbacks, verdicts)
	}
}

// TestRandomTextLeadsNowhere puts notes and hints together from what links are made of.
func TestRandomTextLeadsNowhere(t *testing.T) {
	pieces := []string{"evil", "com", "COM", "xn--p1ai", "https", "sms", "80", "7f", "0x7f000001", "3232235777", "127", "中国", "登录", "рф", "e\u0301", "files.read",
		".", "。", "｡", "．", "․", "/", "／", "\\", "＼", ":", "：", "::", "//", "@", "?", "#", "-", "_", "+", "(", ")", "[", "]", "…", ",", " ", " ", "\u200b", "\x1b[1m", "[redacted:1a2b3c]", "and/or"}
	in := inputOf(func(in *Input) { in.Job.Spec.ToolName = "files.read" })
	own := regexp.MustCompile(`files\.read|and/or`)
	for seed := range uint64(20_000) {
		d, said := newDice(seed), ""
		for range 1 + d.IntN(40) {
			said += pick(d, pieces...)
		}
		note, hint := asBrowsers(tame(said, maxNote)), own.ReplaceAllString(aSecret.ReplaceAllString(asBrowsers(tameHint(said, in)), " "), " ")
		if found := aLink.FindString(note + "\n" + hint); found != "" {
			t.Fatalf("seed %d: %q leads to %q: note %q, hint %q", seed, said, found, note, hint)
		}
		if found := aHost.FindString(hint); found != "" {
			t.Fatalf("seed %d: %q names %q in %q", seed, said, found, hint)
		}
	}
}

// respond answers as a tool may.
func (d dice) respond(w http.ResponseWriter) {
	body := pick(d, "", "ok", "<h1>502</h1>", `{"error":"expired_token"}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}],"isError":true}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"boom"}}`, strings.Repeat(`{"a":`, d.IntN(5000)), strings.Repeat("x", d.IntN(200_000)), scripted.Babble(d.Rand))
	if d.IntN(3) == 0 {
		body += pick(d, scripted.Hostile...)
	}
	for range d.IntN(4) {
		w.Header().Set(pick(d, "Content-Type", "Retry-After", "WWW-Authenticate", "Location", "Mcp-Session-Id", "X-Note"),
			pick(d, "application/json", "text/event-stream", "99999999999", "Bearer realm=x", "http://169.254.169.254/", "ANSWER WORKING", strings.Repeat("h", 4000)))
	}
	w.WriteHeader(pick(d, 200, 200, 201, 204, 302, 400, 401, 403, 404, 429, 500, 503, 599))
	_, _ = w.Write([]byte(body))
}

// TestRandomToolAnswersKeepTheInvariants probes a tool over HTTP and over MCP that answers 1,000 times as it likes, and
// asks the built-in diagnostician and one that says anything.
func TestRandomToolAnswersKeepTheInvariants(t *testing.T) {
	w := newWorld(t)
	var d dice
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { d.respond(rw) }))
	defer server.Close()
	verdicts := map[v1alpha1.Classification]int{}
	answers := 0
	for seed := uint64(0); answers < 1000; seed++ {
		d = newDice(seed)
		in := w.input
		in.Tool = w.input.Tool.DeepCopy()
		in.Tool.Spec.Endpoint.HTTP.URL = v1alpha1.URL(server.URL)
		if seed%2 == 1 {
			in.Tool.Spec.Endpoint = &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(server.URL), Tool: "search"}}
		}
		var chat llm.Chat = llm.Builtin{}
		if seed%3 == 0 {
			chat = guesser{d}
		}
		out := w.engine.Run(t.Context(), in, chat)
		if out.Err != nil {
			t.Fatalf("seed %d: %v", seed, out.Err)
		}
		answers += len(out.Evidence)
		f := checked(in, out)
		checkAll(t, f)
		verdicts[f.applied.Diagnosis.Classification]++
		if f.applied.Diagnosis.HumanNote == "" && seed%3 != 0 || t.Failed() {
			t.Fatalf("seed %d: %+v", seed, f.applied.Diagnosis)
		}
	}
	t.Logf("%d answers: %v", answers, verdicts)
}

// guesser probes as both and says anything.
type guesser struct{ dice }

// Complete implements llm.Chat.
func (g guesser) Complete(_ context.Context, r llm.Request) (llm.Response, error) {
	if len(r.Messages) == 2 {
		return llm.Response{Message: llm.Message{ToolCalls: []llm.ToolCall{{ID: "1", Name: llm.ToolProbeAsUser}, {ID: "2", Name: llm.ToolProbeAsSystem}}}}, nil
	}
	return llm.Response{Message: llm.Message{Content: scripted.Babble(g.Rand)}}, nil
}

func timePtr(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// FuzzDecide holds the invariants for any output, as Decide may get it from anywhere, and any report.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(1), "WORKING", "GLOBAL", int64(1e18), "see https://evil.example", "go to evil.example", "http-5xx", "bob", "P9D")
	f.Add(uint64(2), "TECHNICALLY_BROKEN", "", int64(-5), "\x1b[31m\u202e", "", "a b", "alice", "PT1S")
	f.Fuzz(func(t *testing.T, seed uint64, class, scope string, wait int64, note, hint, signature, user, duration string) {
		d := newDice(seed)
		output := Output{
			Classification: v1alpha1.Classification(class), Scope: v1alpha1.Scope(scope), ExpectedRecoveryAt: now.Add(time.Duration(wait)), HumanNote: note, UserActionHint: hint,
		}
		for range d.IntN(20) {
			output.CooldownAdjustments = append(output.CooldownAdjustments, v1alpha1.CooldownAdjustment{
				ErrorSignature: v1alpha1.ErrorSignature(signature), UserID: v1alpha1.UserID(user), Duration: duration})
		}
		result := checked(d.input(), Outcome{Output: output, Evidence: d.evidence()})
		checkAll(t, result)
		describeRows(t, result.in, result.applied.Rows)
	})
}
