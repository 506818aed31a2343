package llm

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"k8s.io/utils/clock"
)

// maxErrorBody bounds what is read of an endpoint's error, in bytes.
const maxErrorBody = 64 << 10

// wire sends requests and returns answers that were read whole, all others as a *Failure: what the library makes of an
// error lacks its headers, and all but its status where the body is not of OpenAI's form.
type wire struct {
	client *http.Client
	key    string
	clock  clock.PassiveClock
}

// Do sends a request.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	response, err := w.client.Do(r) //nolint:gosec // G704: the endpoint is configuration, and a recipe's passes the dialer guard.
	if err != nil {
		return nil, w.broken(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody+1)) // What came before an error may still say something.
		if len(body) > maxErrorBody {
			body = []byte(knownOf(w.key).Part(string(body[:maxErrorBody])))
		}
		return nil, w.refused(response, body)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, w.broken(fmt.Errorf("reading the answer: %w", err))
	case len(body) > maxAnswer:
		return nil, w.failure(Unreadable, fmt.Sprintf("the answer is longer than %d bytes", maxAnswer))
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		f := w.failure(Misdirected, "the answer is a web page, so the endpoint is none of an OpenAI-compatible API: "+string(body))
		f.refused = true // No model is there.
		return nil, f
	}
	if p := readProblem(body); p.api && !bytes.Contains(body, []byte(`"choices"`)) { // A proxy's error with status 200.
		return nil, w.refused(response, body)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func (w *wire) failure(kind FailureKind, message string) *Failure {
	return &Failure{Kind: kind, message: tame(message, w.key)}
}

// refused says what an error of the endpoint is.
func (w *wire) refused(response *http.Response, body []byte) *Failure {
	p := readProblem(body)
	status := p.statusOf(response.StatusCode)
	kind := kindOf(status, p)
	message := p.message
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 {
		message = "it leads to " + to + ", and redirects are not followed"
	}
	f := w.failure(kind, strings.TrimSuffix(fmt.Sprintf("HTTP status %d: %s", response.StatusCode, message), ": "))
	f.refused = refuses(status, kind)
	if kind == RateLimited || kind == Overloaded {
		f.Wait = statedWait(response.Header, body, w.clock.Now())
	}
	return f
}

// broken says why no whole answer came.
func (w *wire) broken(err error) *Failure { return w.failure(kindOfBreak(err), err.Error()) }

func kindOfBreak(err error) FailureKind {
	var (
		op          *net.OpError
		name        *net.DNSError
		timeout     net.Error
		system      *os.SyscallError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	timedOut := errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.As(err, &certificate), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return Misdirected
	case errors.As(err, &op) && op.Op == "dial":
		if timedOut || errors.As(err, &name) || errors.As(err, &system) {
			return Unreachable
		}
		return Misdirected // The dialer's guard refused the address.
	case timedOut:
		return TimedOut
	default:
		return Overloaded // The connection broke.
	}
}
