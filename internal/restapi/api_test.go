package restapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	clients "github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

func TestEveryRouteIsDocumentedAndNoOther(t *testing.T) {
	w := newWorld(t)
	served := []string{"GET /openapi.yaml"}
	var documented []string
	for _, r := range routes {
		query := slices.Sorted(slices.Values(r.query))
		if i := slices.Index(query, r.list); i >= 0 {
			query[i] += "…"
		}
		served = append(served, strings.Join(append([]string{r.method, r.path}, query...), " "))
	}
	for path, item := range w.document.Paths.Map() {
		for method, operation := range item.Operations() {
			var query []string
			for _, parameter := range slices.Concat(item.Parameters, operation.Parameters) {
				switch schema := parameter.Value.Schema.Value; {
				case parameter.Value.In != "query":
				case schema.Type.Is("array"):
					query = append(query, parameter.Value.Name+"…")
				default:
					query = append(query, parameter.Value.Name)
				}
			}
			slices.Sort(query)
			documented = append(documented, strings.Join(append([]string{method, path}, query...), " "))
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("routes (-documented +served):\n%s", diff)
	}
	if answer := w.do("", http.MethodGet, "/openapi.yaml", nil); answer.Status != http.StatusOK || string(answer.Body) != string(Document) {
		t.Errorf("the document is served as %d, %d bytes", answer.Status, len(answer.Body))
	}
}

func TestAVerdictSaysWhatToDo(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	got := p.report(token, status("search", 403, forUser("alice")))
	want := rest.Verdict{Outcome: "Classified", RuleID: "http-403", Signature: "http-403", Classification: "USER_PERMISSION", State: "OK", Scope: "USER",
		Action: "none", RetryAfterSeconds: 24 * 3600, Stored: true, UserActionHint: "Ask the owner of this tool for access.",
		Message: "USER_PERMISSION: the user may not do this with search: do not retry until access is granted (rule http-403; the same answer for 24h)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	again := p.report(token, status("search", 403, forUser("alice")))
	if again.Outcome != "CoolingDown" || again.RetryAfterSeconds < 24*3600-60 {
		t.Errorf("reported again: %+v", again)
	}
	if other := p.report(token, status("search", 403, forUser("bob"))); other.Outcome != "Classified" {
		t.Errorf("bob's is not alice's: %+v", other)
	}
	down := p.report(token, rest.Report{ToolName: "inventory", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
	if down.State != "DOWN" || down.Action != "markUnavailable" || down.Scope != "PROJECT" {
		t.Errorf("an outage: %+v", down)
	}
	if len(p.jobs()) != 0 {
		t.Error("clear verdicts made jobs")
	}
}

func TestAnUnclearErrorBecomesOneJobOfTheCaller(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	report := status("search", 503, forUser("alice"), func(r *rest.Report) {
		r.Note, r.Error.Body, r.Locale = "password=hunter2secret", "token sk-abcdefghijklmnopqrstuvwxyz012345", "de"
	})
	first := p.report(token, report)
	if first.Outcome != "Pending" || !first.DiagnosisPending || first.Job == "" || !first.Stored {
		t.Fatalf("verdict %+v", first)
	}
	jobs := p.jobs()
	if len(jobs) != 1 || jobs[0].Name != first.Job {
		t.Fatalf("jobs %v, want %s", jobs, first.Job)
	}
	spec := jobs[0].Spec
	if spec.Reporter != v1alpha1.UserID(testenv.AccountUser(p.name, "runtime")) || spec.OriginatingUserID != "alice" || spec.Locale != "de" {
		t.Errorf("spec %+v", spec)
	}
	if text := spec.Note + spec.Error.Body; strings.Contains(text, "hunter2") || strings.Contains(text, "klmnop") {
		t.Errorf("secrets in %q", text)
	}
	eventually(t, "the job to be known", func() bool {
		return p.report(token, report).Outcome == "Coalesced"
	})
	if len(p.jobs()) != 1 {
		t.Error("a second job was made")
	}
}

// Where the API server refuses the job for good, nobody is told to wait for it.
func TestAJobThatIsRefusedIsNotPending(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	must(t, env.Admin.Delete(t.Context(), namespace)) // Nothing is created in it from now on.
	eventually(t, "the job to be refused", func() bool { return !p.report(token, status("search", 503)).Stored })
	v := p.report(token, status("search", 503))
	if v.Outcome != "Pending" || v.DiagnosisPending || v.Job != "" || v.RetryAfterSeconds != 30 || !strings.HasPrefix(v.Message, "Not diagnosed: the error of search is unclear") {
		t.Errorf("verdict %+v", v)
	}
}

func TestAClosedJobMakesRoom(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	first := p.report(token, status("search", 503))
	job := p.jobs()[0]
	job.Status.Phase, job.Status.CloseReason = v1alpha1.PhaseClosed, v1alpha1.CloseStale
	job.Status.ClosedAt = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	must(t, env.Admin.Status().Update(t.Context(), &job))
	eventually(t, "a job in its place", func() bool {
		return p.report(token, status("search", 503)).Outcome == "Pending" && len(p.jobs()) == 1 && p.jobs()[0].UID != job.UID
	})
	if got := p.jobs()[0].Name; got != first.Job {
		t.Errorf("its name is %s, want %s", got, first.Job)
	}
}

func TestAListIsAnsweredInItsOrder(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	var list []rest.Report
	for i := range 3 {
		list = append(list, status(fmt.Sprint("tool-", i), []int32{403, 429, 503}[i]))
	}
	var verdicts []rest.Verdict
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", list).into(http.StatusOK, &verdicts)
	var got []string
	for _, v := range verdicts {
		got = append(got, v.Signature)
	}
	if diff := cmp.Diff([]string{"http-403", "http-429", "http-5xx"}, got); diff != "" {
		t.Errorf("signatures (-want +got):\n%s", diff)
	}
	list[1].ToolName = ""
	if detail := p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", list).detail(http.StatusBadRequest); !strings.Contains(detail, "report 1: toolName") {
		t.Errorf("detail %q does not say which", detail)
	}
	if detail := p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", make([]rest.Report, maxList+1)).detail(http.StatusBadRequest); !strings.Contains(detail, "1 to 100") {
		t.Errorf("detail %q", detail)
	}
}

func TestASuccessClears(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	p.report(token, rest.Report{ToolName: "a/b c", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
	eventually(t, "the row", func() bool { return p.health(token, "a/b c", "").State == "DOWN" })
	var h rest.Health
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/successes", rest.Success{ToolName: "a/b c", OriginatingUserID: "alice"}).into(http.StatusOK, &h)
	if h.State != "OK" || h.Scope != "PROJECT" || len(h.Cooldowns) != 0 {
		t.Errorf("after it: %+v", h)
	}
}

// However short the time between them is.
func TestASuccessHidesEverybodysOutageAtOnce(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	p.mayTellOfEverybody()
	for i := range 5 { // Of which most are of one second.
		tool := fmt.Sprint(p.name, "-", i)
		v := p.report(token, rest.Report{ToolName: tool, Scope: "GLOBAL", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
		var h rest.Health
		p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/successes", rest.Success{ToolName: tool}).into(http.StatusOK, &h)
		if v.State != "DOWN" || v.Scope != "GLOBAL" || h.State != "OK" || h.Scope != "PROJECT" {
			t.Errorf("%d: DOWN as %+v, after a success %+v", i, v, h)
		}
	}
}

func TestEvents(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	send := func(e rest.Event) int {
		t.Helper()
		var result rest.EventResult
		p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/events", e).into(http.StatusOK, &result)
		return result.Rows
	}
	send(rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"mcp_a", "mcp_b"}})
	if h := p.health(token, "mcp_a", "alice"); h.State != "DOWN" || h.ExpectedRecoveryAt != nil {
		t.Errorf("closed: %+v", h)
	}
	if rows := send(rest.Event{Type: rest.ConnectionReopened, ToolNames: []string{"mcp_a", "mcp_b", "mcp_never_closed"}}); rows != 2 {
		t.Errorf("a connection to two tools that were DOWN, and one that was not, opened again: %d rows", rows)
	}
	if h := p.health(token, "mcp_a", "alice"); h.State != "OK" {
		t.Errorf("open again: %+v", h)
	}
	send(rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"client_x"}, OriginatingSessionID: "s1"})
	eventually(t, "the session's row to be known", func() bool {
		return send(rest.Event{Type: rest.SessionEnded, OriginatingSessionID: "s1"}) == 1
	})
	for name, bad := range map[string]rest.Event{
		"a client's tool without its session": {Type: rest.ConnectionClosed, ToolNames: []string{"client_x"}},
		"no tools":                            {Type: rest.ConnectionClosed},
		"no session":                          {Type: rest.SessionEnded},
		"a session that ends with tools":      {Type: rest.SessionEnded, OriginatingSessionID: "s1", ToolNames: []string{"client_x"}},
		"no type":                             {ToolNames: []string{"mcp_a"}},
	} {
		if got := p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/events", bad); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.Status)
		}
	}
	var events eventNotes
	var h rest.Health
	send(rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"mcp_c"}})
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/successes", rest.Success{ToolName: "mcp_c"}).into(http.StatusOK, &h)
	eventually(t, "the Events", func() bool { events = eventsOf(t, p.name); return len(events) >= 7 })
	who := " for " + testenv.AccountUser(p.name, "runtime")
	for _, want := range []string{
		"unknown to DOWN by agrajag-event" + who + ": TECHNICALLY_BROKEN: The connection to the tool closed",
		"DOWN to OK by agrajag-event" + who + ": WORKING: The connection to the tool is open again",
		"DOWN to OK by agrajag-success" + who + ": WORKING: A call worked",
	} {
		if !slices.Contains(events, want) {
			t.Errorf("the audit trail does not say %q: %v", want, events)
		}
	}
}

