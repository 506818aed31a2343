// Package restapi answers agent runtimes over HTTP: it translates between requests and the checker, and asks the API
// server who is calling and whether they may.
package restapi

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/checker"
)

const (
	// maxBody bounds a request's body, in bytes: a report of 64 KiB, or a list of smaller ones.
	maxBody = 1 << 20
	// maxList bounds the reports of one request.
	maxList = 100
	// maxInFlight bounds the requests that are answered at once, and with maxBody the memory that strangers fill.
	maxInFlight = 256
	// maxPerCaller bounds those of one caller, so that nobody takes all places, as by waiting for rechecks.
	maxPerCaller = maxInFlight / 4
	// writeWithin bounds one write, and those behind one report. What takes longer is written later, or told not to be written.
	writeWithin = time.Second
)

// Server answers the REST API. Every replica runs one.
type Server struct {
	// Checker answers reports.
	Checker *checker.Checker
	// Client reads from the cache and writes.
	Client client.Client
	// Access says who calls and what they may.
	Access *Access
	// Late does later what could not be written in time.
	Late *Late
	// Clock tells the time.
	Clock clock.PassiveClock

	// busy counts the requests of each caller that are being answered.
	busy busy
	// made are the jobs that were made a moment ago, until the cache knows them.
	made memory[client.ObjectKey, types.UID]
}

// route is one operation of the API. Document describes each of them.
type route struct {
	method, path string
	handle       func(*Server, *http.Request, Identity) (answer, error)
	// query names the parameters that the query may have, once each but for list.
	query []string
	// list names the parameter of which there may be several; empty: there is none.
	list string
}

var routes = []route{
	{http.MethodPost, "/v1/projects/{project}/errors", (*Server).postErrors, nil, ""},
	{http.MethodPost, "/v1/projects/{project}/successes", (*Server).postSuccesses, nil, ""},
	{http.MethodPost, "/v1/projects/{project}/events", (*Server).postEvents, nil, ""},
	{http.MethodGet, "/v1/projects/{project}/tools", (*Server).getTools, []string{"user", "session", "tool"}, "tool"},
	{http.MethodGet, "/v1/projects/{project}/tools/{tool}/health", (*Server).getHealth, []string{"user", "session"}, ""},
	{http.MethodGet, "/v1/projects/{project}/health", (*Server).getHealth, []string{"tool", "user", "session"}, ""},
	{http.MethodPost, "/v1/projects/{project}/tools/{tool}/recheck", (*Server).postRecheck, []string{"scope", "user", "session", "wait"}, ""},
	{http.MethodPost, "/v1/projects/{project}/recheck", (*Server).postRecheck, []string{"tool", "scope", "user", "session", "wait"}, ""},
	{http.MethodPost, "/brain/{tenant}/tools/{tool}/recheck", (*Server).postRecheckOfTenant, []string{"scope", "scopeId", "user", "session", "wait"}, ""},
}

// answer is what a request is answered with, as JSON.
type answer struct {
	status int
	body   any
	// etag identifies what the body says; empty: it is not to be compared.
	etag string
}

// Handler returns the API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, s.operation(r))
	}
	mux.HandleFunc("GET /openapi.yaml", serveDocument)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { notRouted(w, r, mux) })
	return bounded(straight(mux))
}

// straight refuses paths that the mux would redirect to others: there a tool's name is missing, or was not encoded.
func straight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if escaped := r.URL.EscapedPath(); escaped != "/" && (path.Clean(escaped) != strings.TrimSuffix(escaped, "/") || escaped == "//") {
			writeProblem(w, r, problem(http.StatusNotFound, "not-found", "the path has an empty part, or one of dots: percent-encode a tool's name (. as %%2E), or use ?tool="))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// operation authenticates, answers and writes one kind of request.
func (s *Server) operation(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, err := s.Access.Authenticate(req)
		if err != nil {
			writeProblem(w, req, err)
			return
		}
		if !s.busy.enter(who.Username) {
			writeProblem(w, req, problem(http.StatusTooManyRequests, "busy", "%s has %d requests under way: end some, or wait for fewer rechecks", who.Username, maxPerCaller))
			return
		}
		defer s.busy.leave(who.Username)
		if req.Body != nil {
			req.Body = http.MaxBytesReader(w, req.Body, maxBody)
		}
		err = checkQuery(req, r)
		var a answer
		if err == nil {
			a, err = r.handle(s, req, who)
		}
		if err != nil {
			writeProblem(w, req, err)
			return
		}
		writeAnswer(w, req, a)
	})
}

// bounded answers at most maxInFlight requests at once and turns further ones away, and turns a panic into a problem:
// a mistake of ours must end nobody's connection without a word.
func bounded(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			writeProblem(w, r, problem(http.StatusServiceUnavailable, "busy", "more than %d requests at once: try again in a second", maxInFlight))
			return
		}
		defer recovered(w, r)
		next.ServeHTTP(w, r)
	})
}

// busy counts what is under way for each caller. The zero value is empty.
type busy struct {
	mu    sync.Mutex
	count map[string]int
}

// enter counts a request, unless its caller has too many.
func (b *busy) enter(caller string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == nil {
		b.count = map[string]int{}
	}
	if b.count[caller] >= maxPerCaller {
		return false
	}
	b.count[caller]++
	return true
}

// leave ends the counting of a request that entered.
func (b *busy) leave(caller string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count[caller]--; b.count[caller] == 0 {
		delete(b.count, caller)
	}
}
