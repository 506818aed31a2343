package probe

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

const token = "s3cr3t/+token=="

var system = Identity{As: v1alpha1.ProbeAsSystem}

// user is an identity whose credential may go to the servers of these tests.
func user() Identity {
	return Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: token, Hosts: []string{"127.0.0.1"}}}
}

// prober returns one that may connect to this machine.
func prober(t *testing.T) *Prober {
	t.Helper()
	return New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.0/8")}})
}

func probe(t *testing.T, tool *v1alpha1.Tool, id Identity) Result {
	t.Helper()
	target := target(t, tool)
	return prober(t).Probe(t.Context(), target, id, target.Input)
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func serveTLS(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are what is tested
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func expect(statuses []int32, body string) func(*v1alpha1.ToolSpec) {
	return func(s *v1alpha1.ToolSpec) {
		s.Probe.Expect = &v1alpha1.ProbeExpectation{HTTPStatusIn: statuses, BodyContains: body}
	}
}

func TestHTTPProbeOfASampleTool(t *testing.T) {
	for _, tc := range []struct {
		name          string
		prepare       func(*sampletools.HTTPAPI)
		id            Identity
		changes       []func(*v1alpha1.ToolSpec)
		wantSuccess   bool
		wantStatus    int
		wantChallenge bool
		wantBody      string
	}{
		{"works for the system", func(*sampletools.HTTPAPI) {}, system, nil, true, 200, false, ""},
		{"works for the user", func(*sampletools.HTTPAPI) {}, user(), nil, true, 200, false, ""},
		{"is broken", func(a *sampletools.HTTPAPI) { a.Fail(sampletools.Answer{Status: 503, Body: "closed for tea"}) }, user(), nil, false, 503, false, "closed for tea"},
		{"refuses the user's token", func(a *sampletools.HTTPAPI) { a.RefuseToken(token) }, user(), nil, false, 401, false, "unauthorized"},
		{"but works for the system", func(a *sampletools.HTTPAPI) { a.RefuseToken(token) }, system, nil, true, 200, false, ""},
		{"asks the system for a credential", func(a *sampletools.HTTPAPI) { a.RequireAuth(true) }, system, nil, false, 401, true, "unauthorized"},
		{"a plain 403 is no challenge", func(a *sampletools.HTTPAPI) { a.Fail(sampletools.Answer{Status: 403}) }, system, nil, false, 403, false, ""},
		{"a 403 that asks for a credential is one", func(a *sampletools.HTTPAPI) {
			a.Fail(sampletools.Answer{Status: 403, Headers: map[string]string{"WWW-Authenticate": "Bearer"}})
		}, system, nil, false, 403, true, ""},
		{"to a user it is none", func(a *sampletools.HTTPAPI) {
			a.Fail(sampletools.Answer{Status: 403, Headers: map[string]string{"WWW-Authenticate": "Bearer"}})
		}, user(), nil, false, 403, false, ""},
		{"answers as expected", func(*sampletools.HTTPAPI) {}, system, []func(*v1alpha1.ToolSpec){expect(nil, "MASSIVELY useful")}, true, 200, false, ""},
		{"answers something else", func(*sampletools.HTTPAPI) {}, system, []func(*v1alpha1.ToolSpec){expect(nil, "Vogon")}, false, 200, false, ""},
		{"answers with the expected status", func(a *sampletools.HTTPAPI) { a.Fail(sampletools.Answer{Status: 418}) }, system, []func(*v1alpha1.ToolSpec){expect([]int32{404, 418}, "")}, true, 418, false, ""},
		{"answers with another than the expected status", func(*sampletools.HTTPAPI) {}, system, []func(*v1alpha1.ToolSpec){expect([]int32{204}, "")}, false, 200, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := sampletools.NewHTTPAPI(token)
			tc.prepare(api)
			url := serve(t, api.ServeHTTP)
			got := probe(t, httpTool(url+"/v1/search", append(tc.changes, input(`{"q":"towel"}`))...), tc.id)
			want := Result{As: tc.id.As, Possible: true, Success: tc.wantSuccess, StatusCode: tc.wantStatus, AuthChallenge: tc.wantChallenge}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "At", "Duration", "Error")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.wantSuccess != (got.Error == nil) || got.Error != nil && !strings.Contains(got.Error.Body, tc.wantBody) {
				t.Errorf("got error %+v, want success %t or %q in the body", got.Error, tc.wantSuccess, tc.wantBody)
			}
			if got.Error != nil && (got.Error.Host != "127.0.0.1" || got.Error.HTTPStatus == nil || int(*got.Error.HTTPStatus) != tc.wantStatus) {
				t.Errorf("got host %q and status %v", got.Error.Host, got.Error.HTTPStatus)
			}
			if api.Calls() != 1 {
				t.Errorf("the tool was called %d times, want once", api.Calls())
			}
		})
	}
}

