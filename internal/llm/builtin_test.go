package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

var builtinNow = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)

// talk lets the built-in diagnostician talk to tools that answer as given, and returns its calls and its verdict.
func talk(t *testing.T, health HealthFinding, answers map[string]any) (turns [][]string, v verdict) {
	t.Helper()
	health.Now, health.ToolName, health.Scope = builtinNow, "search", v1alpha1.ScopeProject
	request := Request{Tools: []Tool{{Name: ToolHealthRead}}}
	for range 5 {
		response, err := Builtin{}.Complete(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if len(response.Message.ToolCalls) == 0 {
			block := strings.TrimSuffix(strings.TrimPrefix(response.Message.Content, "```json\n"), "\n```")
			if err := json.Unmarshal([]byte(block), &v); err != nil {
				t.Fatalf("the verdict %s: %v", response.Message.Content, err)
			}
			return turns, v
		}
		request.Messages = append(request.Messages, response.Message)
		var names []string
		for _, call := range response.Message.ToolCalls {
			names = append(names, call.Name)
			content, err := json.Marshal(answers[call.Name])
			if call.Name == ToolHealthRead {
				content, err = json.Marshal(health)
			}
			if err != nil {
				t.Fatal(err)
			}
			request.Messages = append(request.Messages, Message{Role: RoleTool, ToolCallID: call.ID, Content: Frame(call.Name, string(content))})
		}
		turns = append(turns, names)
	}
	t.Fatal("it never decides")
	return nil, verdict{}
}

func TestBuiltinDecides(t *testing.T) {
	works := ProbeFinding{Possible: true, Success: true, StatusCode: 200}
	failed := func(status int, signature v1alpha1.ErrorSignature, class v1alpha1.Classification) ProbeFinding {
		return ProbeFinding{Possible: true, StatusCode: status, ErrorSignature: signature, Classification: class, Refused: status == 401 || status == 403}
	}
	broken, refused := failed(503, "http-5xx", v1alpha1.Unclear), failed(401, "http-401", v1alpha1.Unclear)
	forbidden, limited := failed(403, "http-403", v1alpha1.UserPermission), failed(429, "http-429", v1alpha1.Intermittent)
	badInput := failed(400, "bad-input", v1alpha1.UserInput)
	challenge := ProbeFinding{Possible: true, AuthChallenge: true, StatusCode: 401, ErrorSignature: "http-401"}
	impossible := ProbeFinding{Reason: "no Secret"}
	type entry struct {
		ago   time.Duration
		state v1alpha1.State
	}
	history := func(entries ...entry) []RowFinding {
		row := RowFinding{Scope: v1alpha1.ScopeProject}
		for _, e := range entries {
			row.History = append(row.History, v1alpha1.HealthHistoryEntry{At: metav1.NewTime(builtinNow.Add(-e.ago)), Status: e.state, ErrorSignature: "http-5xx"})
		}
		return []RowFinding{row}
	}
	lately := history(entry{5 * time.Minute, v1alpha1.StateDegraded}, entry{20 * time.Minute, v1alpha1.StateDown})
	tests := []struct {
		name         string
		user, system any                     // what the probes answer; a nil user is no originating user
		reported     v1alpha1.ErrorSignature // http-401 is one about who called
		rows         []RowFinding
		onlyReads    bool
		want         string // classification, scope, minutes to recovery, hint or not
		wantNote     string
	}{
		{name: "the user fails by the token, the system works", user: refused, system: works, want: "USER_SPECIFIC_TECHNICAL USER 0 hint", wantNote: "as alice: HTTP 401, as system: works"},
		{name: "the user fails otherwise, the system works", user: broken, system: works, want: "USER_SPECIFIC_TECHNICAL USER 0 hint"},
		{name: "the user may not, the system may", user: forbidden, system: works, want: "USER_PERMISSION USER 0"},
		{name: "the user is asked to wait, the system works", user: limited, system: works, want: "INTERMITTENT USER 0"},
		{name: "the user's token is refused by a tool that asks the system for one", user: refused, system: challenge, want: "USER_SPECIFIC_TECHNICAL USER 0 hint"},
		{name: "the user's token is refused and the system cannot be tried", user: refused, system: impossible, want: "UNCLEAR USER 0"},
		{name: "the user fails otherwise and the system is asked for a token", user: broken, system: challenge, want: "TECHNICALLY_BROKEN PROJECT 5"},
		{name: "both fail for the first time", user: broken, system: broken, want: "TECHNICALLY_BROKEN PROJECT 5", wantNote: "as alice: HTTP 503, as system: HTTP 503"},
		{name: "both fail and it was down before", user: broken, system: broken, rows: history(entry{9 * time.Hour, v1alpha1.StateDown}), want: "TECHNICALLY_BROKEN PROJECT 30"},
		{name: "both fail and it was only degraded before", user: broken, system: broken, rows: history(entry{9 * time.Hour, v1alpha1.StateDegraded}), want: "TECHNICALLY_BROKEN PROJECT 5"},
		{name: "both are asked to wait", user: limited, system: limited, want: "INTERMITTENT PROJECT 0"},
		{name: "the system fails and there is no user", system: broken, want: "TECHNICALLY_BROKEN PROJECT 5", wantNote: "(as system: HTTP 503)"},
		{name: "the probe's own input is wrong", system: badInput, want: "UNCLEAR PROJECT 0"},
		{name: "neither may", user: forbidden, system: forbidden, want: "UNCLEAR PROJECT 0"},
		{name: "the system may not", system: forbidden, want: "UNCLEAR PROJECT 0"},
		{name: "a tool that fails behind status 200", system: failed(200, "tool-exception", v1alpha1.Unclear), want: "TECHNICALLY_BROKEN PROJECT 5", wantNote: "as system: fails, tool-exception"},
		{name: "both work", user: works, system: works, want: "WORKING PROJECT 0"},
		{name: "the user works, the system fails", user: works, system: broken, want: "WORKING PROJECT 0", wantNote: "as alice: works, as system: HTTP 503"},
		{name: "both work, but it failed twice within the hour", user: works, system: works, rows: lately, want: "INTERMITTENT PROJECT 10"},
		{name: "both work, and it failed once within the hour", user: works, system: works, rows: history(entry{5 * time.Minute, v1alpha1.StateDown}, entry{2 * time.Hour, v1alpha1.StateDown}), want: "WORKING PROJECT 0"},
		{name: "both work, and what failed within the hour was something else", user: works, system: works, reported: "timeout", rows: lately, want: "WORKING PROJECT 0"},
		{name: "the system works and a refused user cannot be tried", user: impossible, system: works, reported: "http-401", want: "UNCLEAR USER 0", wantNote: "as alice: not possible: no Secret"},
		{name: "the system works and a user with another error cannot be tried", user: impossible, system: works, want: "WORKING PROJECT 0"},
		{name: "nothing can be probed and nothing is known", user: impossible, system: impossible, want: "UNCLEAR PROJECT 0", wantNote: "Nothing could be probed (no Secret)"},
		{name: "nothing can be probed and the same failed within the hour", user: impossible, system: impossible, rows: history(entry{time.Minute, v1alpha1.StateDegraded}), want: "INTERMITTENT PROJECT 10"},
		{name: "nothing can be probed and the same failed long ago", system: impossible, rows: history(entry{2 * time.Hour, v1alpha1.StateDown}), want: "UNCLEAR PROJECT 0"},
		{name: "nothing can be probed and the report is about the user's token", user: impossible, system: impossible, reported: "http-401-expired", want: "UNCLEAR USER 0"},
		{name: "the system's own credential is refused and there is no user", system: refused, want: "UNCLEAR PROJECT 0", wantNote: "which proves no outage"},
		{name: "the system's credential is refused as the reported one was", system: refused, reported: "http-401", want: "UNCLEAR PROJECT 0", wantNote: "which proves no outage"},
		{name: "both credentials are refused", user: refused, system: refused, want: "UNCLEAR PROJECT 0", wantNote: "The tool answers and refuses"},
		{name: "one is not allowed, the other's credential is refused", user: forbidden, system: refused, want: "UNCLEAR PROJECT 0", wantNote: "The tool answers and refuses"},
		{name: "the user is refused, and the system fails otherwise", user: refused, system: broken, want: "TECHNICALLY_BROKEN PROJECT 5"},
		{name: "the user fails otherwise, and the system is refused", user: broken, system: refused, want: "TECHNICALLY_BROKEN PROJECT 5"},
		{name: "a tool that writes can be read", user: works, system: works, onlyReads: true, want: "UNCLEAR PROJECT 0", wantNote: "can be read"},
		{name: "only a challenge", system: challenge, want: "UNCLEAR PROJECT 0", wantNote: "The tool is reachable"},
		{name: "the probe limit", system: map[string]string{"error": "probe limit reached"}, want: "UNCLEAR PROJECT 0", wantNote: "as system: not possible: probe limit reached"},
		{name: "an answer that is no JSON object", system: "what?", want: "UNCLEAR PROJECT 0"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			health := HealthFinding{ErrorSignature: "http-5xx", Rows: tc.rows, Trigger: v1alpha1.TriggerToolCallError, ProbesOnlyRead: tc.onlyReads}
			if tc.reported != "" {
				health.ErrorSignature, health.Refused = tc.reported, strings.HasPrefix(string(tc.reported), "http-401")
			}
			wantTurns := [][]string{{ToolHealthRead}, {ToolProbeAsSystem}}
			if tc.user != nil {
				health.OriginatingUserID = "alice"
				wantTurns[1] = []string{ToolProbeAsUser, ToolProbeAsSystem}
			}
			turns, v := talk(t, health, map[string]any{ToolProbeAsUser: tc.user, ToolProbeAsSystem: tc.system})
			if diff := cmp.Diff(wantTurns, turns); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			minutes := time.Duration(0)
			if v.ExpectedRecoveryAt != nil {
				at, err := time.Parse(time.RFC3339, *v.ExpectedRecoveryAt)
				if err != nil {
					t.Fatal(err)
				}
				minutes = at.Sub(builtinNow) / time.Minute
			}
			got := fmt.Sprintf("%s %s %d", v.Classification, v.Scope, minutes)
			if v.UserActionHint != nil {
				got += " hint"
			}
			if got != tc.want || !strings.Contains(v.HumanNote, tc.wantNote) {
				t.Errorf("got %s, %q; want %s, %q", got, v.HumanNote, tc.want, tc.wantNote)
			}
		})
	}
}