func TestHealthIsSentOnlyWhenItChanged(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	path := "/v1/projects/" + p.name + "/tools?user=alice"
	must(t, env.Admin.Create(t.Context(), &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "described"}}))
	p.report(token, status("search", 403, forUser("alice")))
	p.report(token, status("hers", 403, forUser("bob")))
	var list rest.HealthList
	eventually(t, "the tools", func() bool {
		p.do(token, http.MethodGet, path, nil).into(http.StatusOK, &list)
		return len(list.Items) == 2
	})
	if diff := cmp.Diff([]rest.Health{
		{ToolName: "described", State: "OK"},
		{ToolName: "search", State: "OK", Cooldowns: []rest.Cooldown{{Signature: "http-403", Scope: "USER", Classification: "USER_PERMISSION"}}},
	}, list.Items, cmpopts.IgnoreFields(rest.Cooldown{}, "RetryAfterSeconds")); diff != "" {
		t.Errorf("alice's tools (-want +got):\n%s", diff)
	}
	tag := p.do(token, http.MethodGet, path, nil).Header.Get("ETag")
	have := func(r *http.Request) { r.Header.Set("If-None-Match", `"other", `+tag) }
	if got := p.do(token, http.MethodGet, path, nil, have); got.Status != http.StatusNotModified || len(got.Body) != 0 {
		t.Errorf("unchanged: %d, %d bytes", got.Status, len(got.Body))
	}
	p.report(token, rest.Report{ToolName: "search", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}})
	eventually(t, "the change", func() bool { return p.do(token, http.MethodGet, path, nil, have).Status == http.StatusOK })
	h := p.health(token, "search", "alice")
	if h.State != "DOWN" || h.RetryAfterSeconds < 200 || !strings.HasPrefix(h.Text, "Currently unavailable until about ") {
		t.Errorf("for a model: %+v", h)
	}
	var byQuery rest.Health
	p.do(token, http.MethodGet, "/v1/projects/"+p.name+"/health?tool=search&user=alice", nil).into(http.StatusOK, &byQuery)
	if diff := cmp.Diff(h, byQuery, cmpopts.IgnoreFields(rest.Health{}, "RetryAfterSeconds"), cmpopts.IgnoreFields(rest.Cooldown{}, "RetryAfterSeconds")); diff != "" {
		t.Errorf("by query (-path +query):\n%s", diff)
	}
	p.do(token, http.MethodGet, "/v1/projects/"+p.name+"/tools?tool=search&tool=other", nil).into(http.StatusOK, &list)
	if len(list.Items) != 2 {
		t.Errorf("of two tools that are named: %+v", list.Items)
	}
}

