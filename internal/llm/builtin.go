package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// Builtin is a diagnostician without a model. It follows the guidelines of specification §10 by fixed rules: read the
// history, probe as the user and as the system, decide. It answers like a model, so that its verdicts take the same
// way as a model's, and it reads nothing but what the tools of the conversation answered. It costs nothing.
type Builtin struct{}

// Complete returns the next calls, or the verdict as a fenced JSON block. It never fails unless ctx has ended.
func (Builtin) Complete(ctx context.Context, r Request) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, fmt.Errorf("the built-in diagnosis was stopped: %w", context.Cause(ctx))
	}
	found := readFindings(r.Messages)
	var calls []ToolCall
	if len(r.Tools) > 0 {
		calls = found.nextCalls()
	}
	if len(calls) > 0 {
		return Response{Message: Message{Role: RoleAssistant, ToolCalls: calls}}, nil
	}
	block, err := json.MarshalIndent(found.decide(), "", "  ")
	if err != nil {
		return Response{}, fmt.Errorf("encoding the built-in verdict: %w", err)
	}
	return Response{Message: Message{Role: RoleAssistant, Content: "```json\n" + string(block) + "\n```"}}, nil
}

// findings are what the tools of a conversation answered.
type findings struct {
	health       HealthFinding
	healthRead   bool
	user, system *ProbeFinding
}

// readFindings collects the answers of the tools. An answer that cannot be read counts as given and says nothing.
func readFindings(messages []Message) findings {
	var f findings
	called := make(map[string]string)
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			called[call.ID] = call.Name
		}
		if m.Role != RoleTool {
			continue
		}
		content := []byte(Unframe(m.Content))
		switch called[m.ToolCallID] {
		case ToolHealthRead:
			f.healthRead = true
			_ = json.Unmarshal(content, &f.health)
		case ToolProbeAsUser:
			f.user = readProbe(content)
		case ToolProbeAsSystem:
			f.system = readProbe(content)
		}
	}
	return f
}

func readProbe(content []byte) *ProbeFinding {
	p := &ProbeFinding{}
	if err := json.Unmarshal(content, p); err != nil {
		return &ProbeFinding{Reason: "its answer could not be read"}
	}
	if p.Error != "" {
		p.Possible, p.Reason = false, p.Error
	}
	return p
}

// nextCalls returns what is still to be found out; nothing once the probes were tried.
func (f findings) nextCalls() []ToolCall {
	call := func(name string) ToolCall { return ToolCall{ID: name, Name: name, Arguments: "{}"} }
	switch {
	case !f.healthRead:
		return []ToolCall{call(ToolHealthRead)}
	case f.user != nil || f.system != nil:
		return nil
	case f.health.OriginatingUserID != "":
		return []ToolCall{call(ToolProbeAsUser), call(ToolProbeAsSystem)}
	default:
		return []ToolCall{call(ToolProbeAsSystem)}
	}
}

// outcome is what one probe says about the tool.
type outcome int

const (
	notProbed  outcome = iota // or the probe was not possible
	works                     // the answer was as expected
	fails                     // it was not
	challenges                // the tool was reached and asked for a credential that the probe did not carry
)

func outcomeOf(p *ProbeFinding) outcome {
	switch {
	case p == nil || !p.Possible:
		return notProbed
	case p.Success:
		return works
	case p.AuthChallenge:
		return challenges
	default:
		return fails
	}
}

// sameLately counts entries of trouble of the reported signature within the last hour (specification §10).
func (f findings) sameLately() int {
	return f.count(func(e v1alpha1.HealthHistoryEntry) bool {
		return e.Status != v1alpha1.StateOK && e.At.Add(time.Hour).After(f.health.Now)
	})
}

// wasDown reports whether the reported error took the tool down before.
func (f findings) wasDown() bool {
	return f.count(func(e v1alpha1.HealthHistoryEntry) bool { return e.Status == v1alpha1.StateDown }) > 0
}

// count counts the history entries of the reported signature that match.
func (f findings) count(match func(v1alpha1.HealthHistoryEntry) bool) int {
	n := 0
	for _, row := range f.health.Rows {
		for _, entry := range row.History {
			if entry.ErrorSignature == f.health.ErrorSignature && match(entry) {
				n++
			}
		}
	}
	return n
}