func TestWhatAnHTTPProbeSends(t *testing.T) {
	type sent struct{ Method, URI, Host, Authorization, Key, Override, Agent, Body string }
	headers := func(s *v1alpha1.ToolSpec) {
		s.Endpoint.HTTP.Method, s.Endpoint.HTTP.Body = "POST", "{}"
		s.Endpoint.HTTP.Headers = map[string]v1alpha1.HeaderValue{"X-Key": "k", "Host": "evil", "X-HTTP-Method-Override": "DELETE", "authorization": "own"}
	}
	agent := func(s *v1alpha1.ToolSpec) {
		s.Endpoint.HTTP.Headers = map[string]v1alpha1.HeaderValue{"User-Agent": "the-tool-wants-it"}
	}
	empty, other := "", "Token"
	for _, tc := range []struct {
		name    string
		id      Identity
		changes []func(*v1alpha1.ToolSpec)
		want    sent
	}{
		{"the endpoint's request", system, nil, sent{"GET", "/v1?a=1&q=x", "", "", "", "", userAgent, ""}},
		{"with the credential", user(), nil, sent{"GET", "/v1?a=1&q=x", "", "Bearer " + token, "", "", userAgent, ""}},
		{"with another scheme", user(), []func(*v1alpha1.ToolSpec){func(s *v1alpha1.ToolSpec) {
			s.Credentials = &v1alpha1.ToolCredentials{Scheme: &other}
		}}, sent{"GET", "/v1?a=1&q=x", "", "Token " + token, "", "", userAgent, ""}},
		{"in another header", user(), []func(*v1alpha1.ToolSpec){func(s *v1alpha1.ToolSpec) {
			s.Credentials = &v1alpha1.ToolCredentials{Scheme: &empty, Header: "x-key"}
		}}, sent{"GET", "/v1?a=1&q=x", "", "", token, "", userAgent, ""}},
		{"a safe POST with its own headers", system, []func(*v1alpha1.ToolSpec){headers}, sent{"POST", "/v1?a=1&q=x", "", "own", "k", "DELETE", userAgent, "{}"}},
		{"the credential outranks the Tool's headers", user(), []func(*v1alpha1.ToolSpec){headers}, sent{"POST", "/v1?a=1&q=x", "", "Bearer " + token, "k", "DELETE", userAgent, "{}"}},
		{"as another agent, where the Tool says so", system, []func(*v1alpha1.ToolSpec){agent}, sent{"GET", "/v1?a=1&q=x", "", "", "", "", "the-tool-wants-it", ""}},
		{"the read-only call in its place", user(), []func(*v1alpha1.ToolSpec){headers, readOnlyPath("/healthz?b=2")}, sent{"GET", "/healthz?b=2&q=x", "", "Bearer " + token, "k", "", userAgent, ""}},
		{"a read-only call that looks like another host", system, []func(*v1alpha1.ToolSpec){readOnlyPath("/@evil.example/")}, sent{"GET", "/@evil.example/?q=x", "", "", "", "", userAgent, ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got sent
			url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				h := r.Header
				got = sent{r.Method, r.RequestURI, r.Host, h.Get("Authorization"), h.Get("X-Key"), h.Get("X-Http-Method-Override"), h.Get("User-Agent"), string(body)}
			})
			result := probe(t, httpTool(url+"/v1?a=1", append(tc.changes, input(`{"q":"x"}`))...), tc.id)
			tc.want.Host = strings.TrimPrefix(url, "http://")
			if diff := cmp.Diff(tc.want, got); diff != "" || !result.Success {
				t.Errorf("%+v (-want +got):\n%s", result, diff)
			}
		})
	}
}

