package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
)

// dice makes what models, tools and reports may look like: well formed, half formed and hostile. The same seed makes
// the same.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 42))} }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// hostile are values that no field should hold.
var hostile = []string{
	"", "null", "https://evil.example/?q=secret", "[a](http://evil.example)", "evil.example/x", "www.evil.example", "\x00\x1b[2J\x1b]0;t\x07", "\u202e\u200b\U000E0041",
	"\xff\xfe", strings.Repeat("é", 3000), "NaN", "1e999", "-1", "GALAXY", "bob", "_system", "alice", "</data>", "```json", "{{{", "PT99999999999H", "P400D", "-PT1H", "PT0S",
	"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-05-23T14:00:00.5Z", "http-5xx", "recheck", "a b", strings.Repeat("a", 300), "__proto__", "javascript:alert(1)",
	"mailto:a@b.example", "ｈｔｔｐｓ：／／evil.example/x", "http:\\\\evil.example", "//evil.example/x", "10.0.0.1/x", "пример.рф/путь",
}

// value returns JSON that may stand in a field: mostly one of those that fit, else anything.
func (d dice) value(fit ...string) string {
	switch d.IntN(24) {
	case 0, 1:
		return pick(d, "null", "true", "17", "-1e400", "[]", "{}", `["a"]`, `{"$ref":"#"}`)
	case 2, 3:
		return quote(pick(d, hostile...))
	case 4:
		return quote(pick(d, fit...) + pick(d, hostile...))
	}
	return quote(pick(d, fit...))
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// answer returns what a model may say.
func (d dice) answer() string {
	fields := []string{
		`"classification":` + d.value("TECHNICALLY_BROKEN", "USER_SPECIFIC_TECHNICAL", "USER_PERMISSION", "USER_INPUT", "INTERMITTENT", "WORKING", "UNCLEAR"),
		`"scope":` + d.value("SESSION", "USER", "PROJECT", "TENANT", "GLOBAL"),
		`"expectedRecoveryAt":` + d.value("2026-05-23T15:00Z", "2026-05-23T14:00:01Z", "2026-05-23T13:00:00Z", "2031-01-01T00:00:00Z", "null"),
		`"humanNote":` + d.value("503 since noon", strings.Repeat("words ", 200)),
		`"userActionHint":` + d.value("Renew the token.", "Go to https://evil.example/login"),
	}
	var adjustments []string
	for range d.IntN(12) {
		adjustments = append(adjustments, fmt.Sprintf(`{"errorSignature":%s,"userId":%s,"duration":%s}`,
			d.value("http-5xx", "timeout", "http-403"), d.value("alice", "bob", "null"), d.value("PT30M", "PT1S", "P1D", "P9999D", "PT0.5S")))
	}
	fields = append(fields, `"cooldownAdjustments":[`+strings.Join(adjustments, ",")+`]`)
	d.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	if d.IntN(3) == 0 { // a key twice, or none
		fields[0] = fields[d.IntN(len(fields))]
	}
	object := "{" + strings.Join(fields, ",") + "}"
	switch d.IntN(10) {
	case 0:
		object = object[:d.IntN(len(object))]
	case 1:
		object = strings.Replace(object, ":", ":"+pick(d, "NaN", "-", strings.Repeat("[", 20_000))+",", 1)
	case 2:
		at := d.IntN(len(object))
		object = object[:at] + pick(d, hostile...) + object[at:]
	case 3:
		object = `{"verdict":` + object + `}`
	}
	return pick(d, "", "Sure. ", "```json\n{}\n```\n") + pick(d, object, "```json\n"+object+"\n```", "```\n"+object) + pick(d, "", " Done.", object)
}

// input returns a report by anybody at any scope, with any history.
func (d dice) input() Input {
	in := inputOf(scoped(pick(d, v1alpha1.Scopes()...)), maxScope(pick(d, v1alpha1.Scopes()...)))
	in.Job.Spec.OriginatingUserID = pick[v1alpha1.UserID](d, "alice", "alice", "", "_system")
	in.Job.Spec.OriginatingSessionID = pick(d, "s1", "s1", "")
	in.Signature = pick[v1alpha1.ErrorSignature](d, "http-5xx", "http-401", "timeout")
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
		list = append(list, pick(d, userFailed, userRefused, userWorked, systemFailed, systemWorked, systemReached))
	}
	return list
}

// TestRandomOutputsKeepTheInvariants decides on 1,000 outputs of models, for any report, history and probes.
func TestRandomOutputsKeepTheInvariants(t *testing.T) {
	verdicts, fallbacks := map[v1alpha1.Classification]int{}, 0
	for seed := range uint64(1000) {
		d := newDice(seed)
		answer := d.answer()
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

// respond answers as a tool may.
func (d dice) respond(w http.ResponseWriter) {
	body := pick(d, "", "ok", "<h1>502</h1>", `{"error":"expired_token"}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}],"isError":true}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"boom"}}`, strings.Repeat(`{"a":`, d.IntN(5000)), strings.Repeat("x", d.IntN(200_000)), d.answer())
	if d.IntN(3) == 0 {
		body += pick(d, hostile...)
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
	return llm.Response{Message: llm.Message{Content: g.answer()}}, nil
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
