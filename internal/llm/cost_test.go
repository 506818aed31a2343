package llm_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/probe"
)

// hangUp reads the request and says nothing.
func hangUp(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// What refuses a request has not worked for it; what breaks, or fails without saying so, may have.
func TestWhatAnAnswerMayHaveCost(t *testing.T) {
	status := func(code int) scripted.Step { return scripted.Step{Status: code, Text: "no"} }
	raw := func(code int, body string) scripted.Step { return scripted.Step{Status: code, Raw: body} }
	for _, tc := range []struct {
		name string
		step scripted.Step
		want bool
	}{
		{"too many requests", status(429), false},
		{"an endpoint that is busy", status(503), false},
		{"an overloaded model of Anthropic's", raw(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), false},
		{"a request that did not come in time", status(408), false},
		{"a gateway that did not get through", status(522), false},
		{"a refused key", status(401), false},
		{"no funds", status(402), false},
		{"an unknown model", status(404), false},
		{"too long a request", status(413), false},
		{"a bad request", status(400), false},
		{"calls that a server does not know", status(501), false},
		{"a redirect", scripted.Step{Status: 307, Raw: " ", Headers: map[string]string{"Location": "https://elsewhere.example"}}, false},
		{"a web page", raw(200, "<html>Sign in</html>"), false},
		{"a proxy's rate limit with status 200", raw(200, `{"error":{"message":"slow down","code":429}}`), false},
		{"a proxy's error with status 200", raw(200, `{"error":{"message":"the provider broke off","code":502}}`), true},
		{"an error with status 200 that says no more", raw(200, `{"error":{"message":"aborted"}}`), true},
		{"a server that failed at it", status(500), true},
		{"a gateway that lost its upstream", raw(502, "<html>Bad Gateway</html>"), true},
		{"a gateway that waited no longer", raw(504, ""), true},
		{"a gateway of Cloudflare's that waited no longer", raw(524, "error code: 524"), true},
		{"a status that means nothing", raw(600, "?"), true},
		{"no answer to a request that was read", scripted.Step{Serve: hangUp}, true},
		{"an answer that breaks off", scripted.Step{Serve: breakOff}, true},
		{"an answer that is no JSON", raw(200, "hm"), true},
		{"an answer without end", scripted.Step{Serve: endless(200)}, true},
		{"no choices", raw(200, `{"choices":[]}`), true},
		{"all thought and no answer", scripted.Step{Cut: true}, true},
		{"a filtered prompt", raw(400, errorBody("", "content_filter", "filtered")), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if failure, _ := failing(t, tc.step); failure.MayCost != tc.want {
				t.Errorf("it may have cost something: %t, want %t (%s)", failure.MayCost, tc.want, failure)
			}
		})
	}
}

// What never reached the endpoint costs nothing, and each model's failure is told by itself.
func TestWhatACallThatBreaksMayHaveCost(t *testing.T) {
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	server := httptest.NewServer(scripted.NewFunc(func(scripted.Request) scripted.Step { return scripted.Step{Serve: hangUp} }))
	defer server.Close()
	slow := httptest.NewServer(scripted.NewFunc(func(scripted.Request) scripted.Step { return scripted.Step{Delay: time.Minute} }))
	defer slow.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	deaf := listener(t)
	for _, tc := range []struct {
		name, endpoint string
		transport      http.RoundTripper
		patience       time.Duration
		want           []bool
	}{
		{"a refused connection", refused.URL, nil, time.Minute, []bool{false}},
		{"a name that nobody has", "http://no-such-host.invalid/v1", nil, time.Minute, []bool{false}},
		{"a connection that takes too long", server.URL, &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}, time.Minute, []bool{false}},
		{"an address that the dialer refuses", server.URL, probe.Guard{}.Transport(), time.Minute, []bool{false}},
		{"another certificate", secure.URL, nil, time.Minute, []bool{false}},
		{"no TLS where it is expected", strings.Replace(server.URL, "http:", "https:", 1), nil, time.Minute, []bool{false}},
		{"TLS that is never agreed on", "https://" + deaf, &http.Transport{TLSHandshakeTimeout: 50 * time.Millisecond, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
			time.Minute, []bool{false, false}},
		{"no address", "http://[", nil, time.Minute, []bool{false, false}},
		{"no answer in time", slow.URL, nil, time.Second, []bool{true, true}},
		{"a connection that breaks", server.URL, nil, time.Minute, []bool{true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []bool
			request := ask("hello")
			request.Try = counting(&got)
			_, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: tc.endpoint, Models: []string{"m1", "m2"},
				HTTPClient: &http.Client{Timeout: tc.patience, Transport: tc.transport}}).Complete(t.Context(), request)
			if !slices.Equal(got, tc.want) {
				t.Errorf("the models may have cost something: %v, want %v (%v)", got, tc.want, err)
			}
		})
	}
}

// counting lets every model be asked, and notes whether that may have cost something.
func counting(mayCost *[]bool) func(context.Context, *llm.Request) (func(llm.Response, error), error) {
	return func(context.Context, *llm.Request) (func(llm.Response, error), error) {
		return func(_ llm.Response, err error) {
			var failure *llm.Failure
			*mayCost = append(*mayCost, errors.As(err, &failure) && failure.MayCost)
		}, nil
	}
}

// listener takes connections and says nothing on them; it returns its address.
func listener(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
