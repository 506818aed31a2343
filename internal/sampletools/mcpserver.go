package sampletools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// idleSession is when the server forgets a session that its client did not close.
const idleSession = time.Minute

// MCPServer is an MCP server over streamable HTTP with two tools: search, which reads, and create_ticket, which writes
// and counts how often. It is safe for concurrent use.
type MCPServer struct {
	handler http.Handler
	server  *mcp.Server

	mu       sync.Mutex
	failHTTP *Answer
	failTool string
	failRPC  *jsonrpc.Error
	hang     chan struct{}   // not nil: search waits until it is closed
	tokens   map[string]bool // nil: no token is needed
	requests int
	searches int
	tickets  int
}

// searchInput are the arguments of search.
type searchInput struct {
	Query string `json:"q" jsonschema:"the word to look for"`
}

// ticketInput are the arguments of create_ticket.
type ticketInput struct {
	Title string `json:"title" jsonschema:"what the ticket is about"`
}

// NewMCPServer returns a healthy server that needs no token.
func NewMCPServer() *MCPServer {
	server := mcp.NewServer(&mcp.Implementation{Name: "sample-library", Version: "v1"}, nil)
	s := &MCPServer{server: server}
	s.Annotate(&mcp.ToolAnnotations{ReadOnlyHint: true})
	mcp.AddTool(server, &mcp.Tool{Name: "create_ticket", Description: "Opens a ticket with the librarian."}, s.createTicket)
	s.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{SessionTimeout: idleSession})
	return s
}

// Annotate makes the server say this of search. Nil: it says nothing.
func (s *MCPServer) Annotate(annotations *mcp.ToolAnnotations) {
	mcp.AddTool(s.server, &mcp.Tool{Name: "search", Description: "Looks for documents.", Annotations: annotations}, s.search)
}

// FailHTTP makes every request be answered with the answer, before MCP sees it, until Heal.
func (s *MCPServer) FailHTTP(answer Answer) { s.set(func() { s.failHTTP = &answer }) }

// FailTool makes search answer with isError and the text, until Heal.
func (s *MCPServer) FailTool(text string) { s.set(func() { s.failTool = text }) }

// FailRPC makes search answer with a JSON-RPC error, until Heal.
func (s *MCPServer) FailRPC(code int64, message string) {
	s.set(func() { s.failRPC = &jsonrpc.Error{Code: code, Message: message} })
}

// Hang makes search wait until Heal, or until the caller says that it has given up.
func (s *MCPServer) Hang() {
	s.set(func() {
		if s.hang == nil {
			s.hang = make(chan struct{})
		}
	})
}

// RequireToken makes requests without one of the bearer tokens be answered 401.
func (s *MCPServer) RequireToken(tokens ...string) {
	s.set(func() {
		s.tokens = map[string]bool{}
		for _, token := range tokens {
			s.tokens[token] = true
		}
	})
}

// Heal ends what FailHTTP, FailTool, FailRPC and Hang began.
func (s *MCPServer) Heal() {
	s.set(func() {
		if s.hang != nil {
			close(s.hang)
		}
		s.failHTTP, s.failTool, s.failRPC, s.hang = nil, "", nil, nil
	})
}

// Requests returns how many HTTP requests came.
func (s *MCPServer) Requests() int { return s.get(&s.requests) }

// Searches returns how often search was called.
func (s *MCPServer) Searches() int { return s.get(&s.searches) }

// Tickets returns how often create_ticket was called.
func (s *MCPServer) Tickets() int { return s.get(&s.tickets) }

// ServeHTTP answers a request.
func (s *MCPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refusal := s.refusal(r); refusal != nil {
		refusal.write(w)
		return
	}
	s.handler.ServeHTTP(w, r)
}

func (s *MCPServer) refusal(r *http.Request) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	switch {
	case s.failHTTP != nil:
		return s.failHTTP
	case s.tokens != nil && !s.tokens[bearer(r)]:
		return &Answer{
			Status:  http.StatusUnauthorized,
			Headers: map[string]string{"WWW-Authenticate": `Bearer realm="sample library"`},
			Body:    `{"error":"unauthorized"}`,
		}
	}
	return nil
}

func (s *MCPServer) search(ctx context.Context, _ *mcp.CallToolRequest, input searchInput) (*mcp.CallToolResult, any, error) {
	s.mu.Lock()
	s.searches++
	hang, failTool, failRPC := s.hang, s.failTool, s.failRPC
	s.mu.Unlock()
	switch {
	case hang != nil:
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-hang:
		}
	case failRPC != nil:
		return nil, nil, failRPC
	case failTool != "":
		return nil, nil, errors.New(failTool)
	}
	return text(found(input.Query).Body), nil, nil
}

func (s *MCPServer) createTicket(_ context.Context, _ *mcp.CallToolRequest, input ticketInput) (*mcp.CallToolResult, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets++
	return text(fmt.Sprintf("Ticket %d is open: %s", s.tickets, input.Title)), nil, nil
}

func (s *MCPServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *MCPServer) get(counter *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *counter
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
