package restapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxEventTools bounds the tools of one connection.
	maxEventTools = 256
	// maxReadNote bounds an event's note, in bytes; v1alpha1.MaxNoteLength of it are kept.
	maxReadNote = 16 << 10
)

// postSuccesses records a call that worked, and tells what is in force then.
func (s *Server) postSuccesses(r *http.Request, who Identity) (answer, error) {
	body, err := readBody(r)
	if err != nil {
		return answer{}, err
	}
	var success rest.Success
	if err := decode(body, &success); err != nil {
		return answer{}, err
	}
	if err := errors.Join(checkTool("toolName", success.ToolName), checkID("originatingUserId", success.OriginatingUserID),
		checkID("originatingSessionId", success.OriginatingSessionID), checkSignature("errorSignature", v1alpha1.ErrorSignature(success.ErrorSignature))); err != nil {
		return answer{}, first(err)
	}
	caller := checker.Caller{Project: r.PathValue("project"), User: success.OriginatingUserID, Session: success.OriginatingSessionID}
	if err := s.mayReport(r.Context(), who, caller.Project, caller.User, v1alpha1.ScopeProject); err != nil {
		return answer{}, err
	}
	writes, err := s.Checker.Succeeded(r.Context(), caller, success.ToolName, checker.Success{
		ID: requestID(r, who, 0), Signature: v1alpha1.ErrorSignature(success.ErrorSignature), Note: "A call worked", By: who.Username,
	})
	if err != nil {
		return answer{}, err
	}
	_, storeError, err := s.write(r.Context(), writes)
	if err != nil {
		return answer{}, err
	}
	rows, err := s.Checker.Rows(r.Context(), caller, success.ToolName)
	if err != nil {
		return answer{}, err
	}
	h := health.Told(success.ToolName, rows, s.Clock.Now())
	h.StoreError = storeError
	return answer{status: http.StatusOK, body: h}, nil
}

// postEvents records that a connection closed or opened again, or that a session ended.
func (s *Server) postEvents(r *http.Request, who Identity) (answer, error) {
	body, err := readBody(r)
	if err != nil {
		return answer{}, err
	}
	var event rest.Event
	if err := decode(body, &event); err != nil {
		return answer{}, err
	}
	if err := checkEvent(event); err != nil {
		return answer{}, err
	}
	caller := checker.Caller{Project: r.PathValue("project"), User: event.OriginatingUserID, Session: event.OriginatingSessionID}
	if err := s.mayTell(r.Context(), who, caller, event.Type); err != nil {
		return answer{}, err
	}
	var writes []checker.Write
	if event.Type == rest.SessionEnded {
		writes, err = s.Checker.SessionEnded(r.Context(), caller)
	} else {
		writes, err = s.Checker.Connected(r.Context(), caller, checker.Connection{
			ID: requestID(r, who, event.Type), Tools: event.ToolNames, Open: event.Type == rest.ConnectionReopened,
			Note: text.Plain(redact.Text(event.Note), v1alpha1.MaxNoteLength), By: who.Username,
		})
	}
	if errors.Is(err, checker.ErrNoSession) {
		return answer{}, invalid("originatingSessionId", "%v", err)
	}
	if err != nil {
		return answer{}, err
	}
	rows, storeError, err := s.write(r.Context(), writes)
	return answer{status: http.StatusOK, body: rest.EventResult{Rows: rows, StoreError: storeError}}, err
}

// write does what a success or an event asks for, and returns how many rows that are, and why there are not more where the
// others are refused for good. None of it is done later, when a later report may say something else.
func (s *Server) write(ctx context.Context, writes []checker.Write) (rows int, storeError string, err error) {
	for _, write := range writes {
		switch err := s.Late.Now(ctx, write); {
		case err == nil:
			rows++
		case isAway(err):
			return rows, "", notWritten(err, "of %d rows %d are written", len(writes), rows)
		default:
			storeError = refused(ctx, err)
		}
	}
	return rows, storeError, nil
}

// mayTell returns a problem unless a caller may tell of events, and of those of a user's session. A session that ends whoever's
// it is may be anybody's.
func (s *Server) mayTell(ctx context.Context, who Identity, caller checker.Caller, kind string) error {
	if err := s.Access.Authorize(ctx, who, verbEvents, resourceJobs, caller.Project); err != nil {
		return err
	}
	switch user := tenancy.User(caller.User); {
	case user == who.Username, user == "" && kind != rest.SessionEnded:
		return nil
	default:
		return s.Access.Authorize(ctx, who, verbForOthers, resourceJobs, caller.Project)
	}
}

// checkEvent says what is wrong with an event.
func checkEvent(event rest.Event) error {
	if err := errors.Join(checkID("originatingUserId", event.OriginatingUserID), checkID("originatingSessionId", event.OriginatingSessionID)); err != nil {
		return first(err)
	}
	if len(event.Note) > maxReadNote {
		return invalid("note", "must have at most %d bytes, of which %d are kept", maxReadNote, v1alpha1.MaxNoteLength)
	}
	switch event.Type {
	case rest.SessionEnded:
		if event.OriginatingSessionID == "" {
			return invalid("originatingSessionId", "say which session ended")
		}
		if len(event.ToolNames) > 0 {
			return invalid("toolNames", "must be empty: the rows of all the session's tools go")
		}
		return nil
	case rest.ConnectionClosed, rest.ConnectionReopened:
	default:
		return invalid("type", "must be %s, %s or %s", rest.ConnectionClosed, rest.ConnectionReopened, rest.SessionEnded)
	}
	if len(event.ToolNames) == 0 || len(event.ToolNames) > maxEventTools {
		return invalid("toolNames", "must name 1 to %d tools", maxEventTools)
	}
	for _, name := range event.ToolNames {
		if err := checkTool("toolNames", name); err != nil {
			return err
		}
	}
	return nil
}
