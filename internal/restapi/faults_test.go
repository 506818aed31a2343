package restapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

func TestVerdictsGoOnWhileTheAPIServerIsAway(t *testing.T) {
	for _, tc := range []struct {
		name string
		away func(*outage) *atomic.Bool
	}{
		{"it refuses connections", func(o *outage) *atomic.Bool { return &o.refuses }},
		{"it answers nothing", func(o *outage) *atomic.Bool { return &o.hangs }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newWorld(t).project("")
			token := p.runtime()
			p.report(token, status("warm-up", 403, forUser("alice")))
			p.health(token, "warm-up", "")
			eventually(t, "the row in the cache", func() bool { return p.report(token, status("warm-up", 403, forUser("alice"))).Outcome == "CoolingDown" })

			tc.away(p.outage).Store(true)
			clear := rest.Report{ToolName: "inventory", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
			for i := range 3 {
				v := p.report(token, clear)
				if v.Outcome != "Classified" || v.Stored || !strings.Contains(v.StoreError, "written as soon as") {
					t.Errorf("report %d: %+v", i, v)
				}
			}
			unclear := p.report(token, status("search", 503))
			if unclear.Outcome != "Pending" || unclear.Stored {
				t.Errorf("an unclear one: %+v", unclear)
			}
			if v := p.report(token, status("warm-up", 403, forUser("alice"))); v.Outcome != "CoolingDown" || !v.Stored {
				t.Errorf("one that needs no write: %+v", v)
			}
			if h := p.health(token, "warm-up", "alice"); len(h.Cooldowns) != 1 {
				t.Errorf("health from the cache: %+v", h)
			}

			tc.away(p.outage).Store(false)
			eventually(t, "what was reported to be written", func() bool {
				return p.health(token, "inventory", "").State == "DOWN" && len(p.jobs()) == 1
			})
			var rows v1alpha1.ToolHealthList
			must(t, env.Admin.List(t.Context(), &rows, client.InNamespace(p.name)))
			for _, row := range rows.Items {
				if row.Spec.ToolName == "inventory" && (len(row.Status.History) != 1 || row.Status.Cooldowns[0].Hits != 1) {
					t.Errorf("three reports of one fault were written as %+v", row.Status)
				}
			}
		})
	}
}

