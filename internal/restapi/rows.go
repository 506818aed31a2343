package restapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// maxTools bounds the tools that one answer lists.
const maxTools = 5000

// callerOf returns on whose behalf a project's health is asked for.
func callerOf(r *http.Request) (checker.Caller, error) {
	q := r.URL.Query()
	caller := checker.Caller{Project: r.PathValue("project"), User: q.Get("user"), Session: q.Get("session")}
	if err := checkID("user", caller.User); err != nil {
		return caller, err
	}
	return caller, checkID("session", caller.Session)
}

// getHealth tells what is in force for a caller of a tool.
func (s *Server) getHealth(r *http.Request, who Identity) (answer, error) {
	caller, err := callerOf(r)
	if err != nil {
		return answer{}, err
	}
	tool, err := toolOf(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Access.Authorize(r.Context(), who, verbRead, resourceRows, caller.Project); err != nil {
		return answer{}, err
	}
	now := s.Clock.Now()
	rows, err := s.Checker.Rows(r.Context(), caller, tool)
	if err != nil {
		return answer{}, err
	}
	tag := sha256.New()
	h := health.Told(tool, rows, now)
	identify(tag, h, rows)
	return answer{status: http.StatusOK, body: h, etag: etagOf(tag.Sum(nil))}, nil
}

// getTools tells the same of every tool that a Tool describes or a row of the caller is about, or of those that the
// query names.
func (s *Server) getTools(r *http.Request, who Identity) (answer, error) {
	caller, err := callerOf(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Access.Authorize(r.Context(), who, verbRead, resourceRows, caller.Project); err != nil {
		return answer{}, err
	}
	names := r.URL.Query()["tool"]
	if len(names) == 0 {
		if names, err = s.tools(r.Context(), caller); err != nil {
			return answer{}, err
		}
	}
	if len(names) > maxTools {
		return answer{}, problem(http.StatusBadRequest, "too-many", "there are %d tools, and an answer holds %d: name those that you ask for (?tool=…&tool=…)", len(names), maxTools)
	}
	now, tag := s.Clock.Now(), sha256.New()
	list := rest.HealthList{Items: make([]rest.Health, 0, len(names))}
	for _, name := range names {
		if err := checkTool("tool", name); err != nil {
			return answer{}, err
		}
		rows, err := s.Checker.Rows(r.Context(), caller, name)
		if err != nil {
			return answer{}, err
		}
		h := health.Told(name, rows, now)
		identify(tag, h, rows)
		list.Items = append(list.Items, h)
	}
	return answer{status: http.StatusOK, body: list, etag: etagOf(tag.Sum(nil))}, nil
}

// tools returns the names of the tools that are known to a caller, in order.
func (s *Server) tools(ctx context.Context, caller checker.Caller) ([]string, error) {
	known, err := registry.Names(ctx, s.Client, caller.Project)
	if err != nil {
		return nil, err
	}
	place, err := s.Checker.Place(ctx, caller.Project)
	if err != nil {
		return nil, err
	}
	for _, key := range health.CallerKeys(place, "", tenancy.User(caller.User), caller.Session) {
		var rows v1alpha1.ToolHealthList
		if err := s.Client.List(ctx, &rows, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list rows: %w", err)
		}
		for i := range rows.Items {
			if row := &rows.Items[i]; row.Spec.Scope == key.Scope && row.Spec.ScopeID == key.ScopeID {
				known[string(row.Spec.ToolName)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known)), nil
}

// identify adds to a hash what an answer says, but how much of a wait is left: that alone is no news.
func identify(tag io.Writer, h rest.Health, rows []*v1alpha1.ToolHealth) {
	_, _ = fmt.Fprintf(tag, "%s %s %s %t %t\x00", h.ToolName, h.State, h.Scope, h.Retesting, h.Overridden)
	for _, c := range h.Cooldowns {
		_, _ = fmt.Fprintf(tag, "%s %s\x00", c.Scope, c.Signature)
	}
	for _, row := range rows {
		if row != nil {
			_, _ = fmt.Fprintf(tag, "%s %s\x00", row.UID, row.ResourceVersion)
		}
	}
}

func etagOf(sum []byte) string { return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` }
