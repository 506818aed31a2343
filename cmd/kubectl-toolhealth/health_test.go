package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// shared is the cluster of all shops. It is started by the first one.
var shared = sync.OnceValues(func() (*testenv.Env, error) {
	env, err := testenv.Start(testenv.Options{})
	if err == nil {
		stopShared = env.Stop
	}
	return env, err
})

var stopShared = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// shop is a project on a cluster, and people who work in it.
type shop struct {
	t           *testing.T
	env         *testenv.Env
	name        string
	kubeconfigs map[string]string
}

// shops counts them: namespaces never go away, for want of a controller manager.
var shops atomic.Int32

func newShop(t *testing.T) *shop {
	t.Helper()
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	n := shops.Add(1)
	s := &shop{t: t, env: env, name: fmt.Sprint("shop-", n), kubeconfigs: map[string]string{}}
	tenant := fmt.Sprint("acme-", n)
	s.must(env.Namespace(t.Context(), tenant, ""))
	s.must(env.Namespace(t.Context(), s.name, tenant))
	s.must(env.ApplyYAML(t.Context(), `{apiVersion: tools.agrajag.dev/v1alpha1, kind: Tool, metadata: {name: mcp-search, namespace: `+s.name+`}, spec: {toolName: mcp_search}}`))
	s.person("alice", "agrajag-reporter")
	s.person("ops", "agrajag-editor", "agrajag-admin")
	return s
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) person(name string, roles ...string) {
	s.t.Helper()
	s.kubeconfigs[name] = filepath.Join(s.t.TempDir(), name)
	s.must(s.env.KubeConfig(name, s.name, s.kubeconfigs[name]))
	for _, role := range roles {
		s.must(s.env.Bind(s.t.Context(), s.name, role, name))
	}
}

// as runs a command line as a person.
func (s *shop) as(person string, args ...string) result {
	s.t.Helper()
	return plugin(s.t, "", append(args, "--kubeconfig", s.kubeconfigs[person])...)
}

// says runs a command line, which must end with a code and print texts.
func (s *shop) says(person string, code int, line string, texts ...string) result {
	s.t.Helper()
	r := s.as(person, words(line)...)
	if r.Code != code {
		s.t.Errorf("%s as %s: exit code %d, want %d: %s%s", line, person, r.Code, code, r.Out, r.Err)
	}
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(r.Out+" "+r.Err), " "), text) {
			s.t.Errorf("%s as %s lacks %q:\n%s%s", line, person, text, r.Out, r.Err)
		}
	}
	return r
}