// closeJobs closes the project's jobs as a diagnosis does, until the test ends.
func (p project) closeJobs(message string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var list v1alpha1.DiagnosisJobList
			_ = env.Admin.List(ctx, &list, client.InNamespace(p.name))
			for _, job := range list.Items {
				if job.Status.Phase == v1alpha1.PhaseInit {
					job.Status.Phase, job.Status.CloseReason, job.Status.ClosedAt, job.Status.Attempts = v1alpha1.PhaseClosed, v1alpha1.CloseDone, &metav1.Time{Time: time.Now()}, 1
					job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Diagnosed", Message: message, LastTransitionTime: metav1.Now()}}
					_ = env.Admin.Status().Update(ctx, &job)
				}
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); <-done })
}

func TestARecheckWaitsOrDoesNot(t *testing.T) {
	p := newWorld(t).project("acme")
	token := p.runtime()
	var r rest.Recheck
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/tools/search/recheck", nil).into(http.StatusAccepted, &r)
	if r.Done || r.Job == "" || r.Health.State != "OK" {
		t.Errorf("at once: %+v", r)
	}
	first := r.Job
	p.closeJobs("WORKING for scope PROJECT: it works")
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/recheck?tool=search&wait=30s", nil).into(http.StatusOK, &r)
	if !r.Done || r.Job != first || r.Message != "WORKING for scope PROJECT: it works" {
		t.Errorf("joined: %+v", r)
	}
	p.do(token, http.MethodPost, "/brain/acme/tools/other/recheck?scope=PROJECT&scopeId="+p.name+"&wait=30s", nil).into(http.StatusOK, &r)
	if !r.Done {
		t.Errorf("under the specification's path: %+v", r)
	}
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/tools/search/recheck?user=alice&wait=30s", nil).into(http.StatusOK, &r)
	if !r.Done || r.Job == first {
		t.Errorf("for a user it is looked at as that user: %+v", r)
	}
	if got := p.do(token, http.MethodPost, "/brain/other/tools/other/recheck?scopeId="+p.name, nil); got.Status != http.StatusNotFound {
		t.Errorf("of another tenant: %d", got.Status)
	}
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/tools/third/recheck?scope=USER&user=alice&wait=30s", nil).into(http.StatusOK, &r)
	for name, query := range map[string]string{"a scope that is none": "scope=ALL", "a user's without a user": "scope=USER", "too long a wait": "wait=1h", "no duration": "wait=soon"} {
		if got := p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/tools/search/recheck?"+query, nil); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.Status)
		}
	}
}

