// Package llm asks whoever diagnoses a tool, be it a model behind an OpenAI-compatible endpoint or the built-in
// diagnostician, through one small interface, so that a diagnosis does not depend on which of them it is.
package llm

import (
	"context"
	"encoding/json"
)

// Roles of messages, as the OpenAI chat completions API names them.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Chat continues a conversation.
type Chat interface {
	// Complete returns the next message of the assistant. An error means that nothing came back that could be used; its
	// text holds no credential, and Usage says what that cost all the same. What Request.Try refused at once is returned as it is.
	Complete(ctx context.Context, r Request) (Response, error)
}

// Request is a conversation so far, and what the answer may be.
type Request struct {
	Messages []Message
	// Tools may be called by the answer. None: the answer must be text.
	Tools []Tool
	// MaxTokens bounds the answer, in tokens; 0: the endpoint's own limit.
	MaxTokens int
	// Try is called before each model is asked, where asking costs something. It may lower MaxTokens; done is then called
	// with what came of it, nil error or the model's own. An error means that the model must not be asked. Nil: nobody counts.
	Try func(ctx context.Context, r *Request) (done func(Response, error), err error)
}

// Message is one message of a conversation.
type Message struct {
	Role    string
	Content string
	// ToolCalls are what an assistant's message asks for.
	ToolCalls []ToolCall
	// ToolCallID says which call a tool's message answers.
	ToolCallID string
}

// Tool is something that the assistant may call.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON schema of the arguments.
	Parameters json.RawMessage
}

// ToolCall is one call that the assistant asks for. It is untrusted in every part.
type ToolCall struct {
	ID   string
	Name string
	// Arguments should be a JSON object.
	Arguments string
}

// Response is the answer to a Request.
type Response struct {
	Message Message
	Usage   Usage
	// Cut is true if the answer ends early because it reached a limit on its length.
	Cut bool
}

// Usage is what an answer cost, in tokens, as the endpoint says: it may be missing or wrong.
type Usage struct {
	Prompt     int64
	Completion int64
}
