package restapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// typePrefix begins the type of every problem. What follows names its kind, which does not change.
const typePrefix = "https://tools.agrajag.dev/problems/"

// problemError is an error that the caller is told.
type problemError struct {
	status int
	kind   string
	detail string
}

func (p *problemError) Error() string { return p.kind + ": " + p.detail }

func problem(status int, kind, format string, args ...any) error {
	return &problemError{status: status, kind: kind, detail: fmt.Sprintf(format, args...)}
}

// asProblem says what the caller is told of an error. Of what goes wrong inside only that it did.
func asProblem(err error) *problemError {
	var p *problemError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return &problemError{http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body must have at most %d bytes: cut the error's body, its beginning says most", tooLarge.Limit)}
	case apierrors.IsNotFound(err):
		return &problemError{http.StatusNotFound, "not-found", "there is no such project: it is the name of a namespace"}
	default:
		return &problemError{http.StatusServiceUnavailable, "unavailable", "the API server could not be asked: try again in a few seconds"}
	}
}

// notWritten says that what a caller told is not written, or not all of it, and that telling it once more does no harm.
func notWritten(err error, format string, args ...any) error {
	why := "the API server does not take it in time"
	if !isAway(err) {
		why = "the API server refuses it (" + string(apierrors.ReasonForError(err)) + ")"
	}
	return problem(http.StatusServiceUnavailable, "unavailable", "%s: %s. Send the same again in a few seconds: nothing is done twice", fmt.Sprintf(format, args...), why)
}

// writeProblem answers with an error (RFC 9457).
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := asProblem(err)
	if p.status >= http.StatusInternalServerError {
		logf.FromContext(r.Context()).Error(logged(err), "Request not answered", "method", r.Method, "pattern", r.Pattern)
	}
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="agrajag"`)
	}
	if p.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if p.status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "5")
	}
	write(w, p.status, "application/problem+json", rest.Problem{
		Type: typePrefix + p.kind, Title: http.StatusText(p.status), Status: p.status, Detail: text.Plain(redact.Text(p.detail), 500),
	})
}

// logged is an error as it may be logged: the API server quotes what it refuses.
func logged(err error) error { return errors.New(redact.Text(err.Error())) }

// writeAnswer answers with JSON, or with 304 where the caller has it already.
func writeAnswer(w http.ResponseWriter, r *http.Request, a answer) {
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
		w.Header().Set("Cache-Control", "no-cache") // Kept, but asked for each time.
		if known(r.Header.Values("If-None-Match"), a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	write(w, a.status, "application/json", a.body)
}

// known reports whether one of the tags that a caller has is the present one.
func known(sent []string, etag string) bool {
	for _, list := range sent {
		for tag := range strings.SplitSeq(list, ",") {
			if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
				return true
			}
		}
	}
	return false
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	data, err := json.Marshal(body)
	if err != nil { // Only strings, numbers and times: cannot happen.
		status, data = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // Who went away needs no answer.
}

// recovered turns a panic into a problem.
func recovered(w http.ResponseWriter, r *http.Request) {
	if p := recover(); p != nil {
		logf.FromContext(r.Context()).Error(fmt.Errorf("panic: %v", p), "Request not answered", "stack", string(debug.Stack()))
		writeProblem(w, r, problem(http.StatusInternalServerError, "internal", "the request could not be answered: see the manager's log"))
	}
}

// notRouted answers requests that no operation takes, saying which methods there are.
func notRouted(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "/" && method != r.Method {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(slices.Sorted(slices.Values(allowed)), ", "))
		writeProblem(w, r, problem(http.StatusMethodNotAllowed, "method", "use %s", strings.Join(allowed, " or ")))
		return
	}
	writeProblem(w, r, problem(http.StatusNotFound, "not-found", "there is no such operation: /openapi.yaml lists them"))
}