func TestLate(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC))
	refused := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "toolhealths"}, "x", errors.New("secret detail"))
	l := NewLate(clock)
	var err error
	tries := 0
	do := func(context.Context) error { tries++; return err }
	step := func(what string, key, want string, wantTries int) {
		t.Helper()
		tries = 0
		if got := l.Do(t.Context(), key, do); got != want || tries != wantTries {
			t.Errorf("%s: %q after %d tries, want %q after %d", what, got, tries, want, wantTries)
		}
	}
	catchUp := func(what string, wantTries, wantLeft int) {
		t.Helper()
		tries = 0
		l.catchUp(t.Context())
		if tries != wantTries || len(l.waiting) != wantLeft {
			t.Errorf("%s: %d tries, %d left, want %d and %d", what, tries, len(l.waiting), wantTries, wantLeft)
		}
	}
	step("in time", "a", "", 1)
	err = forbidden
	step("what is refused is not tried again", "a", "it cannot be stored: Forbidden", 1)
	err = refused
	step("away", "a", storedLater, 1)
	step("the same once more", "a", storedLater, 0)
	step("another, a moment later", "b", storedLater, 0)
	catchUp("still away", 1, 2)
	clock.Step(lateEvery)
	err = nil
	step("back, while the first still waits", "a", storedLater, 0)
	step("another is written at once", "c", "", 1)
	catchUp("back", 2, 0)
	err = refused
	for i := range maxLate {
		l.Do(t.Context(), fmt.Sprint(i), do)
	}
	step("too much waits", "one more", notStored, 0)
	clock.Step(lateFor)
	catchUp("for too long", maxLate, 0)
}

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	errorsPath, successesPath := "/v1/projects/"+p.name+"/errors", "/v1/projects/"+p.name+"/successes"
	valid := `{"toolName":"search","error":{"httpStatus":403}}`
	for _, tc := range []struct {
		name, method, path, body, contentType string
		want                                  int
		says                                  string
	}{
		{"another content type", http.MethodPost, errorsPath, valid, "text/plain", http.StatusUnsupportedMediaType, "application/json"},
		{"no JSON", http.MethodPost, errorsPath, "nonsense", "application/json", http.StatusBadRequest, "no JSON from byte 2 on"},
		{"nothing", http.MethodPost, errorsPath, "", "application/json", http.StatusBadRequest, "it is empty"},
		{"half a body", http.MethodPost, errorsPath, valid[:20], "application/json", http.StatusBadRequest, "ends in the middle"},
		{"a status as text", http.MethodPost, errorsPath, `{"toolName":"search","error":{"httpStatus":"403"}}`, "application/json", http.StatusBadRequest, "error.httpStatus must be a whole number, not string"},
		{"a number for a body", http.MethodPost, errorsPath, `{"toolName":"search","error":{"body":403}}`, "application/json", http.StatusBadRequest, "error.body must be a string, not number"},
		{"a text for a report", http.MethodPost, errorsPath, `"search"`, "application/json", http.StatusBadRequest, "it must be an object, not string"},
		{"a time without seconds", http.MethodPost, errorsPath, `{"toolName":"search","error":{"date":"2026-05-23T15:00Z"}}`, "application/json", http.StatusBadRequest, "2026-05-23T15:00:00Z"},
		{"a number for a time", http.MethodPost, errorsPath, `{"toolName":"search","error":{"date":5}}`, "application/json", http.StatusBadRequest, "a value is not of its kind"},
		{"a field whose name may be a secret", http.MethodPost, errorsPath, `{"sk-1234567890":1}`, "application/json", http.StatusBadRequest, "there is no such field"},
		{"two values", http.MethodPost, errorsPath, valid + valid, "application/json", http.StatusBadRequest, "more than one"},
		{"a field that is none", http.MethodPost, errorsPath, `{"tool":"search"}`, "application/json", http.StatusBadRequest, `there is no such field "tool"`},
		{"a reporter of one's own choice", http.MethodPost, errorsPath, `{"toolName":"search","reporter":"admin","error":{"httpStatus":403}}`, "application/json", http.StatusBadRequest, `no such field "reporter"`},
		{"invalid UTF-8", http.MethodPost, errorsPath, "{\"toolName\":\"se\xffrch\"}", "application/json", http.StatusBadRequest, "UTF-8"},
		{"megabytes", http.MethodPost, errorsPath, `{"note":"` + strings.Repeat("a", maxBody) + `"}`, "application/json", http.StatusRequestEntityTooLarge, "at most 1048576 bytes"},
		{"an error that says nothing", http.MethodPost, errorsPath, `{"toolName":"search","error":{}}`, "application/json", http.StatusBadRequest, "error: say what"},
		{"an error of parts that are dropped", http.MethodPost, errorsPath, `{"toolName":"search","error":{"headers":{"":"x"},"exceptionTypes":[""]}}`, "application/json", http.StatusBadRequest, "error: say what"},
		{"a signature that is none", http.MethodPost, successesPath, `{"toolName":"search","errorSignature":"no such thing"}`, "application/json", http.StatusBadRequest, "errorSignature: must be a signature"},
		{"a parameter that is none", http.MethodGet, "/v1/projects/" + p.name + "/tools?usr=alice", "", "", http.StatusBadRequest, `no such parameter "usr": use user, session, tool`},
		{"a parameter where there is none", http.MethodPost, errorsPath + "?user=alice", valid, "application/json", http.StatusBadRequest, "in the body"},
		{"a user with a semicolon that is not encoded", http.MethodGet, "/v1/projects/" + p.name + "/tools/search/health?user=al;ice", "", "", http.StatusBadRequest, "percent-encode what each value holds (; as %3B"},
		{"a user with a percent sign that is not encoded", http.MethodGet, "/v1/projects/" + p.name + "/health?tool=search&user=al%ice", "", "", http.StatusBadRequest, "% as %25"},
		{"two users", http.MethodGet, "/v1/projects/" + p.name + "/tools/search/health?user=bob&user=x", "", "", http.StatusBadRequest, "user: is given 2 times: give it once"},
		{"two users of all tools", http.MethodGet, "/v1/projects/" + p.name + "/tools?tool=a&tool=b&user=bob&user=x", "", "", http.StatusBadRequest, "user: is given 2 times"},
		{"two users in whose name to look", http.MethodPost, "/v1/projects/" + p.name + "/recheck?tool=search&user=bob&user=bob", "", "", http.StatusBadRequest, "user: is given 2 times"},
		{"two projects", http.MethodPost, "/brain/" + p.name + "/tools/search/recheck?scopeId=" + p.name + "&scopeId=other", "", "", http.StatusBadRequest, "scopeId: is given 2 times"},
		{"a tool's name that is missing", http.MethodGet, "/v1/projects/" + p.name + "/tools//health", "", "", http.StatusNotFound, "percent-encode"},
		{"nothing but slashes", http.MethodGet, "//", "", "", http.StatusNotFound, "percent-encode"},
		{"a tool's name of dots", http.MethodPost, "/v1/projects/" + p.name + "/tools/../recheck", "", "", http.StatusNotFound, "percent-encode"},
		{"no error", http.MethodPost, errorsPath, `{"toolName":"search"}`, "application/json", http.StatusBadRequest, "error: say what"},
		{"no tool", http.MethodPost, errorsPath, `{"error":{"httpStatus":403}}`, "application/json", http.StatusBadRequest, "toolName"},
		{"a control character in the tool's name", http.MethodPost, errorsPath, `{"toolName":"a\u0000b","error":{"httpStatus":403}}`, "application/json", http.StatusBadRequest, "toolName"},
		{"a status that is none", http.MethodPost, errorsPath, `{"toolName":"search","error":{"httpStatus":42}}`, "application/json", http.StatusBadRequest, "100 to 999"},
		{"a scope that is none", http.MethodPost, errorsPath, `{"toolName":"search","scope":"ALL","error":{"httpStatus":403}}`, "application/json", http.StatusBadRequest, "SESSION"},
		{"a language that is none", http.MethodPost, errorsPath, `{"toolName":"search","locale":"<script>","error":{"httpStatus":403}}`, "application/json", http.StatusBadRequest, "language tag"},
		{"an empty list", http.MethodPost, errorsPath, `[]`, "application/json", http.StatusBadRequest, "1 to 100"},
		{"a project that is none", http.MethodPost, "/v1/projects/no-such-project/errors", valid, "application/json", http.StatusForbidden, "needs the verb create"},
		{"a path that is none", http.MethodPost, "/v2/projects", valid, "application/json", http.StatusNotFound, "/openapi.yaml"},
		{"a method that is none", http.MethodGet, errorsPath, "", "", http.StatusMethodNotAllowed, "POST"},
		{"a tool's name that is too long", http.MethodGet, "/v1/projects/" + p.name + "/tools/" + strings.Repeat("a", 200) + "/health", "", "", http.StatusBadRequest, "1 to 128"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.do(token, tc.method, tc.path, []byte(tc.body), func(r *http.Request) { r.Header.Set("Content-Type", tc.contentType) })
			if detail := got.detail(tc.want); !strings.Contains(detail, tc.says) {
				t.Errorf("detail %q, want %q in it", detail, tc.says)
			}
		})
	}
}

