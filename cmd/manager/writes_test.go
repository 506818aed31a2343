package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// writes counts what a manager writes to the API server in a project, Events and leases apart.
type writes struct {
	mu      sync.Mutex
	project string // what other tests left is theirs; empty: nothing counts yet
	seen    []string
}

// in begins to count what is written in a project.
func (w *writes) in(p project) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.project = p.namespace
}

// wrap counts the requests of a connection.
func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/leases") {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.project != "" && strings.Contains(r.URL.Path, "/namespaces/"+w.project+"/") {
				w.seen = append(w.seen, r.Method+" "+kindOf(r.URL.Path))
			}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var resource = regexp.MustCompile(`/namespaces/[^/]+/([a-z]+)(?:/[^/]+)?(/status)?$`)

// kindOf names the resource, and the subresource, of a path.
func kindOf(path string) string {
	m := resource.FindStringSubmatch(path)
	if m == nil {
		return path
	}
	return m[1] + m[2]
}

// since returns the writes since the last call, in order of their names, after a moment in which more may come.
func (w *writes) since() []string {
	for before := -1; before != w.count(); {
		before = w.count()
		time.Sleep(500 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	slices.Sort(seen)
	return seen
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// The figures are those of design §4, the reporter's own create apart.
func TestWritesToTheAPIServer(t *testing.T) {
	var counted writes
	startManagerWith(t, testOptions(), counted.wrap)
	p := newProject(t)
	counted.in(p)
	alice := p.user("alice")
	server := sampletools.NewMCPServer()
	server.FailHTTP(sampletools.Answer{Status: http.StatusServiceUnavailable})
	p.mcpTool("search", serveTool(t, server), "search")
	p.rule("shortly", "PT2S", v1alpha1.ErrorMatch{ErrorCode: "E_SHORT"})
	counted.since()

	refused := v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"java.net.ConnectException"}}
	short := v1alpha1.ToolError{ErrorCode: "E_SHORT"}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{name: "a first clear verdict", do: func() { p.answer(alice, p.job("orders", "", refused)) },
			want: []string{"POST toolhealths", "PUT toolhealths/status"}},
		{name: "a report under its cooldown", do: func() { p.answer(alice, p.job("orders", "", refused)) }},
		{name: "another clear verdict on the same row", do: func() { p.answer(alice, p.job("orders", "", short)) },
			want: []string{"PUT toolhealths/status", "PUT toolhealths/status"}}, // The second when the cooldown ends.
		{name: "a first diagnosed job", do: func() {
			job := p.job("search", "", status(503))
			p.must(alice.Create(t.Context(), job))
			p.closed(job)
		}, want: []string{"POST toolhealths", "PUT diagnosisjobs/status", "PUT diagnosisjobs/status", "PUT toolhealths/status"}},
		{name: "a later diagnosed job", do: func() {
			job := p.job("search", "", status(401))
			p.must(alice.Create(t.Context(), job))
			p.closed(job)
		}, want: []string{"PUT diagnosisjobs/status", "PUT diagnosisjobs/status", "PUT toolhealths/status"}},
		{name: "nothing", do: func() { time.Sleep(time.Second) }},
	} {
		step.do()
		if step.name == "another clear verdict on the same row" {
			time.Sleep(3 * time.Second) // Until its cooldown of two seconds has ended.
		}
		if diff := cmp.Diff(step.want, counted.since()); diff != "" {
			t.Errorf("%s writes (-want +got):\n%s", step.name, diff)
		}
	}
}
