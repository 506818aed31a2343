package restapi

import (
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// clientFailed reports that a tool of a user's client cannot be reached.
func clientFailed(user, session string) rest.Report {
	return rest.Report{ToolName: "client_x", OriginatingUserID: user, OriginatingSessionID: session, Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
}

// in tells the state of client_x for a user in a session.
func (p project) in(token, user, session string) string {
	p.t.Helper()
	var h rest.Health
	query := url.Values{"user": {user}, "session": {session}}
	p.do(token, http.MethodGet, "/v1/projects/"+p.name+"/tools/client_x/health?"+query.Encode(), nil).into(http.StatusOK, &h)
	return h.State
}

// Who may not speak for others gets at nobody's session, neither to spoil it nor to mend it nor to end it, though all of its
// names are known: rows and jobs can be read in the project.
func TestNobodyGetsAtAnothersSession(t *testing.T) {
	p := newWorldWith(t, true).project("")
	runtime, stranger := p.runtime(), p.caller("stranger", "agrajag-reporter")
	eventsAlone(t)
	self := testenv.AccountUser(p.name, "stranger")
	must(t, env.Bind(t.Context(), p.name, "events-alone", self))
	config, err := env.Account(t.Context(), p.name, "stranger")
	must(t, err)
	direct, err := client.New(config, client.Options{Scheme: env.Scheme})
	must(t, err)
	path := "/v1/projects/" + p.name
	names := []string{"s1", tenancy.SessionID("s1", "alice")}
	eventually(t, "the stranger to be known", func() bool { return p.do(stranger, http.MethodGet, path+"/tools", nil).Status == http.StatusOK })

	for _, session := range names {
		for _, user := range []string{"", self, "_system"} {
			p.report(stranger, clientFailed(user, session))
			job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, GenerateName: "report-"}, Spec: v1alpha1.DiagnosisJobSpec{
				ToolName: "client_x", OriginatingUserID: v1alpha1.UserID(user), OriginatingSessionID: session,
				Error: &v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"java.net.ConnectException"}}}}
			if err := direct.Create(t.Context(), job); err == nil || apierrors.IsForbidden(err) {
				t.Errorf("the same with the API server: %v", err)
			}
		}
		p.do(stranger, http.MethodPost, path+"/events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"client_x"}, OriginatingSessionID: session}).into(http.StatusOK, &rest.EventResult{})
	}
	if state := p.in(stranger, self, "s1"); state != "DOWN" {
		t.Errorf("the stranger's own session is %s", state)
	}
	if state := p.in(runtime, "alice", "s1"); state != "OK" {
		t.Errorf("the stranger took alice's session %s", state)
	}

	p.report(runtime, clientFailed("alice", "s1"))
	for _, session := range names {
		for _, user := range []string{"", self} {
			p.do(stranger, http.MethodPost, path+"/successes", rest.Success{ToolName: "client_x", OriginatingUserID: user, OriginatingSessionID: session}).into(http.StatusOK, &rest.Health{})
		}
		p.do(stranger, http.MethodPost, path+"/events", rest.Event{Type: rest.SessionEnded, OriginatingUserID: self, OriginatingSessionID: session}).into(http.StatusOK, &rest.EventResult{})
		for _, user := range []string{"", "_system", "alice"} {
			p.do(stranger, http.MethodPost, path+"/events", rest.Event{Type: rest.SessionEnded, OriginatingUserID: user, OriginatingSessionID: session}).detail(http.StatusForbidden)
		}
	}
	if state := p.in(runtime, "alice", "s1"); state != "DOWN" {
		t.Errorf("the stranger cleared alice's session: %s", state)
	}
}

// A session ends for its user, or for everybody who is in one of that name.
func TestASessionEndsForItsUserOrForAll(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	users := []string{"alice", "bob", ""}
	for _, user := range users {
		p.report(token, clientFailed(user, "s1"))
	}
	p.report(token, clientFailed("alice", "s2"))
	states := func() (states [4]string) {
		for i, user := range users {
			states[i] = p.in(token, user, "s1")
		}
		states[3] = p.in(token, "alice", "s2")
		return states
	}
	end := func(user string) {
		p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/events", rest.Event{Type: rest.SessionEnded, OriginatingUserID: user, OriginatingSessionID: "s1"}).into(http.StatusOK, &rest.EventResult{})
	}
	after := func(user string, want [4]string) {
		t.Helper()
		eventually(t, "the end of a session", func() bool { // A row can be deleted, and is gone, once the cache knows it.
			end(user)
			return states() == want
		})
	}
	after("alice", [4]string{"OK", "DOWN", "DOWN", "DOWN"})
	after("", [4]string{"OK", "OK", "OK", "DOWN"})
}
