package restapi

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Each session of a user has a row of its own, which no report of another one stands for.
func TestEverySessionsReportIsWritten(t *testing.T) {
	const sessions = 10
	for _, tc := range []struct {
		name string
		away bool
	}{
		{"a client's tool that fails in all sessions at once", false},
		{"the same while the API server is away", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newWorld(t).project("")
			token := p.runtime()
			p.report(token, status("warm-up", 403, forUser("alice")))
			p.outage.refuses.Store(tc.away)
			var group sync.WaitGroup
			for i := range sessions {
				group.Go(func() {
					v, err := post(http.DefaultClient, p, token, clientFailed("alice", fmt.Sprint("s", i)))
					if err != nil || v.Stored == tc.away || v.Scope != "SESSION" {
						t.Errorf("session %d: %v, %+v", i, err, v)
					}
				})
			}
			group.Wait()
			p.outage.refuses.Store(false)
			eventually(t, "all sessions to be DOWN", func() bool {
				for i := range sessions {
					if p.in(token, "alice", fmt.Sprint("s", i)) != "DOWN" {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestWhatOneWriteStandsFor(t *testing.T) {
	of := func(scope v1alpha1.Scope, class v1alpha1.Classification, tool, user string) checker.Decision {
		return checker.Decision{Outcome: checker.Classified, Class: class, Scope: scope, Key: tenancy.JobKey{Tool: tool, Signature: "s", User: user}}
	}
	broken, project := v1alpha1.TechnicallyBroken, v1alpha1.ScopeProject
	for _, tc := range []struct {
		name          string
		one, other    checker.Decision
		in, otherwise string // the sessions
		same          bool
	}{
		{"an outage that two sessions meet", of(project, broken, "search", "alice"), of(project, broken, "search", "alice"), "s1", "s2", true},
		{"the tools of two sessions' clients", of(v1alpha1.ScopeSession, broken, "client_x", "alice"), of(v1alpha1.ScopeSession, broken, "client_x", "alice"), "s1", "s2", false},
		{"calls that worked in two sessions, each of which clears its own", of(project, v1alpha1.Working, "search", "alice"), of(project, v1alpha1.Working, "search", "alice"), "s1", "s2", false},
		{"two users", of(project, broken, "search", "alice"), of(project, broken, "search", "bob"), "s1", "s1", false},
		{"a user whose name looks like the end of another key", of(project, broken, "a", `b Signature:s User:c`), of(project, broken, `a Signature:s User:b`, "c"), "", "", false},
	} {
		if got := lateKey(tc.one, tc.in) == lateKey(tc.other, tc.otherwise); got != tc.same {
			t.Errorf("%s: one write: %t", tc.name, got)
		}
	}
}