func TestAProbeThatIsNotPossibleIsNoFailure(t *testing.T) {
	var calls atomic.Int32
	url := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	elsewhere := Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: token, Hosts: []string{"elsewhere.example"}}}
	byName := strings.Replace(url, "127.0.0.1", "localhost", 1)
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		guard  Guard
		target Target
		id     Identity
		input  string
		want   string
	}{
		{"a blocked address", t.Context(), Guard{}, target(t, httpTool(url)), system, "", "127.0.0.1 (loopback) is not allowed; if the tool really is there, start the manager with --probe-allow=127.0.0.1/32"},
		{"a name that leads to one", t.Context(), Guard{}, target(t, httpTool(byName)), system, "", "the probe was not sent: localhost: connecting to"},
		{"a blocked MCP server", t.Context(), Guard{}, target(t, mcpTool(url)), system, "", "--probe-allow=127.0.0.1/32"},
		{"a host that the Secret does not list", t.Context(), Guard{}, target(t, httpTool(url)), elsewhere, "", "add 127.0.0.1 to data.hosts"},
		{"nothing to call", t.Context(), Guard{}, Target{}, system, "", "set spec.endpoint"},
		{"input that cannot be sent", t.Context(), Guard{}, target(t, httpTool(url)), system, "[]", "must be an object"},
		{"a diagnosis that was stopped", cancelled, Guard{Allow: prefixes(t, "127.0.0.1")}, target(t, httpTool(url)), system, "", "the diagnosis ended"},
		{"a diagnosis over MCP that was stopped", cancelled, Guard{Allow: prefixes(t, "127.0.0.1")}, target(t, mcpTool(url)), system, "", "the diagnosis ended"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := New(Options{Guard: tc.guard}).Probe(tc.ctx, tc.target, tc.id, Input{JSON: json.RawMessage(tc.input)})
			if got.Possible || got.Success || got.Error != nil || got.AuthChallenge || !strings.Contains(got.Impossible, tc.want) || got.As != tc.id.As {
				t.Errorf("got %+v, want impossible: %q", got, tc.want)
			}
			if strings.Contains(got.Impossible, token) {
				t.Error("the token is shown")
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("the tool was called %d times", calls.Load())
	}
}

func TestADiagnosisThatRunsOutOfTimeBlamesNoTool(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := prober(t).Probe(ctx, target(t, httpTool(url)), system, Input{}); got.Possible {
		t.Errorf("got %+v, want impossible", got)
	}
}

func TestFailuresWithoutAnswerAreNamedAsRulesKnowThem(t *testing.T) {
	refused, err := sampletools.Refused()
	if err != nil {
		t.Fatal(err)
	}
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	reset := serve(t, func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") })
	garbage := serve(t, func(w http.ResponseWriter, _ *http.Request) { hijack(w, "SSH-2.0-OpenSSH_9.9\r\n\r\n") })
	untrusted := serveTLS(t)
	oneSecond := func(s *v1alpha1.ToolSpec) { s.Probe.TimeoutSeconds = 1 }
	for _, tc := range []struct {
		name, url string
		want      []string
	}{
		{"refused", refused, []string{"*net.OpError", "*os.SyscallError", "syscall.Errno", "syscall.ECONNREFUSED"}},
		{"no such host", "http://tool.invalid", []string{"*net.OpError", "*net.DNSError"}},
		{"too slow", slow, []string{"context.deadlineExceededError"}},
		{"closed without answer", reset, nil},
		{"not HTTP", garbage, nil},
		{"an untrusted certificate", untrusted.URL, []string{"*tls.CertificateVerificationError", "x509.UnknownAuthorityError"}},
	} {
		for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool(tc.url, oneSecond), "mcp": mcpTool(tc.url, oneSecond)} {
			t.Run(tc.name+" over "+kind, func(t *testing.T) {
				t.Parallel()
				got := probe(t, tool, system)
				if !got.Possible || got.Success || got.Error == nil || got.StatusCode != 0 || got.Error.HTTPStatus != nil || got.Error.Message == "" {
					t.Fatalf("got %+v", got)
				}
				var types []string
				for _, name := range got.Error.ExceptionTypes {
					types = append(types, string(name))
				}
				for _, want := range tc.want {
					if !slices.Contains(types, want) {
						t.Errorf("got types %q, want %q among them", types, want)
					}
				}
				if got.Duration > 4*time.Second {
					t.Errorf("it took %s", got.Duration)
				}
			})
		}
	}
}

func hijack(w http.ResponseWriter, say string) {
	conn, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = buffer.WriteString(say)
	_ = buffer.Flush()
	_ = conn.Close()
}

func TestExceptionTypesStayBounded(t *testing.T) {
	err := errors.New("root")
	for i := range 100 {
		err = errors.Join(fmt.Errorf("%d: %w", i, err), &AddressError{}, context.DeadlineExceeded)
	}
	got := exceptionTypes(err)
	want := []v1alpha1.MatchText{"*probe.AddressError", "context.deadlineExceededError"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARedirectIsTheAnswer(t *testing.T) {
	var followed atomic.Bool
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, status) })
		for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool(url), "mcp": mcpTool(url)} {
			got := probe(t, tool, user())
			if got.Success || !got.Possible || got.StatusCode != status || got.Error == nil || got.Error.Headers["Location"] == "" {
				t.Errorf("%s %d: got %+v", kind, status, got)
			}
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	if got := probe(t, httpTool(url, expect([]int32{302}, "")), system); !got.Success {
		t.Errorf("an expected redirect: got %+v", got)
	}
}