// A row that was diagnosed as often within the hour as it may be: a person gets what was found last, and is told when
// to ask again.
func TestARecheckTooManyGetsTheNewest(t *testing.T) {
	p := newWorld(t).project("")
	p.server.Checker.PerRowPerHour = 2
	token := p.runtime()
	began := time.Now()
	for i, name := range []string{"older", "newest"} {
		job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name},
			Spec: v1alpha1.DiagnosisJobSpec{ToolName: "search", Error: &v1alpha1.ToolError{Message: name + " fails"}}}
		must(t, env.Admin.Create(t.Context(), job))
		at := metav1.NewTime(began.Add(time.Duration(i-2)*15*time.Minute + 30*time.Second))
		job.Status = v1alpha1.DiagnosisJobStatus{Phase: v1alpha1.PhaseClosed, CloseReason: v1alpha1.CloseDone, StartedAt: &at, ClosedAt: &at, Attempts: 1,
			ErrorSignature: v1alpha1.ErrorSignature(name), Diagnosis: &v1alpha1.Diagnosis{Classification: v1alpha1.Intermittent, Scope: v1alpha1.ScopeProject},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Diagnosed", Message: "the answer of " + name, LastTransitionTime: at}}}
		must(t, env.Admin.Status().Update(t.Context(), job))
		eventually(t, "the cache", func() bool {
			cached := &v1alpha1.DiagnosisJob{}
			return p.server.Client.Get(t.Context(), client.ObjectKeyFromObject(job), cached) == nil && cached.Status.StartedAt != nil
		})
	}
	var r rest.Recheck
	p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/tools/search/recheck?wait=30s", nil).into(http.StatusOK, &r)
	if !r.Done || r.Job != "newest" || !strings.HasPrefix(r.Message, "Not looked at again: search was diagnosed 2 times within the hour") ||
		!strings.Contains(r.Message, "ask again in 30m") || !strings.HasSuffix(r.Message, ". Found: the answer of newest") {
		t.Errorf("got %+v", r)
	}
	var jobs v1alpha1.DiagnosisJobList
	must(t, env.Admin.List(t.Context(), &jobs, client.InNamespace(p.name)))
	if len(jobs.Items) != 2 {
		t.Errorf("there are %d jobs", len(jobs.Items))
	}
}