func TestHugeFieldsAreCutNotRefused(t *testing.T) {
	p := newWorld(t).project("")
	big := strings.Repeat("error ", 10_000)
	v := p.report(p.runtime(), status("search", 503, func(r *rest.Report) {
		r.Note, r.Error.Body, r.Error.Message, r.Error.ErrorCode, r.Error.Host = big, big, big, big, big
		r.Error.Headers = map[string]string{"X-Big": big, strings.Repeat("n", 300): "v"}
		for range 40 {
			r.Error.ExceptionTypes = append(r.Error.ExceptionTypes, "java.io.IOException")
		}
	}))
	if v.Outcome != "Pending" || !v.Stored || len(p.jobs()) != 1 {
		t.Errorf("verdict %+v", v)
	}
}

func TestTooManyRequestsAtOnceAreTurnedAway(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, maxInFlight)
	handler := bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-release }))
	for range maxInFlight {
		go handler.ServeHTTP(newRecorder(), newRequest(t))
	}
	for range maxInFlight {
		<-entered
	}
	turned := newRecorder()
	handler.ServeHTTP(turned, newRequest(t))
	if turned.Code != http.StatusServiceUnavailable || turned.Header().Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q", turned.Code, turned.Header().Get("Retry-After"))
	}
	close(release)
}