func TestALargeAnswerIsReadInPart(t *testing.T) {
	var written atomic.Int64
	flood := func(status int, head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, head)
			block := []byte(strings.Repeat("é", 16<<10))
			for range 4096 { // 128 MiB
				n, err := w.Write(block)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
	}
	got := probe(t, httpTool(serve(t, flood(200, "needle"))+"/", expect(nil, "needle")), system)
	if !got.Success {
		t.Errorf("the beginning was not read: %+v", got)
	}
	got = probe(t, httpTool(serve(t, flood(500, "no"))), system)
	if got.Success || got.Error == nil || len(got.Error.Body) > v1alpha1.MaxErrorBody || len(got.Error.Body) < v1alpha1.MaxErrorBody-8 {
		t.Errorf("got %d bytes of body", len(got.Error.Body))
	}
	got = probe(t, mcpTool(serve(t, flood(500, "no"))), system)
	if got.Success || got.Error == nil || len(got.Error.Body) > v1alpha1.MaxErrorBody {
		t.Errorf("over MCP: got %+v %+v", got, got.Error)
	}
	if written.Load() > 64<<20 {
		t.Errorf("%d bytes were taken from the server", written.Load())
	}
}

func TestADecompressionBombIsReadInPart(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(zip, zeros{}, 32<<20); err != nil {
		t.Fatal(err)
	}
	_ = zip.Close()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(bomb.Bytes())
	})
	for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool(url), "mcp": mcpTool(url)} {
		if got := probe(t, tool, system); got.Error == nil || len(got.Error.Body) > v1alpha1.MaxErrorBody || got.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHeadersStayBounded(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("A-%03d", i), "v")
		}
		w.Header().Set("A-000", strings.Repeat("ü", 3000))
		w.Header().Set(strings.Repeat("N", 200), "v")
		w.Header().Add("Retry-After", "30")
		w.Header().Add("X", "first")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	got := probe(t, httpTool(url), system)
	if len(got.Error.Headers) != v1alpha1.MaxErrorHeaders || got.Error.Headers["Retry-After"] != "30" {
		t.Errorf("got %d headers, Retry-After %q", len(got.Error.Headers), got.Error.Headers["Retry-After"])
	}
	for name, value := range got.Error.Headers {
		if len(name) > maxHeaderName || len(value) > v1alpha1.MaxHeaderValue {
			t.Errorf("header %s: %q", name, value)
		}
	}
	for size, success := range map[int]bool{maxAnswerHeader - 1024: true, maxAnswerHeader + 8192: false, 1 << 20: false} {
		url = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", size)) })
		if got := probe(t, httpTool(url), system); got.Success != success || !got.Possible {
			t.Errorf("%d bytes of headers: got %+v", size, got)
		}
	}
}

func TestCookiesAreNotKept(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "cookie-secret"})
		w.Header().Set("Set-Cookie2", "cookie-secret")
		w.WriteHeader(http.StatusInternalServerError)
	})
	got := probe(t, httpTool(url), system)
	if strings.Contains(fmt.Sprint(got.Error.Headers), "cookie-secret") || len(got.Error.Headers) == 0 {
		t.Errorf("got %v", got.Error.Headers)
	}
}