// words splits a command line, in which '…' holds words together.
func words(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

func (s *shop) rows() []v1alpha1.ToolHealth {
	s.t.Helper()
	var list v1alpha1.ToolHealthList
	s.must(s.env.Admin.List(s.t.Context(), &list, client.InNamespace(s.name)))
	return list.Items
}

func TestPeopleSeePinAndMarkTools(t *testing.T) {
	s := newShop(t)
	s.says("alice", exitFine, "list", "TOOL STATE", "mcp_search OK")
	s.says("alice", exitFine, "describe mcp_search", "Tool: mcp_search", "For: alice", "State: OK", "Nothing is known of it here")

	s.says("ops", exitFine, "pin mcp_search --state down --until 2h --reason 'moving to another host'", "mcp_search is pinned to DOWN for scope PROJECT until 20")
	s.says("alice", exitFine, "list", "mcp_search DOWN (pinned) PROJECT", "moving to another host")
	s.says("alice", exitFine, "describe mcp_search", "State: DOWN (pinned, scope PROJECT)", "Pinned by: ops", "Why: moving to another host", "Pinned until: 20")
	s.says("alice", exitFine, "describe mcp_search -o json", `"pinnedBy": "ops"`)
	s.says("alice", exitUnusable, "pin mcp_search --state OK --reason mine", "forbidden", "the role agrajag-editor lets you")
	s.says("ops", exitFine, "pin mcp_search --state OK --until 2030-01-01T00:00:00Z --reason done", "until 2030-01-01T00:00:00Z")
	s.says("alice", exitFine, "list", "mcp_search OK (pinned) PROJECT - in ")
	s.says("alice", exitFine, "describe mcp_search", "Pinned until: 2030-01-01T00:00:00Z (in ")
	s.says("ops", exitFine, "unpin mcp_search", "no longer pinned")
	s.says("ops", exitUnusable, "unpin mcp_search", "nothing is pinned")
	if rows := s.rows(); len(rows) != 1 || rows[0].Spec.Override != nil {
		t.Errorf("rows %+v", rows)
	}

	s.says("ops", exitFine, "mark mcp_search --state DOWN --until 30m --reason 'the provider announced it'", "mcp_search is marked DOWN for scope PROJECT")
	var events eventsv1.EventList
	s.must(s.env.Admin.List(t.Context(), &events, client.InNamespace(s.name)))
	if len(events.Items) != 1 || !strings.HasPrefix(events.Items[0].Note, "unknown to DOWN by ops: TECHNICALLY_BROKEN: the provider announced it, expected to recover at ") {
		t.Errorf("Events %+v", events.Items)
	}
	s.says("alice", exitFine, "list", "mcp_search DOWN PROJECT", "in 29m TECHNICALLY_BROKEN the provider announced it")
	s.says("alice", exitUnusable, "mark mcp_search --state OK --reason mine", "forbidden", "the role agrajag-admin lets you")
	s.says("ops", exitFine, "cooldown mcp_search --signature http-5xx --for 30m", "http-5xx of mcp_search cools down for 30m")
	s.says("ops", exitFine, "cooldown mcp_search --signature http-403 --for 1h --user alice --classification USER_PERMISSION")
	s.says("alice", exitFine, "describe mcp_search", "Cooldowns:", "http-403 USER USER_PERMISSION in 59m 1", "http-5xx PROJECT INTERMITTENT in 29m 1",
		"History:", "DOWN PROJECT TECHNICALLY_BROKEN ops the provider announced it")
	s.says("alice", exitFine, "describe mcp_search -o yaml", "activeCooldowns: 2", "cooldowns: - classification: USER_PERMISSION")
	s.says("ops", exitFine, "cooldown mcp_search --signature http-403 --user alice --clear", "no longer cools down")
	s.says("ops", exitFine, "cooldown mcp_search --signature http-403 --user alice --clear", "Nothing to change")
	s.says("ops", exitFine, "mark mcp_search --state OK --reason 'tried by hand'")
	s.says("alice", exitFine, "list", "mcp_search OK PROJECT")
}

func TestAUsersInboxHoldsWhatTheUserCanDo(t *testing.T) {
	s := newShop(t)
	s.row(v1alpha1.ScopeUser, "bob", "mcp_mail", v1alpha1.ToolHealthStatus{State: v1alpha1.StateDown, Since: &metav1.Time{Time: time.Now()}, LastDiagnosis: &v1alpha1.HealthDiagnosis{
		Classification: v1alpha1.UserSpecificTechnical, Note: "the token expired", UserActionHint: "Sign in again.", By: "test", At: metav1.Now()}})
	s.says("alice", exitFine, "list --user bob", "mcp_mail DOWN USER", "Sign in again.")
	s.says("alice", exitFine, "list --user carol", "Nothing to do for carol.")
	if r := s.as("alice", "list"); strings.Contains(r.Out, "mcp_mail") {
		t.Errorf("bob's tool is in alice's list:\n%s", r.Out)
	}
	var list []standing
	r := s.as("alice", "list", "--user", "bob", "-o", "json")
	if err := json.Unmarshal([]byte(r.Out), &list); err != nil || len(list) != 1 || list[0].UserActionHint != "Sign in again." {
		t.Errorf("%v: %s", err, r.Out)
	}
	if r := s.as("alice", "list", "--user", "bob", "--color", "always"); !strings.Contains(r.Out, stateColours["DOWN"]+"DOWN"+endColour) {
		t.Errorf("no colour: %q", r.Out)
	}
}

// row writes a row as a rule or a diagnosis does.
func (s *shop) row(scope v1alpha1.Scope, scopeID, tool string, status v1alpha1.ToolHealthStatus) {
	s.t.Helper()
	row := &v1alpha1.ToolHealth{Spec: v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(tool), Scope: scope, ScopeID: scopeID}}
	row.Namespace, row.Name = s.name, tenancy.RowName(scope, scopeID, tool)
	s.must(s.env.Admin.Create(s.t.Context(), row))
	row.Status = status
	s.must(s.env.Admin.Status().Update(s.t.Context(), row))
}

func TestADescriptionIsLaidOutAndSaysWhy(t *testing.T) {
	s := newShop(t)
	now := metav1.Now()
	s.row(v1alpha1.ScopeProject, s.name, "inventory", v1alpha1.ToolHealthStatus{State: v1alpha1.StateDown, Since: &now, ExpectedRecoveryAt: &metav1.Time{Time: now.Add(-time.Second)},
		LastDiagnosis: &v1alpha1.HealthDiagnosis{Classification: v1alpha1.TechnicallyBroken, ErrorSignature: "connect-refused", By: "agrajag-checker/connect-refused", At: now}})
	r := s.as("alice", "describe", "inventory")
	for _, line := range []string{
		"Tool:             inventory", "For:              alice", "State:            DOWN (its recovery is due: the next call is the test, scope PROJECT)",
		"Classification:   TECHNICALLY_BROKEN", "Error:            connect-refused", "Why:              connect-refused",
	} {
		if !strings.Contains(r.Out, line+"\n") {
			t.Errorf("%q is missing in:\n%s", line, r.Out)
		}
	}
	s.says("alice", exitFine, "list", "inventory DOWN (retry) PROJECT", "TECHNICALLY_BROKEN connect-refused")
}

