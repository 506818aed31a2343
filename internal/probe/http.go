package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// userAgent lets the owners of a tool tell probes from calls.
const userAgent = "agrajag-probe"

// http sends the request that the Target describes.
func (r *run) http(ctx context.Context, input Input) Result {
	request, err := r.request(ctx, input)
	if err != nil {
		return impossible("the request cannot be made from the Tool: %s", r.secrets.Text(err.Error()))
	}
	response, err := httpClient(r.prober.transport).Do(request)
	if err != nil {
		return r.noAnswer(err)
	}
	defer func() { _ = response.Body.Close() }()
	a, err := read(response)
	if !r.target.answeredBy(a) {
		return r.failed(a, r.refusedAnswer(a))
	}
	if err != nil {
		// The status was good, but the body broke off: no answer that could be used.
		return r.failed(a, &v1alpha1.ToolError{Message: messageOf(err), ExceptionTypes: exceptionTypes(err)})
	}
	if !r.target.expected(a.body) {
		return r.failed(a, &v1alpha1.ToolError{HTTPStatus: statusOf(a), Message: r.target.unexpected()})
	}
	return r.succeeded(a.status)
}

func (r *run) request(ctx context.Context, input Input) (*http.Request, error) {
	call := r.target.http
	args, err := r.target.arguments(input)
	if err != nil {
		return nil, err
	}
	query, err := queryOf(args)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, call.method, withQuery(r.target.url, query).String(), strings.NewReader(call.body))
	if err != nil {
		return nil, err
	}
	request.Header = call.headers.Clone()
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", userAgent)
	}
	if r.credential != nil {
		r.target.setCredential(request.Header, r.credential)
	}
	return request, nil
}

// withQuery returns u with more parameters; those that it has stay as they are written.
func withQuery(u *url.URL, more url.Values) *url.URL {
	extended := *u
	if len(more) > 0 && extended.RawQuery != "" {
		extended.RawQuery += "&"
	}
	extended.RawQuery += more.Encode()
	return &extended
}

// read returns the answer with no more of its body than maxAnswer, and the one byte that shows that it goes on. If the body breaks off before, it returns what came
// and the error.
func read(response *http.Response) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	partial := len(body) > maxAnswer || err != nil
	return &answer{
		status:  response.StatusCode,
		headers: response.Header,
		body:    string(body),
		partial: partial,
	}, err
}

// answeredBy reports whether the status counts as a success.
func (t Target) answeredBy(a *answer) bool {
	if len(t.expect.HTTPStatusIn) > 0 {
		return slices.Contains(t.expect.HTTPStatusIn, int32(min(max(a.status, 0), 999)))
	}
	return isSuccess(a.status)
}

// expected reports whether the text is as the Tool expects, upper and lower case alike. Of an HTTP answer only what was
// read counts, its first 64 KiB.
func (t Target) expected(body string) bool {
	return strings.Contains(strings.ToLower(body), strings.ToLower(t.expect.BodyContains))
}

// unexpected says what was expected.
func (t Target) unexpected() string {
	return fmt.Sprintf("the answer does not contain %q, as spec.probe.expect.bodyContains demands", t.expect.BodyContains)
}