func TestEveryTimeoutHasOneName(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded,
		&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		&net.DNSError{IsTimeout: true},
		fmt.Errorf("calling: %w", syscall.ETIMEDOUT),
	} {
		if got := exceptionTypes(err); !slices.Contains(got, timeoutType) {
			t.Errorf("%v: got %q", err, got)
		}
	}
}

func TestAnEchoingServerDoesNotLeakTheToken(t *testing.T) {
	const basic = "YWxpY2U6aHVudGVyMg==" // alice:hunter2
	for _, secret := range []string{token, "short", `a"b<c>&d é`, basic, strings.Repeat("long-", 300)} {
		forms := append(echoesOf(secret), "x"+secret+secret, "\xff"+secret+"\xfe")
		for _, status := range []int{401, 500} {
			echo := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				w.Header().Set("X-"+base64.RawURLEncoding.EncodeToString([]byte(secret[:min(len(secret), 20)])), "v")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.Join(forms, " "))
				// One more stands across the bound of what is read.
				_, _ = io.WriteString(w, strings.Repeat(secret, maxAnswer/len(secret)+1))
			}
			url := serve(t, echo)
			id := Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: secret, Hosts: []string{"127.0.0.1"}}}
			for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool(url), "mcp": mcpTool(url)} {
				got := probe(t, tool, id)
				if got.StatusCode != status || got.Error == nil || !strings.Contains(got.Error.Body, redacted) {
					t.Fatalf("%s: got %+v", kind, got)
				}
				checkHidden(t, got, secret)
				if secret == basic {
					checkHidden(t, got, "hunter2")
				}
			}
		}
	}
}

func TestATokenIsNotShownWhereItIsCut(t *testing.T) {
	secret := strings.Repeat("long-", 300)
	most := secret[:len(secret)*9/10]
	id := Identity{As: v1alpha1.ProbeAsUser, Credential: &Credential{Token: secret, Hosts: []string{"127.0.0.1"}}}
	whole := strings.Repeat(secret, (maxAnswer-len(most))/len(secret))
	for name, handler := range map[string]http.HandlerFunc{
		"at the end of what is read": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("x", maxAnswer-len(most)-len(whole))+whole+secret)
		},
		"where the server breaks off": func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 500 Sorry\r\nContent-Length: 9999\r\n\r\nyou sent "+most)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := probe(t, httpTool(serve(t, handler)), id)
			if got.StatusCode != http.StatusInternalServerError {
				t.Fatalf("got %+v", got)
			}
			checkHidden(t, got, secret)
		})
	}
}

// What a tool shows of other secrets is known by its shape, which the half of a token has not.
func TestATokenOfTheToolIsNotHalvedBeforeItIsSearched(t *testing.T) {
	shown := "ghp" + "_" + strings.Repeat("a1B2", 9)
	for behind := range len(shown) {
		got := probe(t, httpTool(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", strings.Repeat("; ", v1alpha1.MaxHeaderValue)[:v1alpha1.MaxHeaderValue-behind]+shown)
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("; ", v1alpha1.MaxErrorBody)[:v1alpha1.MaxErrorBody-behind]+shown)
		})), system)
		if echo := string(got.Error.Headers["X-Echo"]); strings.Contains(got.Error.Body+echo, "a1B2") || len(got.Error.Body) < v1alpha1.MaxErrorBody-100 {
			t.Fatalf("%d characters before the cut: %d bytes of body, %q, header %q", behind, len(got.Error.Body), got.Error.Body[max(0, len(got.Error.Body)-50):], echo[max(0, len(echo)-50):])
		}
	}
}

// panicking breaks off every request with a panic, as a library might.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a mistake") }

