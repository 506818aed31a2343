package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// SignatureConnectionClosed is the error of a tool whose connection closed. No rule decides it: the runtime knows.
const SignatureConnectionClosed v1alpha1.ErrorSignature = "connection-closed"

// ErrNoSession says that an event about a client's tool names no session, whose row it would be.
var ErrNoSession = errors.New("a client_ tool lives in a session: name it")

// Connection is a change of the connection to tools: the client of a session, or an MCP server.
type Connection struct {
	// ID identifies the report of it.
	ID string
	// Tools are those behind the connection.
	Tools []string
	// Open says that it was opened again; else it closed.
	Open bool
	// Note says more, where there is more to say.
	Note string
	// By is the user who tells it.
	By string
}

// Connect records that the connection to tools closed, so that they are DOWN without any diagnosis, or opened again,
// so that what the closing set is cleared and nothing else (specification §9). Tools of a client are those of the
// caller's session; any other concern the whole project. It returns the rows that it is about.
func (c *Checker) Connect(ctx context.Context, caller Caller, event Connection) ([]health.Key, error) {
	place, err := c.Place(ctx, caller.Project)
	if err != nil {
		return nil, err
	}
	var keys, about []health.Key
	for _, tool := range event.Tools {
		key, err := connectionRow(place, caller, tool)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		if event.Open { // A row that is not there need not be created to be cleared.
			if row, err := c.Store.Get(ctx, key); err != nil || row == nil {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := c.write(ctx, []effect{{key: key, change: connectionChange(event)}}); err != nil {
			return nil, err
		}
		about = append(about, key)
	}
	return about, nil
}

// connectionRow returns the row that an event about a tool is about.
func connectionRow(place tenancy.Place, caller Caller, tool string) (health.Key, error) {
	scope := v1alpha1.ScopeProject
	if tenancy.IsClientTool(tool) {
		scope = v1alpha1.ScopeSession
	}
	key, ok := health.KeyFor(place, scope, tool, caller.User, caller.Session)
	if !ok {
		return health.Key{}, fmt.Errorf("tool %s: %w", tool, ErrNoSession)
	}
	return key, nil
}

// connectionChange marks a tool DOWN, with no estimate, or clears what such an event set. A tool that is DOWN for it
// already is left as it is, and one that something else said more about meanwhile is not cleared.
func connectionChange(event Connection) health.Change {
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		last := status.LastDiagnosis
		closed := status.State == v1alpha1.StateDown && last != nil && health.IsBy(last.By, health.ByEvent) && last.ErrorSignature == SignatureConnectionClosed
		if closed != event.Open {
			return false
		}
		finding := health.Finding{State: v1alpha1.StateDown, Classification: v1alpha1.TechnicallyBroken,
			Signature: SignatureConnectionClosed, Note: event.Note, By: health.For(health.ByEvent, event.By), Report: event.ID}
		if finding.Note == "" {
			finding.Note = "The connection to the tool closed"
		}
		if event.Open {
			finding.State, finding.Classification = v1alpha1.StateOK, v1alpha1.Working
			if event.Note == "" {
				finding.Note = "The connection to the tool is open again"
			}
		}
		return health.Mark(finding)(status, now)
	}
}

// EndSession deletes the rows of the caller's session, which nobody can ask for any more, and returns how many there were. A
// caller without a user: of everybody in a session of that name.
func (c *Checker) EndSession(ctx context.Context, caller Caller) (int, error) {
	return c.Store.DeleteSession(ctx, caller.Project, caller.Session, tenancy.User(caller.User))
}
