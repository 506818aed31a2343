package restapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
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

// A namespace that holds as many rows as it may, and a row's name that somebody took: what is told is answered, and told
// not to be stored.
func TestWhatHasNoPlaceIsToldNotToBeStored(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	p.mayTellOfEverybody()
	p.server.Checker.Store = health.NewStore(health.StoreOptions{Client: p.server.Client, Live: p.server.Checker.Live,
		Clock: p.server.Clock, Recorder: events.NewFakeRecorder(100), MaxUnknownToolRows: 2})
	refused := func(tool string, edits ...func(*rest.Report)) rest.Report {
		r := rest.Report{ToolName: tool, Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
		for _, edit := range edits {
			edit(&r)
		}
		return r
	}
	must(t, env.Admin.Create(t.Context(), &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "taken"},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "other", Scope: v1alpha1.ScopeProject, ScopeID: p.name}}))
	rows := func(n int) {
		t.Helper()
		eventually(t, "the rows in the cache", func() bool {
			var rows v1alpha1.ToolHealthList
			must(t, p.server.Client.List(t.Context(), &rows, client.InNamespace(p.name)))
			return len(rows.Items) == n
		})
	}
	const full = "it cannot be stored: the namespace holds as many ToolHealth rows as it may: 2 rows of tools without a Tool are the limit"
	for _, tc := range []struct {
		name, tool string
		rows       int // that there are before
		says       string
	}{
		{"a tool whose row's name is another's", "taken", 1, "it cannot be stored: the ToolHealth under this row's name has another identity: delete it"},
		{"the last one for which there is a place", "first", 1, ""},
		{"a made-up tool beyond the bound", "made-up", 2, full},
		{"the same once more", "made-up", 2, full},
	} {
		rows(tc.rows)
		v := p.report(token, refused(tc.tool))
		if tc.says == "" {
			if !v.Stored || v.State != "DOWN" {
				t.Errorf("%s: %+v", tc.name, v)
			}
			continue
		}
		if v.Outcome != "Classified" || v.Stored || !strings.HasPrefix(v.StoreError, tc.says) || v.State != "OK" || p.health(token, tc.tool, "").State != "OK" {
			t.Errorf("%s: %+v", tc.name, v)
		}
	}
	var event rest.EventResult
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"made-up", "first", "more"}}).into(http.StatusOK, &event)
	if event.Rows != 1 || !strings.HasPrefix(event.StoreError, full) {
		t.Errorf("a connection to three tools, of which one has a row: %+v", event)
	}
	everybodys := p.name + "-down"
	p.report(token, refused(everybodys, func(r *rest.Report) { r.Scope = "GLOBAL" }))
	var h rest.Health
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/successes", rest.Success{ToolName: everybodys}).into(http.StatusOK, &h)
	if h.State != "DOWN" || !strings.HasPrefix(h.StoreError, full) {
		t.Errorf("a success whose row has no place: %+v", h)
	}
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/successes", rest.Success{ToolName: "first"}).into(http.StatusOK, &h)
	if v := p.report(token, refused("first")); !v.Stored || v.State != "DOWN" {
		t.Errorf("a row that there is goes on: %+v", v)
	}
}
