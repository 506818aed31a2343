package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/mcpresult"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// closeGrace is how long the closing of an MCP session may take after the probe.
const closeGrace = 2 * time.Second

// mcp opens a session with the MCP server and calls the tool that the Target names. parent ends everything, ctx the
// opening and the call.
func (r *run) mcp(parent, ctx context.Context, input Input) Result {
	sessionCtx, cancel := context.WithTimeout(parent, r.target.timeout+closeGrace)
	defer cancel()
	exchange := &wire{ctx: sessionCtx, run: r}
	result, err := r.call(ctx, exchange, input)
	if errors.Is(err, mcp.ErrSessionMissing) {
		// The server forgot the session, as it does when it restarts. Once it may.
		exchange = &wire{ctx: sessionCtx, run: r}
		result, err = r.call(ctx, exchange, input)
	}
	a, sendErr := exchange.last()
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		return r.judge(a, result)
	case isRefused:
		return Result{Impossible: refused.text, Refused: refused.kind}
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return r.noAnswer(err)
	case errors.Is(sendErr, errTooLarge) || errors.Is(sendErr, errTooMany):
		return impossible("%v: choose a spec.probe.input with a smaller answer, or a smaller spec.probe.readOnlyCall", sendErr)
	case sendErr != nil:
		return r.noAnswer(sendErr)
	case a != nil && !isSuccess(a.status):
		e := r.refusedAnswer(a)
		e.ErrorCode = rpcCode(err)
		return r.failed(a, e)
	}
	e := &v1alpha1.ToolError{Message: err.Error(), ExceptionTypes: exceptionTypes(err), ErrorCode: rpcCode(err)}
	if e.ErrorCode == "" {
		// No error that the server gave, but what the SDK thinks of an answer.
		e.Message = "no usable MCP answer: " + whyUnusable(a, err)
	}
	return r.failed(a, e)
}

// whyUnusable says what is wrong with an answer that the SDK could not use. The SDK has two ways to say that an answer is none
// of MCP, one of them that the connection was closed, and which comes first is chance.
func whyUnusable(a *answer, err error) string {
	if a == nil || a.status != http.StatusOK {
		return messageOf(err)
	}
	stated := a.headers.Get("Content-Type")
	kind, _, _ := mime.ParseMediaType(stated)
	if kind == "application/json" || kind == "text/event-stream" {
		return messageOf(err)
	}
	return fmt.Sprintf("unsupported content type %q", text.Plain(stated, maxHeaderName))
}

// call performs the exchange, and returns when the session is closed.
func (r *run) call(ctx context.Context, wire *wire, input Input) (*mcp.CallToolResult, error) {
	session, err := r.open(ctx, wire)
	if err != nil {
		return nil, err
	}
	defer r.close(session, wire)
	tool, err := r.describe(ctx, session, wire)
	if err == nil {
		err = r.check(tool, input)
	}
	if err != nil {
		return nil, err
	}
	args := input.JSON
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return session.CallTool(ctx, &mcp.CallToolParams{Name: r.target.mcp.tool, Arguments: args})
}

// open opens a session with the server.
func (r *run) open(ctx context.Context, wire *wire) (*mcp.ClientSession, error) {
	implementation := &mcp.Implementation{Name: userAgent, Version: v1alpha1.GroupVersion.Version}
	client := mcp.NewClient(implementation, &mcp.ClientOptions{
		// A probe offers the server nothing: no roots, no sampling, no answers to further questions.
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             r.target.url.String(),
		HTTPClient:           httpClient(wire),
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		wire.seal()
	}
	return session, err
}

// close ends a session. That it is not closed in order is no finding of the probe: only the server would gain from it.
func (r *run) close(session *mcp.ClientSession, wire *wire) {
	wire.seal()
	r.took = r.prober.clock.Since(r.start)
	_ = session.Close()
}

// judge says what a result of the tool means.
func (r *run) judge(a *answer, result *mcp.CallToolResult) Result {
	said := strings.Join(mcpresult.Texts(result), "\n")
	status := 0
	if a != nil {
		status = a.status
	}
	switch {
	case result.NeedsInput():
		return impossible("the tool asks for more than the input of the probe: complete spec.probe.input, or declare a " +
			"spec.probe.readOnlyCall that needs nothing")
	case result.IsError:
		return r.failed(a, &v1alpha1.ToolError{Body: r.body(&answer{body: mcpresult.Body(result, maxAnswer)})})
	case !r.target.expected(said):
		// As over HTTP, what a success says is not told.
		return r.failed(a, &v1alpha1.ToolError{Message: r.target.unexpected()})
	}
	return r.succeeded(status)
}

// errNotSent is what the SDK puts around errors of its own transport; it looks like an answer of the server.
const errNotSent = -32005

// rpcCode returns the code of the JSON-RPC error that the server answered with, "" if there is none.
func rpcCode(err error) string {
	code := ""
	walk(err, func(err error) bool {
		//nolint:errorlint // walk unwraps: errors.As would stop at the SDK's own error
		if e, ok := err.(*jsonrpc.Error); ok && e.Code != errNotSent {
			code = strconv.FormatInt(e.Code, 10)
		}
		return code == ""
	})
	return code
}