func TestBuiltinAddressesTheUserInTheUsersLanguage(t *testing.T) {
	tests := []struct {
		locale string
		status int
		want   string
	}{
		{"", 401, "Renew your sign-in or token for search; others can use it."},
		{"en-GB", 500, "search fails with your account only: check your account there; others can use it."},
		{"en", 429, "search fails with your account only: check your account there; others can use it."},
		{"de", 401, "Bitte Anmeldung oder Token für search erneuern; für andere funktioniert es."},
		{"de-AT", 500, "search scheitert nur mit deinem Konto: bitte das Konto dort prüfen; für andere funktioniert es."},
		{"DE-CH", 401, "Bitte Anmeldung oder Token für search erneuern; für andere funktioniert es."},
		{"den", 401, "Renew your sign-in or token for search; others can use it."},
	}
	for _, tc := range tests {
		_, v := talk(t, HealthFinding{OriginatingUserID: "alice", Locale: tc.locale}, map[string]any{
			ToolProbeAsUser:   ProbeFinding{Possible: true, StatusCode: tc.status, Refused: tc.status < 500},
			ToolProbeAsSystem: ProbeFinding{Possible: true, Success: true},
		})
		if v.UserActionHint == nil || *v.UserActionHint != tc.want {
			t.Errorf("in %q: got %v, want %q", tc.locale, v.UserActionHint, tc.want)
		}
	}
}

