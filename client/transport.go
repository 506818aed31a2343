package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// maxChain bounds the cause chain of a report.
const maxChain = 16

// Transport guards the HTTP calls that pass through it. An answer of 400 and above is an error of the tool; its body is
// reported as far as the caller reads it, once the caller is done with it.
type Transport struct {
	// Guard asks and reports.
	Guard *Guard
	// Tool names the tool that a request calls; empty: none, and the request passes.
	Tool func(*http.Request) string
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip sends a request, or returns a RefusedError.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	tool := t.Tool(r)
	if tool == "" {
		return base.RoundTrip(r)
	}
	ctx := r.Context()
	if err := t.Guard.Before(ctx, tool); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // As every RoundTripper must.
		}
		return nil, err
	}
	response, err := base.RoundTrip(r)
	switch {
	case err != nil && (IsCancelled(ctx, err) || IsRefused(err)):
	case err != nil:
		t.Guard.Failed(ctx, tool, ErrorOf(err, r.URL.Host))
	case response.StatusCode >= http.StatusBadRequest:
		t.keep(ctx, tool, r, response)
	default:
		t.Guard.Worked(ctx, tool)
	}
	return response, err
}

// keep reports a failed answer once the caller has read it.
func (t *Transport) keep(ctx context.Context, tool string, r *http.Request, response *http.Response) {
	e := rest.ToolError{HTTPStatus: int32(response.StatusCode), Headers: make(map[string]string, len(response.Header)), Host: r.URL.Host}
	for name := range response.Header {
		e.Headers[name] = response.Header.Get(name)
	}
	report := func(body []byte) {
		if ctx.Err() == nil || !errors.Is(ctx.Err(), context.Canceled) {
			e.Body = string(body)
			t.Guard.Failed(ctx, tool, e)
		}
	}
	if response.Body == nil || response.Body == http.NoBody {
		report(nil)
		return
	}
	response.Body = &keptBody{ReadCloser: response.Body, report: report}
}

// keptBody keeps the beginning of a body while it is read, and tells it once.
type keptBody struct {
	io.ReadCloser
	report func([]byte)
	kept   []byte
	once   sync.Once
}

// Read reads on.
func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if room := rest.MaxErrorBody - len(b.kept); room > 0 {
		b.kept = append(b.kept, p[:min(n, room)]...)
	}
	if err != nil {
		b.tell()
	}
	return n, err
}

// Close ends the reading.
func (b *keptBody) Close() error {
	b.tell()
	return b.ReadCloser.Close()
}

func (b *keptBody) tell() { b.once.Do(func() { b.report(b.kept) }) }

// ErrorOf tells an error of Go as a report does: its text, and the types of its cause chain.
func ErrorOf(err error, host string) rest.ToolError {
	e := rest.ToolError{Message: err.Error(), Host: host}
	for cause := err; cause != nil && len(e.ExceptionTypes) < maxChain; cause = errors.Unwrap(cause) {
		e.ExceptionTypes = append(e.ExceptionTypes, fmt.Sprintf("%T", cause))
	}
	return e
}
