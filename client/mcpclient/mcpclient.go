// Package mcpclient puts a guard of Agrajag around the tool calls of an MCP client of the official Go SDK.
package mcpclient

import (
	"context"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/mcpresult"
)

// Middleware guards the tool calls of a client, which has it added by AddSendingMiddleware. A call that is refused
// gives a result that says so to the model, as a failed tool does. Tools are reported as name(tool): nil reports them
// under their own names.
func Middleware(guard *client.Guard, name func(tool string) string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			params, ok := request.GetParams().(*mcp.CallToolParams)
			if !ok || method != "tools/call" {
				return next(ctx, method, request)
			}
			tool := params.Name
			if name != nil {
				tool = name(tool)
			}
			if err := guard.Before(ctx, tool); err != nil {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
			}
			result, err := next(ctx, method, request)
			report(ctx, guard, tool, result, err)
			return result, err
		}
	}
}

// report tells the guard what came of a call.
func report(ctx context.Context, guard *client.Guard, tool string, result mcp.Result, err error) {
	if err != nil {
		if !client.IsCancelled(ctx, err) && !client.IsRefused(err) {
			guard.Failed(ctx, tool, errorOf(err))
		}
		return
	}
	called, ok := result.(*mcp.CallToolResult)
	switch {
	case ok && called.IsError:
		guard.Failed(ctx, tool, rest.ToolError{Body: mcpresult.Body(called, rest.MaxErrorBody)})
	case ok:
		guard.Worked(ctx, tool)
	}
}

// errorOf tells an error of the protocol: its code is what servers mean.
func errorOf(err error) rest.ToolError {
	e := client.ErrorOf(err, "")
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		e.ErrorCode = strconv.FormatInt(wire.Code, 10)
	}
	return e
}