// What another user's job found is nobody else's business.
func TestTheLastJobIsNoOtherUsers(t *testing.T) {
	s := newShop(t)
	for _, user := range []string{"", "bob"} {
		job := &v1alpha1.DiagnosisJob{Spec: v1alpha1.DiagnosisJobSpec{ToolName: "mcp_search", Trigger: v1alpha1.TriggerUserRequest, OriginatingUserID: v1alpha1.UserID(user)}}
		job.Namespace, job.Name = s.name, "of-"+cmp.Or(user, "nobody")
		s.must(s.env.Admin.Create(t.Context(), job))
		if user == "" {
			time.Sleep(1100 * time.Millisecond) // A creationTimestamp has whole seconds.
		}
	}
	s.says("alice", exitFine, "describe mcp_search", "Last job: of-nobody")
	s.says("alice", exitFine, "describe mcp_search --user bob", "Last job: of-bob")
}

// Of jobs that are as young as one another, and of younger ones, that which found what is in force says why.
func TestTheLastJobIsTheOneThatDecided(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"a-other", "decided", "z-other"} {
		job := &v1alpha1.DiagnosisJob{Spec: v1alpha1.DiagnosisJobSpec{ToolName: "mcp_search", Trigger: v1alpha1.TriggerUserRequest}}
		job.Namespace, job.Name = s.name, name
		s.must(s.env.Admin.Create(t.Context(), job))
	}
	s.row(v1alpha1.ScopeUser, "alice", "mcp_search", v1alpha1.ToolHealthStatus{State: v1alpha1.StateDown, LastDiagnosis: &v1alpha1.HealthDiagnosis{
		Classification: v1alpha1.UserSpecificTechnical, ErrorSignature: "http-401", By: "agrajag-engine/decided", Job: s.name + "/decided", At: metav1.Now()}})
	s.says("alice", exitFine, "describe mcp_search", "Error: http-401", "Last job: decided")
	decided := &v1alpha1.DiagnosisJob{}
	decided.Namespace, decided.Name = s.name, "decided"
	s.must(s.env.Admin.Delete(t.Context(), decided))
	s.says("alice", exitFine, "describe mcp_search", "Error: http-401", "-other (")
}

func TestCompletionKnowsTheCluster(t *testing.T) {
	s := newShop(t)
	s.says("ops", exitFine, "cooldown mcp_mail --signature http-403 --for 1h --user alice --classification USER_PERMISSION")
	for line, want := range map[string]string{
		"describe": "mcp_mail mcp_search :4", "unpin": "mcp_mail mcp_search", "describe mcp_mail": ":4", "cooldown mcp_mail --signature": "http-403 :4",
		"recheck x --scope": "SESSION USER PROJECT TENANT GLOBAL", "report x --scope": "SESSION", "list --color": "auto always never", "cooldown x --classification": "TECHNICALLY_BROKEN",
	} {
		verb, rest, _ := strings.Cut(line, " ")
		args := append([]string{cobra.ShellCompRequestCmd, verb, "--kubeconfig", s.kubeconfigs["alice"]}, append(strings.Fields(rest), "")...)
		if r := plugin(t, "", args...); !strings.HasPrefix(strings.Join(strings.Fields(r.Out), " "), want) {
			t.Errorf("%s is completed by %q, want %q", line, r.Out, want)
		}
	}
}

// The API server ends every watch after a while, which ends no list -w.
func TestAListGoesOnWhenAWatchEnds(t *testing.T) {
	s := newShop(t)
	config, err := s.env.User("alice")
	s.must(err)
	transport, err := rest.TransportFor(config)
	s.must(err)
	host, err := url.Parse(config.Host)
	s.must(err)
	var watches atomic.Int32
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(host) }, FlushInterval: -1}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" && watches.Add(1) == 1 {
			w.Header().Set("Content-Type", "application/json") // The first watch ends at once.
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer served.Close()
	out := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"list", "-w", "-n", s.name, "--server", served.URL, "--kubeconfig", file(t, "empty", "")}, strings.NewReader(""), out, out)
	}()
	out.await(t, "OK")
	for deadline := time.Now().Add(30 * time.Second); watches.Load() < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it watches no more: %s", out)
		}
	}
	s.says("ops", exitFine, "pin mcp_search --state DOWN --reason moving")
	out.await(t, "DOWN (pinned)")
	cancel()
	if code := <-ended; code != exitFine {
		t.Errorf("interrupted it ends with %d: %s", code, out)
	}
}

