package restapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
	"github.com/agrajag-dev/agrajag/internal/webhook"
)

// env is the API server of this package's tests.
var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := testenv.Run(m, testenv.Options{Webhooks: true}, func(e *testenv.Env) { env = e })
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(testenv.Machinery()...); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// world is the API as it is served to callers, by the manager's user.
type world struct {
	t        testing.TB
	url      string
	server   *Server
	document *openapi3.T
	router   routers.Router
	outage   *outage
}

// outage stands between the manager and the API server.
type outage struct {
	next http.RoundTripper
	// refuses and hangs say what becomes of requests; watches go on.
	refuses, hangs atomic.Bool
}

// RoundTrip passes a request on, or does not.
func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case o.refuses.Load():
		return nil, errors.New("connect: connection refused")
	case o.hangs.Load():
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return o.next.RoundTrip(r)
}

// newWorld serves the API, without the webhooks and the manager's controllers, until the test ends.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, false)
}

// newWorldWith serves the webhooks, too.
func newWorldWith(t testing.TB, webhooks bool) *world {
	t.Helper()
	config, err := env.User(testenv.ManagerUser)
	must(t, err)
	w := &world{t: t, outage: &outage{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.outage.next = next
		return w.outage
	})
	host, port, certDir := env.Webhook()
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: env.Scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, CertDir: certDir})})
	must(t, err)
	index := mgr.GetFieldIndexer()
	must(t, index.IndexField(t.Context(), &v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool))
	must(t, index.IndexField(t.Context(), &v1alpha1.ToolHealth{}, health.SessionIndex, health.IndexSession))
	must(t, index.IndexField(t.Context(), &v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs))
	cascade := checker.NewCascade(mgr.GetClient())
	must(t, cascade.Watch(t.Context(), mgr.GetCache()))
	now := clock.RealClock{}
	w.server = &Server{
		Checker: &checker.Checker{
			Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Cascade: cascade, Clock: now,
			Store: health.NewStore(health.StoreOptions{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: now,
				Recorder: mgr.GetEventRecorder("rest-test")}),
			OperatorNamespace: testenv.OperatorNamespace, FreshnessWindow: checker.DefaultFreshnessWindow,
		},
		Client: mgr.GetClient(), Clock: now, Late: NewLate(now), Access: NewAccess(mgr.GetClient(), DefaultAudience, now),
	}
	must(t, mgr.Add(w.server.Late))
	if webhooks {
		decoder := admission.NewDecoder(env.Scheme)
		mgr.GetWebhookServer().Register(webhook.PreparePath, webhook.Serve(&webhook.Preparer{Checker: w.server.Checker, Decoder: decoder}))
		mgr.GetWebhookServer().Register(webhook.AnswerPath, webhook.Serve(&webhook.Answerer{Checker: w.server.Checker, Client: mgr.GetClient(), Decoder: decoder}))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	served := httptest.NewServer(w.server.Handler())
	t.Cleanup(func() {
		served.Close()
		cancel()
		must(t, <-ended)
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not fill")
	}
	if webhooks {
		eventually(t, "the webhooks", func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil })
	}
	w.url = served.URL
	w.document, err = openapi3.NewLoader().LoadFromData(Document)
	must(t, err)
	must(t, w.document.Validate(t.Context()))
	w.document.Servers = nil // Any host will do.
	w.router, err = gorillamux.NewRouter(w.document)
	must(t, err)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// project is a namespace of its own.
type project struct {
	*world
	name string
}

// projects counts namespaces: they never go away, for want of a controller manager.
var projects atomic.Int32

// project creates a namespace, in a tenant if one is named.
func (w *world) project(tenant string) project {
	w.t.Helper()
	p := project{world: w, name: fmt.Sprintf("rest-%d", projects.Add(1))}
	must(w.t, env.Namespace(w.t.Context(), p.name, tenant))
	return p
}

// caller returns a token of a service account of the project with roles in it.
func (p project) caller(account string, roles ...string) string {
	p.t.Helper()
	token, err := env.Token(p.t.Context(), p.name, account, DefaultAudience)
	must(p.t, err)
	for _, role := range roles {
		must(p.t, env.Bind(p.t.Context(), p.name, role, testenv.AccountUser(p.name, account)))
	}
	return token
}

// runtime returns the token of an agent runtime of the project.
func (p project) runtime() string { return p.caller("runtime", "agrajag-reporter", "agrajag-runtime") }

// reply is what the API answered.
type reply struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   []byte
}