func TestAPanicOfALibraryIsNoFailureOfTheTool(t *testing.T) {
	prober := prober(t)
	prober.transport = panicking{}
	for kind, tool := range map[string]*v1alpha1.Tool{"http": httpTool("http://127.0.0.1/"), "mcp": mcpTool("http://127.0.0.1/")} {
		got := prober.Probe(t.Context(), target(t, tool), system, Input{})
		if got.Possible || !strings.Contains(got.Impossible, "programming error") || got.As != system.As {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
	if got := prober.Look(t.Context(), target(t, mcpTool("http://127.0.0.1/")), system); got != (Look{}) {
		t.Errorf("a look: got %+v", got)
	}
}

// echoesOf returns how servers show what they were sent.
func echoesOf(secret string) []string {
	quoted, _ := json.Marshal(secret)
	return []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

// checkHidden fails the test if the Result holds the secret, or a part that would give it away.
func checkHidden(t *testing.T, got Result, secret string) {
	t.Helper()
	// Encoders escape; what is compared is the text itself.
	texts := []string{got.Impossible}
	if got.Error != nil {
		texts = append(texts, got.Error.Body, got.Error.Message, got.Error.ErrorCode)
		for name, value := range got.Error.Headers {
			texts = append(texts, name, string(value))
		}
	}
	all := strings.Join(texts, "\n")
	parts := append(echoesOf(secret), secret[:max(len(secret)*3/4, 4)])
	for _, part := range parts {
		if strings.Contains(all, part) {
			t.Errorf("%q is shown in %.300q", part, all)
		}
	}
}

func TestAToolsOwnCredentialHeaderIsNotShownEither(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
	})
	got := probe(t, httpTool(url, func(s *v1alpha1.ToolSpec) {
		s.Endpoint.HTTP.Headers = map[string]v1alpha1.HeaderValue{"Authorization": "Bearer from-the-tool", "X-Api-Key": "key-of-the-tool"}
	}), system)
	checkHidden(t, got, "from-the-tool")
	checkHidden(t, got, "key-of-the-tool")
	if got.AuthChallenge {
		t.Error("a credential was sent, so the 401 is an answer to it")
	}
}

func TestTheResultSaysWhenAndHowLong(t *testing.T) {
	start := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	url := serve(t, func(http.ResponseWriter, *http.Request) { clock.SetTime(start.Add(1500 * time.Millisecond)) })
	prober := New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.1")}, Clock: clock})
	got := prober.Probe(t.Context(), target(t, httpTool(url)), system, Input{})
	want := Result{As: v1alpha1.ProbeAsSystem, At: start, Duration: 1500 * time.Millisecond, Possible: true, Success: true, StatusCode: 200}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	server := serveTLS(t)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	for _, tc := range []struct {
		roots *x509.CertPool
		want  bool
	}{{pool, true}, {x509.NewCertPool(), false}, {nil, false}} {
		prober := New(Options{Guard: Guard{Allow: prefixes(t, "127.0.0.1")}, RootCAs: tc.roots})
		if got := prober.Probe(t.Context(), target(t, httpTool(server.URL)), system, Input{}); got.Success != tc.want || !got.Possible {
			t.Errorf("got %+v, want success %t", got, tc.want)
		}
	}
}

func TestConnectionsAreNotShared(t *testing.T) {
	remotes := map[string]bool{}
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { remotes[r.RemoteAddr] = true })
	prober, target := prober(t), target(t, httpTool(url))
	for range 5 {
		prober.Probe(t.Context(), target, user(), Input{})
		prober.Probe(t.Context(), target, system, Input{})
	}
	if len(remotes) != 10 {
		t.Errorf("10 probes came over %d connections", len(remotes))
	}
}

func TestABrokenBodyIsAFailure(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin")
	})
	got := probe(t, httpTool(url), system)
	if got.Success || !got.Possible || got.StatusCode != http.StatusOK || got.Error == nil || !strings.Contains(got.Error.Message, "unexpected EOF") {
		t.Errorf("got %+v", got)
	}
}

func TestAResultFitsAReport(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", "\xff\xfe")
		w.WriteHeader(999)
		_, _ = w.Write(bytes.Repeat([]byte{0xff, 0x00, 0x1b}, 30000))
	})
	got := probe(t, httpTool(url), system)
	if got.Error == nil || *got.Error.HTTPStatus != 999 || len(got.Error.Body) > v1alpha1.MaxErrorBody {
		t.Fatalf("got %+v", got)
	}
	encoded, err := json.Marshal(got.Error)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.ToolError
	if err := json.Unmarshal(encoded, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Error, &back); diff != "" {
		t.Errorf("text is lost on the way (-want +got):\n%s", diff)
	}
}
