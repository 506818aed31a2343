package health

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// SessionIndex is the cache's index of SESSION rows by their session, whoever's it is.
const SessionIndex = "spec.session"

// IndexSession is the indexer behind SessionIndex.
func IndexSession(object client.Object) []string {
	if row := object.(*v1alpha1.ToolHealth); row.Spec.Scope == v1alpha1.ScopeSession {
		return []string{tenancy.SessionOf(row.Spec.ScopeID)}
	}
	return nil
}

// Delete removes a row, unless it changed since it was read.
func (s *Store) Delete(ctx context.Context, row *v1alpha1.ToolHealth) error {
	key := KeyOf(row)
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	err = s.client.Delete(ctx, row, client.Preconditions{UID: &row.UID, ResourceVersion: &row.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ToolHealth %s: %w", key, err)
	}
	s.overlay.forget(key)
	return nil
}

// OfSession returns the rows of a session, as they were last written, but those that a person pinned. An empty user: those of
// everybody who is in a session of that name.
func (s *Store) OfSession(ctx context.Context, project, session, user string) ([]*v1alpha1.ToolHealth, error) {
	var list v1alpha1.ToolHealthList
	if err := s.client.List(ctx, &list, client.InNamespace(project), client.MatchingFields{SessionIndex: session}); err != nil {
		return nil, fmt.Errorf("list rows of a session: %w", err)
	}
	var rows []*v1alpha1.ToolHealth
	for i := range list.Items {
		row := &list.Items[i]
		if row.Spec.Override == nil && (user == "" || row.Spec.ScopeID == tenancy.SessionID(session, user)) {
			rows = append(rows, s.overlay.newest(KeyOf(row), row))
		}
	}
	return rows, nil
}