// into reads the answer, which must have a status.
func (r reply) into(status int, body any) {
	r.t.Helper()
	if r.Status != status {
		r.t.Fatalf("status %d, want %d: %s", r.Status, status, r.Body)
	}
	must(r.t, json.Unmarshal(r.Body, body))
}

// detail returns what a problem says, which must have a status.
func (r reply) detail(status int) string {
	r.t.Helper()
	var p rest.Problem
	r.into(status, &p)
	if kind := r.Header.Get("Content-Type"); kind != "application/problem+json" || p.Status != status {
		r.t.Errorf("a problem of content type %s says status %d", kind, p.Status)
	}
	return p.Detail
}

// do sends a request and holds the answer to the document.
func (w *world) do(token, method, path string, body any, edits ...func(*http.Request)) reply {
	w.t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		data = b
	default:
		var err error
		data, err = json.Marshal(b)
		must(w.t, err)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(data))
	must(w.t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, edit := range edits {
		edit(request)
	}
	response, err := http.DefaultClient.Do(request)
	must(w.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	must(w.t, err)
	w.documented(request, response, data, answer)
	return reply{t: w.t, Status: response.StatusCode, Header: response.Header, Body: answer}
}

// documented checks that an answer, and a request that was accepted, are as the document says.
func (w *world) documented(request *http.Request, response *http.Response, sent, answer []byte) {
	w.t.Helper()
	if request.URL.Path == "/openapi.yaml" {
		return // Text, which the validator cannot read as a schema's value.
	}
	request.Body = io.NopCloser(bytes.NewReader(sent))
	route, params, err := w.router.FindRoute(request)
	if err != nil {
		if response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusMethodNotAllowed {
			w.t.Errorf("%s %s is not documented: %v", request.Method, request.URL, err)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if response.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(w.t.Context(), in); err != nil {
			w.t.Errorf("a request was accepted that the document forbids: %v", err)
		}
	}
	err = openapi3filter.ValidateResponse(w.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options,
	})
	if err != nil && !errors.Is(err, io.EOF) {
		w.t.Errorf("%s %s: the answer is not as documented: %v", request.Method, request.URL, err)
	}
}

// status is a report that a tool answered with an HTTP status.
func status(tool string, code int32, edits ...func(*rest.Report)) rest.Report {
	r := rest.Report{ToolName: tool, Error: &rest.ToolError{HTTPStatus: code}}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func forUser(user string) func(*rest.Report) {
	return func(r *rest.Report) { r.OriginatingUserID = user }
}

// health asks for a tool's health.
func (p project) health(token, tool, user string) rest.Health {
	p.t.Helper()
	var h rest.Health
	p.do(token, http.MethodGet, "/v1/projects/"+p.name+"/tools/"+url.PathEscape(tool)+"/health?user="+url.QueryEscape(user), nil).into(http.StatusOK, &h)
	return h
}

// report reports an error and reads the verdict.
func (p project) report(token string, r rest.Report) rest.Verdict {
	p.t.Helper()
	var v rest.Verdict
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", r).into(http.StatusOK, &v)
	return v
}

// mayTellOfEverybody lets the runtime report for everybody, until the test ends: every project has such a row.
func (p project) mayTellOfEverybody() {
	p.t.Helper()
	must(p.t, env.Bind(p.t.Context(), testenv.OperatorNamespace, "agrajag-reporter", testenv.AccountUser(p.name, "runtime")))
	p.t.Cleanup(func() {
		must(p.t, env.Admin.DeleteAllOf(context.Background(), &v1alpha1.ToolHealth{}, client.InNamespace(testenv.OperatorNamespace)))
	})
}

// jobs lists what is stored in the project.
func (p project) jobs() []v1alpha1.DiagnosisJob {
	p.t.Helper()
	var list v1alpha1.DiagnosisJobList
	must(p.t, env.Admin.List(p.t.Context(), &list, client.InNamespace(p.name)))
	return list.Items
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

// eventNotes are what Events say.
type eventNotes []string

// eventsOf returns what the Events of a namespace say.
func eventsOf(t testing.TB, namespace string) eventNotes {
	t.Helper()
	var list eventsv1.EventList
	must(t, env.Admin.List(t.Context(), &list, client.InNamespace(namespace)))
	var notes []string
	for _, e := range list.Items {
		notes = append(notes, e.Note)
	}
	return notes
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func newRequest(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
}