func TestARepeatedRequestCountsOnce(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-17") }
	row := func() *v1alpha1.ToolHealth {
		var rows v1alpha1.ToolHealthList
		must(t, env.Admin.List(t.Context(), &rows, client.InNamespace(p.name)))
		if len(rows.Items) != 1 {
			return nil
		}
		return &rows.Items[0]
	}
	body := rest.Report{ToolName: "search", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
	for range 3 {
		p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/errors", body, key)
	}
	if got := row(); got == nil || got.Status.Cooldowns[0].Hits != 1 || len(got.Status.History) != 1 {
		t.Errorf("row %+v", got)
	}
}

// A runtime that has one key for each call, or connection, tells different things under it.
func TestOneKeyForAllThatIsToldOfACall(t *testing.T) {
	for _, tc := range []struct {
		name              string
		first, then       string // operations
		failed, recovered any
	}{
		{"a call that fails, and works when it is repeated", "errors", "successes",
			rest.Report{ToolName: "search", Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}, rest.Success{ToolName: "search"}},
		{"a connection that closes and opens again", "events", "events",
			rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"search"}}, rest.Event{Type: rest.ConnectionReopened, ToolNames: []string{"search"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newWorld(t).project("")
			token := p.runtime()
			key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-17") }
			p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/"+tc.first, tc.failed, key)
			if h := p.health(token, "search", ""); h.State != "DOWN" {
				t.Fatalf("at first %+v", h)
			}
			for range 2 {
				p.do(token, http.MethodPost, "/v1/projects/"+p.name+"/"+tc.then, tc.recovered, key)
				if h := p.health(token, "search", ""); h.State != "OK" {
					t.Errorf("then %+v", h)
				}
			}
		})
	}
}

func TestTheGoClientSpeaksTheAPI(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	c, err := clients.New(clients.Options{URL: p.url, Project: p.name, Token: func() (string, error) { return token, nil }})
	must(t, err)
	ctx, caller := t.Context(), clients.Caller{User: "alice", Session: "s1"}
	verdicts, err := c.ReportAll(ctx, []rest.Report{status("a/b", 403, forUser("alice")), status("other", 503)})
	must(t, err)
	if len(verdicts) != 2 || verdicts[0].Classification != "USER_PERMISSION" || !verdicts[1].DiagnosisPending {
		t.Errorf("verdicts %+v", verdicts)
	}
	must(t, c.Event(ctx, rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{"mcp_x"}}))
	eventually(t, "health", func() bool {
		h, err := c.Health(ctx, "a/b", caller)
		must(t, err)
		list, err := c.List(ctx, caller)
		must(t, err)
		return len(h.Cooldowns) == 1 && len(list) == 2
	})
	h, err := c.Success(ctx, rest.Success{ToolName: "mcp_x"})
	must(t, err)
	if h.State != "OK" {
		t.Errorf("after a success: %+v", h)
	}
	r, err := c.Recheck(ctx, "mcp_x", caller, 0)
	must(t, err)
	if r.Job == "" || r.Done {
		t.Errorf("recheck %+v", r)
	}
	var refused *clients.ProblemError
	if _, err := c.Report(ctx, status("x", 42)); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		t.Errorf("a bad report: %v", err)
	}
}
