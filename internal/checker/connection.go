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

// Connected returns what is to be written since the connection to tools closed, so that they are DOWN without any
// diagnosis, or opened again, so that what the closing set is cleared and nothing else (specification §9). Tools of a client
// are those of the caller's session; any other concern the whole project. There is one write for each row that it is about.
func (c *Checker) Connected(ctx context.Context, caller Caller, event Connection) ([]Write, error) {
	place, err := c.Place(ctx, caller.Project)
	if err != nil {
		return nil, err
	}
	var about []effect
	for _, tool := range event.Tools {
		key, err := connectionRow(place, caller, tool)
		if err != nil {
			return nil, err
		}
		if event.Open { // A row that is not there need not be created to be cleared.
			row, err := c.Store.Get(ctx, key)
			if err != nil {
				return nil, err
			}
			if row == nil {
				continue
			}
		}
		about = append(about, effect{key: key, change: connectionChange(event)})
	}
	return c.writes(about), nil
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

// SessionEnded returns what is to be written since the caller's session ended: its rows go, for which nobody can ask any more.
// A caller without a user: those of everybody in a session of that name.
func (c *Checker) SessionEnded(ctx context.Context, caller Caller) ([]Write, error) {
	rows, err := c.Store.OfSession(ctx, caller.Project, caller.Session, tenancy.User(caller.User))
	if err != nil {
		return nil, err
	}
	writes := make([]Write, len(rows))
	for i, row := range rows {
		writes[i] = func(ctx context.Context) error { return c.Store.Delete(ctx, row) }
	}
	return writes, nil
}