func TestAPanicIsAnswered(t *testing.T) {
	w := newRecorder()
	bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") })).ServeHTTP(w, newRequest(t))
	if w.Code != http.StatusInternalServerError || bytes.Contains(w.Body.Bytes(), []byte("secret")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTheListenerServesTLSUntilItIsToldToStop(t *testing.T) {
	_, _, certDir := env.Webhook()
	entered, release := make(chan struct{}), make(chan struct{})
	l := &Listener{Address: "127.0.0.1:0", CertDir: certDir, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		w.WriteHeader(http.StatusNoContent)
	})}
	if l.Serving(nil) == nil {
		t.Error("ready before it serves")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	eventually(t, "the API", func() bool { return l.Serving(nil) == nil })
	answered := make(chan int, 1)
	go func() {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d/", l.Port()))
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	<-entered
	cancel()
	close(release)
	if got := <-answered; got != http.StatusNoContent {
		t.Errorf("a request that was under way was answered with %d", got)
	}
	must(t, <-ended)
}

func TestOneCallerDoesNotTakeAllPlaces(t *testing.T) {
	p := newWorld(t).project("")
	token, other := p.runtime(), p.caller("other", "agrajag-reporter")
	// A body that never ends holds a place, as a recheck that waits does.
	var slow []*io.PipeWriter
	free := func() {
		for _, write := range slow {
			_ = write.CloseWithError(io.ErrUnexpectedEOF)
		}
	}
	t.Cleanup(free) // Before the server's, which waits for them.
	answers := make(chan int, maxPerCaller)
	for range maxPerCaller {
		body, write := io.Pipe()
		slow = append(slow, write)
		go func() {
			r, err := http.NewRequest(http.MethodPost, p.url+"/v1/projects/"+p.name+"/errors", body)
			if err != nil {
				answers <- 0
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			_ = response.Body.Close()
			answers <- response.StatusCode
		}()
	}
	path := "/v1/projects/" + p.name + "/tools/search/health"
	eventually(t, "the caller to have no place left", func() bool {
		p.server.busy.mu.Lock()
		defer p.server.busy.mu.Unlock()
		return p.server.busy.count[testenv.AccountUser(p.name, "runtime")] == maxPerCaller
	})
	turned := p.do(token, http.MethodGet, path, nil)
	if detail := turned.detail(http.StatusTooManyRequests); !strings.Contains(detail, "under way") || turned.Header.Get("Retry-After") != "1" {
		t.Errorf("%q, Retry-After %q", detail, turned.Header.Get("Retry-After"))
	}
	p.do(other, http.MethodGet, path, nil).into(http.StatusOK, &rest.Health{})
	free()
	for range maxPerCaller {
		<-answers
	}
	eventually(t, "the places to be free again", func() bool { return p.do(token, http.MethodGet, path, nil).Status == http.StatusOK })
	eventually(t, "nobody to be remembered", func() bool {
		p.server.busy.mu.Lock()
		defer p.server.busy.mu.Unlock()
		return len(p.server.busy.count) == 0
	})
}

// A client that sends its header or its body a byte at a time is given up on, and a header without end is refused.
func TestSlowAndEndlessClientsAreGivenUp(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	_, _, certDir := env.Webhook()
	l := &Listener{Address: "127.0.0.1:0", CertDir: certDir, Handler: p.server.Handler(), readHeader: 300 * time.Millisecond, read: 600 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	eventually(t, "the API", func() bool { return l.Serving(nil) == nil })
	begin := "POST /v1/projects/" + p.name + "/errors HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n"
	for _, tc := range []struct {
		name, sends, drips string
		want               string // the beginning of the answer, if one comes before the connection ends
	}{
		{"a header that does not end", "GET / HTTP/1.1\r\nHost: x\r\n", "X", "HTTP/1.1 40"},
		{"a body that does not end", begin + "Content-Length: 100000\r\n\r\n{", " ", "HTTP/1.1 400"},
		{"a body of chunks that do not end", begin + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", "HTTP/1.1 400"},
		{"headers without bound", begin, strings.Repeat("X-Padding: "+strings.Repeat("a", 1000)+"\r\n", 20), "HTTP/1.1 431"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.Port()), &tls.Config{InsecureSkipVerify: true})
			must(t, err)
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, tc.sends)
			must(t, err)
			go func() {
				for { // Until the other side has had enough.
					if _, err := io.WriteString(conn, tc.drips); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
			must(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection is held")
			}
			if len(answer) > 0 && !strings.HasPrefix(string(answer), tc.want) {
				t.Errorf("answered %.200q, want %q", answer, tc.want)
			}
		})
	}
	cancel()
	must(t, <-ended)
}
