package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxListing bounds one page of a server's list of tools, in bytes. The lists of some servers are larger than any
	// answer of a tool may be.
	maxListing = 1 << 20
	// maxPages bounds the pages that are read of it.
	maxPages = 8
	// codeNoMethod is JSON-RPC's code for a method that a server does not have.
	codeNoMethod = "-32601"
)

// refusedError says why the prober does not make a call. Its text is told to people.
type refusedError struct {
	kind Refusal
	text string
}

func (e *refusedError) Error() string { return e.text }

// listed is what a server says of a tool before it is called.
type listed struct {
	// known is false if the server does not list the tool, or lists none at all: then its answer to the call decides.
	known  bool
	schema any
	// Nil: the server says nothing.
	readOnly, destructive *bool
}

// describe returns what the server says of the tool that is to be called. An error of the server's own, such as that it
// lists no tools, is none here.
func (r *run) describe(ctx context.Context, session *mcp.ClientSession, wire *wire) (listed, error) {
	cursor, seen := "", map[string]bool{}
	for range maxPages {
		wire.listen(true)
		page, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		heard := wire.listen(false)
		if err != nil {
			if _, sendErr := wire.last(); errors.Is(sendErr, errTooLarge) {
				return listed{}, r.unknown(fmt.Sprintf("is larger than %d KiB or %d values", maxListing>>10, maxValues))
			}
			if a, _ := wire.last(); rpcCode(err) == codeNoMethod || rpcCode(err) != "" && a != nil && isSuccess(a.status) {
				return listed{}, nil
			}
			return listed{}, err
		}
		for _, tool := range page.Tools {
			if tool.Name == r.target.mcp.tool {
				readOnly, destructive := hintsOf(heard, tool.Name)
				return listed{known: true, schema: tool.InputSchema, readOnly: readOnly, destructive: destructive}, nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return listed{}, nil
		}
		if seen[cursor] {
			return listed{}, r.unknown("leads back to where it was")
		}
		seen[cursor] = true
	}
	return listed{}, r.unknown(fmt.Sprintf("has more than %d pages", maxPages))
}

// unknown refuses a call because the end of the server's list was not reached.
func (r *run) unknown(why string) error {
	return &refusedError{text: fmt.Sprintf("the server's list of tools %s, and %s is not on what was read of it, so it is not known "+
		"whether the server marks it as one that writes", why, r.target.mcp.tool)}
}

// check returns why the prober does not make the call, nil if it does. What a server does not say counts neither way, as
// most say nothing; but what it says outweighs the Tool, whose author may know less.
func (r *run) check(tool listed, input Input) error {
	switch name := r.target.mcp.tool; {
	case tool.destructive != nil && *tool.destructive:
		return &refusedError{RefusedUnsafe, fmt.Sprintf("the server marks %s as destructive (destructiveHint), so it is not called: "+
			"declare a spec.probe.readOnlyCall", name)}
	case tool.readOnly != nil && !*tool.readOnly:
		return &refusedError{RefusedUnsafe, fmt.Sprintf("the server marks %s as not read-only (readOnlyHint), so it is not called: "+
			"declare a spec.probe.readOnlyCall", name)}
	case !tool.known && input.ByModel:
		return &refusedError{text: fmt.Sprintf("the server does not list %s, so there is no schema to check the input by", name)}
	case !tool.known:
		return nil
	}
	err := fits(tool.schema, input)
	switch {
	case errors.Is(err, errMisfit) && !input.ByModel:
		return &refusedError{RefusedInput, fmt.Sprintf("%v: mend spec.probe.input", err)}
	case err != nil && (input.ByModel || errors.Is(err, errMisfit)):
		return &refusedError{RefusedInput, err.Error()}
	}
	return nil // Of the Tool's own input an unusable schema says nothing.
}

// hintsOf finds what a page of the list says of a tool. The SDK does not tell "false" from nothing.
func hintsOf(heard []byte, name string) (readOnly, destructive *bool) {
	for _, message := range messagesOf(heard) {
		var page struct {
			Result struct {
				Tools []struct {
					Name        string
					Annotations struct{ ReadOnlyHint, DestructiveHint *bool }
				}
			}
		}
		if json.Unmarshal([]byte(message), &page) != nil {
			continue
		}
		for _, tool := range page.Result.Tools {
			if tool.Name == name {
				return tool.Annotations.ReadOnlyHint, tool.Annotations.DestructiveHint
			}
		}
	}
	return nil, nil
}

// messagesOf returns the JSON-RPC messages of an answer: its whole body, or the data of each event of a stream.
func messagesOf(body []byte) []string {
	if json.Valid(body) {
		return []string{string(body)}
	}
	var messages []string
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(body))
	for event := range strings.SplitSeq(lines, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			if rest, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(rest, " "))
			}
		}
		messages = append(messages, strings.Join(data, "\n"))
	}
	return messages
}

// Look is what a server says of a tool without calling it.
type Look struct {
	// Refused is what the prober has against probes of the tool. Empty: nothing.
	Refused Refusal
	// Reason tells a person why and what to do about it.
	Reason string
	// Known is false if the server was not asked, could not be, or does not list the tool.
	Known bool
}

// Look asks the MCP server about the tool, as id, and whether the Tool's own input fits its schema. It calls nothing and
// takes no longer than a probe. Over HTTP there is nobody to ask.
func (p *Prober) Look(ctx context.Context, t Target, id Identity) Look {
	if t.mcp == nil || t.mayBeCalled(id, t.Input) != nil {
		return Look{}
	}
	run := &run{prober: p, target: t, credential: id.Credential, start: p.clock.Now(), secrets: t.secretsOf(id.Credential)}
	tool, err := run.look(ctx)
	if err == nil && tool.known {
		err = run.check(tool, t.Input)
	}
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.kind != "" {
		return Look{Refused: refused.kind, Reason: refused.text, Known: true}
	}
	return Look{Known: err == nil && tool.known}
}

func (r *run) look(ctx context.Context) (tool listed, err error) {
	defer func() {
		if recover() != nil { // as in Probe
			err = errors.New("the look broke off because of a programming error")
		}
	}()
	sessionCtx, cancel := context.WithTimeout(ctx, r.target.timeout+closeGrace)
	defer cancel()
	callCtx, cancel := context.WithTimeout(ctx, r.target.timeout)
	defer cancel()
	wire := &wire{ctx: sessionCtx, run: r}
	session, err := r.open(callCtx, wire)
	if err != nil {
		return listed{}, err
	}
	defer r.close(session, wire)
	return r.describe(callCtx, session, wire)
}