func TestAListFollowsTheRows(t *testing.T) {
	s := newShop(t)
	out := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"list", "-w", "--kubeconfig", s.kubeconfigs["alice"]}, strings.NewReader(""), out, out)
	}()
	out.await(t, "OK")
	s.says("ops", exitFine, "pin mcp_search --state DOWN --reason moving")
	out.await(t, "DOWN (pinned)")
	cancel()
	if code := <-ended; code != exitFine {
		t.Errorf("interrupted it ends with %d: %s", code, out)
	}
}

func TestReportsAndRechecksByHand(t *testing.T) {
	s := newShop(t)
	s.says("alice", exitFine, "report mcp_search --status 503 --user alice --header 'Retry-After: 60'", "Stored as job report-")
	s.says("alice", exitUnusable, "report mcp_search", "say what the call answered")
	s.says("alice", exitUnusable, "report mcp_search --status 503 --header nonsense", "Name: value")
	s.says("alice", exitUnusable, "report mcp_search --status 503 --user bob", "report-for-others")
	s.says("alice", exitFine, "recheck mcp_search --wait 0", "Asked for.")
	s.says("alice", exitFindings, "recheck mcp_search --wait 300ms", "Nothing was found within 300ms")
	s.says("alice", exitFindings, "recheck --wait 300ms mcp_search", "Nothing was found within 300ms")
	s.says("alice", exitUnusable, "recheck mcp_search 300ms", "name one tool")
	for _, wait := range []string{"0", "300ms"} {
		var asked jobDescription
		r := s.as("alice", "recheck", "mcp_search", "-o", "json", "--wait="+wait)
		if err := json.Unmarshal([]byte(r.Out), &asked); err != nil || asked.Phase != "INIT" || asked.Result != "waiting" {
			t.Errorf("--wait=%s -o json: %v: %s", wait, err, r.Out)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // The manager's part.
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var jobs v1alpha1.DiagnosisJobList
			_ = s.env.Admin.List(ctx, &jobs, client.InNamespace(s.name))
			for _, job := range jobs.Items {
				if job.Status.Phase != v1alpha1.PhaseClosed && job.Spec.Trigger == v1alpha1.TriggerUserRequest {
					class := v1alpha1.Working
					if job.Spec.OriginatingUserID != "" {
						class = v1alpha1.UserSpecificTechnical
					}
					code := int32(200)
					job.Status = v1alpha1.DiagnosisJobStatus{Phase: v1alpha1.PhaseClosed, CloseReason: v1alpha1.CloseDone,
						Diagnosis: &v1alpha1.Diagnosis{Classification: class, Scope: v1alpha1.ScopeProject},
						Probes:    []v1alpha1.ProbeAudit{{As: v1alpha1.ProbeAsSystem, At: metav1.Now(), Possible: true, Success: true, StatusCode: &code}},
						Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Diagnosed",
							Message: string(class) + " for scope PROJECT: tried", LastTransitionTime: metav1.Now()}}}
					_ = s.env.Admin.Status().Update(ctx, &job)
				}
			}
		}
	}()
	defer func() { cancel(); <-done }()
	s.says("alice", exitFine, "recheck mcp_search --wait", "is looked at as job recheck-", "WORKING for scope PROJECT: tried")
	s.says("alice", exitFindings, "recheck mcp_search --as-user alice -o json", `"phase": "CLOSED"`, `"classification": "USER_SPECIFIC_TECHNICAL"`, "USER_SPECIFIC_TECHNICAL for scope")
	s.says("alice", exitUnusable, "recheck mcp_search --as-user bob", "report-for-others")
	s.says("alice", exitFine, "describe mcp_search", "Last job: recheck-", "Probes:", "system works 200")
}

func TestWrongUsageOfClusterCommands(t *testing.T) {
	for line, want := range map[string]string{
		"list --color blue":               "use auto, always, never",
		"describe":                        "name one tool",
		"pin x --state BROKEN --reason r": "use OK, DEGRADED, DOWN",
		"pin x --state OK":                "reason",
		"pin x --state OK --reason r --until yesterday":              "neither a time",
		"pin x --state OK --reason r --until -1h":                    "lies in the past",
		"cooldown x --signature s":                                   "say --for and how long, or --clear",
		"cooldown x --signature s --for 1h --clear":                  "say --for and how long, or --clear",
		"cooldown x --signature -s --clear":                          "--signature -s is none",
		"cooldown x --signature s --for 48h":                         "from 1s to 24h",
		"cooldown x --signature s --for 1h --classification WORKING": "has no cooldown",
	} {
		if r := plugin(t, "", words(line)...); r.Code != exitUnusable || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit code %d, %s, want %q", line, r.Code, r.Err, want)
		}
	}
}
