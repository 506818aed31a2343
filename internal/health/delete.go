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

// DeleteSession removes the rows of a session that has ended, but those that a person pinned, and returns how many it
// removed. An empty user: those of everybody who is in a session of that name.
func (s *Store) DeleteSession(ctx context.Context, project, session, user string) (int, error) {
	var rows v1alpha1.ToolHealthList
	if err := s.client.List(ctx, &rows, client.InNamespace(project), client.MatchingFields{SessionIndex: session}); err != nil {
		return 0, fmt.Errorf("list rows of a session: %w", err)
	}
	deleted := 0
	for i := range rows.Items {
		spec := rows.Items[i].Spec
		if spec.Override != nil || user != "" && spec.ScopeID != tenancy.SessionID(session, user) {
			continue
		}
		row := s.overlay.newest(KeyOf(&rows.Items[i]), &rows.Items[i])
		if err := s.Delete(ctx, row); err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}
