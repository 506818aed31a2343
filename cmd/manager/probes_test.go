package main

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// optionsOf reads flags as main does.
func optionsOf(t *testing.T, args ...string) options {
	t.Helper()
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFlagsSayWhereProbesMayGo(t *testing.T) {
	for _, tc := range []struct {
		name             string
		args             []string
		allowed, refused string
	}{
		{"by default", nil, "10.0.0.1 8.8.8.8 100.64.0.1", "127.0.0.1 169.254.169.254 10.96.0.1 ::1"},
		{"an allowed range", []string{"--probe-allow=127.0.0.0/8,169.254.169.254"}, "127.9.9.9 169.254.169.254", "::1 10.96.0.1 169.254.0.1"},
		{"allowed by two flags", []string{"--probe-allow=127.0.0.1", "--probe-allow", "::1"}, "127.0.0.1 ::1", "127.0.0.2"},
		{"denied by two flags", []string{"--probe-deny=10.1.0.0/16, 10.2.0.0/16", "--probe-deny=fd00::/8"}, "10.3.0.1", "10.1.0.1 10.2.0.1 fd00::1 127.0.0.1"},
		{"denied and allowed", []string{"--probe-allow=0.0.0.0/0", "--probe-deny=127.0.0.1"}, "127.0.0.2 10.96.0.1", "127.0.0.1"},
		{"the API server, allowed", []string{"--probe-allow=10.96.0.1/32"}, "10.96.0.1", "127.0.0.1"},
		{"the API server, allowed and denied", []string{"--probe-allow=10.96.0.1/32", "--probe-deny=10.96.0.0/12"}, "10.0.0.1", "10.96.0.1"},
		{"everything denied", []string{"--probe-deny=0.0.0.0/0,::/0"}, "", "8.8.8.8 10.0.0.1 2606:4700::1111 ::ffff:8.8.8.8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := optionsOf(t, tc.args...)
			guard, err := o.guard([]string{"10.96.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			for addr := range strings.FieldsSeq(tc.allowed) {
				if err := guard.Check(netip.MustParseAddr(addr)); err != nil {
					t.Errorf("%s is refused: %v", addr, err)
				}
			}
			for addr := range strings.FieldsSeq(tc.refused) {
				if err := guard.Check(netip.MustParseAddr(addr)); err == nil {
					t.Errorf("%s is allowed", addr)
				}
			}
		})
	}
}

func TestTheAPIServerIsFoundBothWays(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	got, err := addressesOf(&rest.Config{Host: "https://203.0.113.7:6443"})
	if want := "203.0.113.7 10.96.0.1"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

// TestASuccessfulAnswerIsInNoObject: whoever may write a Tool and read what follows from it learns nothing of what the
// manager can reach.
func TestASuccessfulAnswerIsInNoObject(t *testing.T) {
	startManager(t, testOptions())
	const canary = "canary-5c1e88d0"
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"password":"`+canary+`"}`)
	})
	url := serveTool(t, answer)
	for name, endpoint := range map[string]v1alpha1.ToolEndpoint{
		"http": {HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(url)}},
		"mcp":  {MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(url)}},
	} {
		p := newProject(t)
		p.must(env.Admin.Create(t.Context(), &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "search"}, Spec: v1alpha1.ToolSpec{
			Endpoint: &endpoint, Safety: v1alpha1.SafetySafeProbe, Probe: &v1alpha1.ToolProbe{Expect: &v1alpha1.ProbeExpectation{BodyContains: "nonesuch"}}}}))
		job := p.job("search", "", status(503))
		p.must(p.user("alice").Create(t.Context(), job))
		if job = p.closed(job); len(job.Status.Probes) == 0 || !job.Status.Probes[0].Possible || job.Status.Probes[0].Success {
			t.Errorf("%s: probes %+v", name, job.Status.Probes)
		}
		if all := p.everything(); strings.Contains(all, canary) || !strings.Contains(all, job.Name) {
			t.Errorf("%s: the answer is in %s", name, all)
		}
	}
}

// TestAToolSaysWhatItsServerSays: at once, and again when a diagnosis finds that the server has changed its mind.
func TestAToolSaysWhatItsServerSays(t *testing.T) {
	startManager(t, testOptions())
	p := newProject(t)
	server := sampletools.NewMCPServer()
	p.mcpTool("search", serveTool(t, server), "search")
	tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "search"}}
	conditions := func() []metav1.Condition { return tool.Status.Conditions }
	alice := p.user("alice")
	diagnosed := func() *v1alpha1.DiagnosisJob {
		job := p.job("search", "", status(503))
		job.Spec.Trigger, job.Spec.Error = v1alpha1.TriggerUserRequest, nil
		eventually(t, "another recheck to be taken", func() error { return alice.Create(t.Context(), job) })
		return p.closed(job)
	}
	p.judged(tool, conditions, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonSafeProbe)

	server.Annotate(&mcp.ToolAnnotations{DestructiveHint: new(true)})
	if job := diagnosed(); len(job.Status.Probes) == 0 || job.Status.Probes[0].Possible || !strings.Contains(job.Status.Probes[0].Response, "destructive") {
		t.Errorf("probes %+v", job.Status.Probes)
	}
	unsafe := p.judged(tool, conditions, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonMarkedUnsafe)
	if unsafe.Status != metav1.ConditionFalse || !strings.Contains(unsafe.Message, "readOnlyCall") {
		t.Errorf("ProbeSafe is %+v", unsafe)
	}
	if server.Searches() != 0 {
		t.Errorf("%d calls of a tool that destroys", server.Searches())
	}

	server.Annotate(nil)
	if job := diagnosed(); len(job.Status.Probes) == 0 || !job.Status.Probes[0].Success {
		t.Errorf("probes %+v", job.Status.Probes)
	}
	p.judged(tool, conditions, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonSafeProbe)

	tool.Spec.Probe.Input = &apiextensionsv1.JSON{Raw: []byte(`{"query":"health"}`)}
	p.must(env.Admin.Update(t.Context(), tool))
	misfit := p.judged(tool, conditions, v1alpha1.ConditionReady, v1alpha1.ReasonInputInvalid)
	if !strings.Contains(misfit.Message, "mend spec.probe.input") {
		t.Errorf("Ready says %q", misfit.Message)
	}
	p.judged(tool, conditions, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonSafeProbe)
	if job := diagnosed(); job.Status.Diagnosis != nil && job.Status.Diagnosis.Classification == v1alpha1.TechnicallyBroken {
		t.Errorf("the tool is blamed for the Tool's mistake: %+v", job.Status.Diagnosis)
	}
	tool.Spec.Probe.Input = &apiextensionsv1.JSON{Raw: []byte(`{"q":"health"}`)}
	p.must(env.Admin.Update(t.Context(), tool))
	p.judged(tool, conditions, v1alpha1.ConditionReady, v1alpha1.ReasonConfigured)
}

// everything returns all objects of the project that a person may read without being trusted with secrets.
func (p project) everything() string {
	p.t.Helper()
	var all strings.Builder
	for _, list := range []client.ObjectList{&v1alpha1.ToolList{}, &v1alpha1.ToolHealthList{}, &v1alpha1.DiagnosisJobList{}, &eventsv1.EventList{}} {
		p.must(env.Admin.List(p.t.Context(), list, client.InNamespace(p.namespace)))
		data, err := json.Marshal(list)
		p.must(err)
		all.Write(data)
	}
	return all.String()
}

// TestARecipesEndpointPassesTheGuard: a tenant's model is asked under the rules of a probe.
func TestARecipesEndpointPassesTheGuard(t *testing.T) {
	var reached atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer trap.Close()
	t.Setenv("HTTP_PROXY", trap.URL)
	t.Setenv("HTTPS_PROXY", trap.URL)
	o := optionsOf(t)
	guard, err := o.guard([]string{"10.96.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(guard probe.Guard, endpoint string) error {
		chat, err := chats(o, guard, probe.Credentials{})(t.Context(), &diagnose.AI{Endpoint: endpoint, Models: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = chat.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: "hello"}}})
		return err
	}
	for endpoint := range strings.FieldsSeq(trap.URL + "/v1 http://localhost:8080/v1 http://[::1]/v1 http://169.254.169.254/v1 http://[fd00:ec2::254]/v1 http://100.100.100.200/v1 " +
		"http://168.63.129.16/v1 https://10.96.0.1/v1 http://[64:ff9b::7f00:1]/v1 http://[::ffff:127.0.0.1]/v1 http://0.0.0.0/v1 http://[fe80::1%25eth0]/v1") {
		if err := ask(guard, endpoint); err == nil || !strings.Contains(err.Error(), "is not allowed") {
			t.Errorf("%s: got %v, want it not to be allowed", endpoint, err)
		}
	}
	redirecting := httptest.NewServer(http.RedirectHandler(trap.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	if err := ask(probe.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, redirecting.URL); err == nil {
		t.Error("a redirect was taken for an answer")
	}
	if reached.Load() != 0 {
		t.Errorf("the trap was reached %d times", reached.Load())
	}
}