func TestBuiltinDecidesWithoutToolsAtOnce(t *testing.T) {
	response, err := Builtin{}.Complete(t.Context(), Request{Messages: []Message{{Role: RoleUser, Content: "summarise"}}})
	if err != nil || len(response.Message.ToolCalls) > 0 || !strings.Contains(response.Message.Content, `"UNCLEAR"`) {
		t.Errorf("got %+v, %v", response, err)
	}
}

func TestBuiltinStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Builtin{}).Complete(ctx, Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzBuiltin(f *testing.F) {
	f.Add(`{"now":"2026-05-23T14:00:00Z","rows":[{"history":[{"status":"DOWN"}]}]}`, `{"possible":true}`)
	f.Add("null", `{"possible":true,"success":true}`)
	f.Fuzz(func(t *testing.T, health, probe string) {
		response, err := Builtin{}.Complete(t.Context(), Request{Messages: []Message{
			{Role: RoleAssistant, ToolCalls: []ToolCall{{ID: "1", Name: ToolHealthRead}, {ID: "2", Name: ToolProbeAsUser}}},
			{Role: RoleTool, ToolCallID: "1", Content: health}, {Role: RoleTool, ToolCallID: "2", Content: probe},
		}})
		if err != nil || len(response.Message.Content) == 0 {
			t.Fatalf("got %+v, %v", response, err)
		}
	})
}
