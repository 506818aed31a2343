package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// maxHeaderName bounds the name of a header that is kept, in bytes. Servers do not need longer ones.
	maxHeaderName = 128
	// maxHostName bounds ToolError.Host (RFC 1035 §2.3.4).
	maxHostName = 253
	// maxTypeName bounds one of ToolError.ExceptionTypes (v1alpha1.MatchText).
	maxTypeName = 256
)

// errnos are the names by which classification rules know what the operating system answered. The type of all of
// them is syscall.Errno, which tells nothing.
var errnos = []struct {
	errno syscall.Errno
	name  string
}{
	{syscall.ECONNREFUSED, "syscall.ECONNREFUSED"},
	{syscall.ECONNRESET, "syscall.ECONNRESET"},
	{syscall.ECONNABORTED, "syscall.ECONNABORTED"},
	{syscall.EHOSTUNREACH, "syscall.EHOSTUNREACH"},
	{syscall.ENETUNREACH, "syscall.ENETUNREACH"},
	{syscall.ETIMEDOUT, "syscall.ETIMEDOUT"},
	{syscall.EPIPE, "syscall.EPIPE"},
}

// timeoutType is the name by which classification rules know every timeout, whoever noticed it first.
const timeoutType = "context.deadlineExceededError"

// answer is what a server answered, as far as it was read.
type answer struct {
	status  int
	headers http.Header
	body    string
	partial bool // body is the beginning of a longer one
}

// failed returns the Result of a probe that failed. The answer is nil if there was none. What the probe sent is taken out
// of it already; other secrets that the tool showed are taken out here.
func (r *run) failed(a *answer, e *v1alpha1.ToolError) Result {
	e.Host = text.Cut(r.target.Host, maxHostName)
	e.Message = r.secrets.Text(e.Message)
	redact.Error(e)
	result := Result{Possible: true, Error: e, Duration: r.duration()}
	if a != nil {
		result.StatusCode = a.status
		result.AuthChallenge = r.isAuthChallenge(a)
	}
	return result
}

// succeeded returns the Result of a probe that succeeded. Nothing of the answer is kept.
func (r *run) succeeded(status int) Result {
	return Result{Possible: true, Success: true, StatusCode: status, Duration: r.duration()}
}

func (r *run) duration() time.Duration {
	if r.took > 0 {
		return r.took
	}
	return r.prober.clock.Since(r.start)
}

// refusedAnswer describes an answer by which the server refused the request. Of an answer that the server itself calls
// a success only the status is told, although the Tool expected another: whoever may write a Tool and read a status
// could else read whatever the manager can reach.
func (r *run) refusedAnswer(a *answer) *v1alpha1.ToolError {
	e := &v1alpha1.ToolError{
		HTTPStatus: statusOf(a),
		Message:    strings.TrimSpace(fmt.Sprintf("HTTP %d %s", a.status, http.StatusText(a.status))),
	}
	if !isSuccess(a.status) {
		e.Headers, e.Body = r.headers(a.headers), r.body(a)
	}
	return e
}

// isSuccess reports whether a server calls the answer a success.
func isSuccess(status int) bool { return status >= 200 && status <= 299 }

// statusOf returns the status, or nil for one that ToolError.httpStatus may not hold.
func statusOf(a *answer) *int32 {
	if a.status < 100 || a.status > 999 {
		return nil
	}
	status := int32(a.status)
	return &status
}

// isAuthChallenge reports whether the server asked for a credential when the probe carried none.
func (r *run) isAuthChallenge(a *answer) bool {
	if r.credential != nil || len(r.target.headerSecrets()) > 0 {
		return false
	}
	return a.status == http.StatusUnauthorized ||
		a.status == http.StatusForbidden && a.headers.Get("WWW-Authenticate") != ""
}

// noAnswer returns the Result of a probe that err kept from being answered.
func (r *run) noAnswer(err error) Result {
	if blocked, ok := errors.AsType[*AddressError](err); ok {
		return impossible("the probe was not sent: %s: %v", r.target.Host, blocked)
	}
	return r.failed(nil, &v1alpha1.ToolError{Message: messageOf(err), ExceptionTypes: exceptionTypes(err)})
}

// quoted is what errors of the standard library put around what a server sent.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// quoting are phrases of the MCP SDK's errors behind which stands what a server sent.
var quoting = []string{
	"failed to decode response", "failed to decode event", "malformed event", "unsupported content type", "unsupported protocol version",
	"mismatching session IDs", "session ID:",
}

// messageOf returns what err says, without what it quotes of a server's answer: that is not for every reader of a status.
func messageOf(err error) string {
	message := err.Error()
	for _, phrase := range quoting {
		if before, _, ok := strings.Cut(message, phrase); ok {
			message = before + phrase
		}
	}
	return quoted.ReplaceAllString(message, `"…"`)
}

// headers returns the answer's headers within the limits of ToolError. Cookies are credentials, so they are left out.
func (r *run) headers(all http.Header) map[string]v1alpha1.HeaderValue {
	kept := make(map[string]v1alpha1.HeaderValue)
	for _, name := range byUse(all) {
		if len(kept) == v1alpha1.MaxErrorHeaders {
			break
		}
		value := r.secrets.Text(strings.Join(all[name], ", "))
		kept[r.secrets.Text(name)] = v1alpha1.HeaderValue(value)
	}
	return kept
}

// byUse returns the names of the headers to keep: first those that rules read, then the others by name.
func byUse(all http.Header) []string {
	names := []string{"Retry-After", "Www-Authenticate", "Date", "Content-Type"}
	names = slices.DeleteFunc(names, func(name string) bool { return all[name] == nil })
	first := len(names)
	for name := range all {
		if len(name) <= maxHeaderName && name != "Set-Cookie" && name != "Set-Cookie2" && !slices.Contains(names[:first], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[first:])
	return names
}

// body returns the answer's body without what the probe sent. It is cut where redact.Error has seen what goes on behind.
func (r *run) body(a *answer) string {
	switch {
	case !a.partial:
		return r.secrets.Text(a.body)
	case len(a.body) <= maxAnswer: // The server broke off, and said no more.
		return r.secrets.Beginning(a.body)
	default:
		return r.secrets.Part(a.body)
	}
}

// exceptionTypes returns the Go types of err and its causes, outermost first. A type that only adds text is left out;
// behind the types stand the names that rules know for refused, reset and timed out.
func exceptionTypes(err error) []v1alpha1.MatchText {
	var names []string
	walk(err, func(err error) bool {
		name := fmt.Sprintf("%T", err)
		switch name {
		case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.errorString", "*errors.joinError":
		default:
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return len(names) < v1alpha1.MaxExceptionTypes-2
	})
	for _, e := range errnos {
		if errors.Is(err, e.errno) {
			names = append(names, e.name)
			break
		}
	}
	if isTimeout(err) && !slices.Contains(names, timeoutType) {
		names = append(names, timeoutType)
	}
	types := make([]v1alpha1.MatchText, 0, len(names))
	for _, name := range names {
		types = append(types, v1alpha1.MatchText(text.Cut(name, maxTypeName)))
	}
	return types
}

// walk calls visit for err and its causes, depth first, until visit returns false.
func walk(err error, visit func(error) bool) bool {
	if err == nil {
		return true
	}
	if !visit(err) {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // this unwraps, one error at a time
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			if !walk(cause, visit) {
				return false
			}
		}
	}
	return true
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
