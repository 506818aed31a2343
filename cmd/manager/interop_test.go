//go:build interop

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// node runs a third-party server of hack/interop until the test ends, and returns its address once it answers.
func node(t *testing.T, args ...string) string {
	t.Helper()
	address := freeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	dir := filepath.Join("..", "..", "hack", "interop")
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOST="+host, "PORT="+port)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%v said:\n%s", args, said)
		}
	})
	eventually(t, fmt.Sprint(args, " to answer"), func() error {
		response, err := http.Get("http://" + address + "/")
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	})
	return "http://" + address
}

// TestInterop runs the operator against servers that others wrote: @modelcontextprotocol/server-everything, and
// @dwmkerr/mock-llm both as the model and as an MCP server behind OAuth. Run it with `make test-interop`.
func TestInterop(t *testing.T) {
	everything := node(t, "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	mock := node(t, "node_modules/@dwmkerr/mock-llm/dist/main.js", "--config", "mock-llm.yaml")
	o := testOptions()
	o.models, o.modelEndpoint = "mock", mock+"/v1"
	startManager(t, o)
	p := newProject(t)
	tool := func(name, url, called, input string, changes ...func(*v1alpha1.Tool)) *v1alpha1.Tool {
		created := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: strings.ReplaceAll(name, "_", "-")}, Spec: v1alpha1.ToolSpec{
			ToolName: v1alpha1.ToolName(name), Safety: v1alpha1.SafetySafeProbe,
			Endpoint: &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(url), Tool: v1alpha1.ToolName(called)}},
			Probe:    &v1alpha1.ToolProbe{Input: &apiextensionsv1.JSON{Raw: []byte(input)}}}}
		for _, change := range changes {
			change(created)
		}
		p.must(env.Admin.Create(t.Context(), created))
		return created
	}
	diagnosed := func(name string) *v1alpha1.DiagnosisJob {
		job := p.job(name, "", status(503))
		p.must(p.user("alice").Create(t.Context(), job))
		job = p.closed(job)
		if job.Status.Diagnosis == nil || len(job.Status.Probes) != 1 || job.Status.Usage == nil || job.Status.Usage.Turns != 2 {
			t.Fatalf("%s was diagnosed as %+v", name, job.Status)
		}
		return job
	}

	t.Run("a tool of server-everything works, by mock-llm's word and its own", func(t *testing.T) {
		tool("echo", everything+"/mcp", "echo", `{"message":"towel"}`, func(tool *v1alpha1.Tool) {
			tool.Spec.Probe.Expect = &v1alpha1.ProbeExpectation{BodyContains: "Echo: towel"}
		})
		job := diagnosed("echo")
		if !job.Status.Probes[0].Success || job.Status.Diagnosis.Classification != v1alpha1.Working {
			t.Errorf("probes %+v, diagnosis %+v", job.Status.Probes, job.Status.Diagnosis)
		}
	})

	t.Run("what server-everything marks as not read-only is not called", func(t *testing.T) {
		marked := tool("toggle", everything+"/mcp", "toggle-simulated-logging", `{}`)
		p.judged(marked, func() []metav1.Condition { return marked.Status.Conditions }, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonMarkedUnsafe)
		if job := diagnosed("toggle"); job.Status.Probes[0].Possible || !strings.Contains(job.Status.Probes[0].Response, "readOnlyHint") {
			t.Errorf("probes %+v", job.Status.Probes)
		}
	})

	t.Run("input that its schema does not take is not sent", func(t *testing.T) {
		wrong := tool("sum", everything+"/mcp", "get-sum", `{"a":1,"b":"two"}`)
		ready := p.judged(wrong, func() []metav1.Condition { return wrong.Status.Conditions }, v1alpha1.ConditionReady, v1alpha1.ReasonInputInvalid)
		if !strings.Contains(ready.Message, "/properties/b") {
			t.Errorf("Ready says %q", ready.Message)
		}
	})

	t.Run("an MCP server that asks for OAuth is no outage, whatever the model says", func(t *testing.T) {
		tool("guarded_echo", mock+"/mcp", "echo", `{"text":"towel"}`)
		job := diagnosed("guarded_echo")
		audit := job.Status.Probes[0]
		if !audit.Possible || audit.Success || audit.StatusCode == nil || *audit.StatusCode != http.StatusUnauthorized {
			t.Errorf("probes %+v", job.Status.Probes)
		}
		if job.Status.Diagnosis.Classification == v1alpha1.TechnicallyBroken {
			t.Errorf("diagnosis %+v", job.Status.Diagnosis)
		}
		if row := p.row(v1alpha1.ScopeProject, p.namespace, "guarded_echo"); row != nil && row.Status.State == v1alpha1.StateDown {
			t.Errorf("the tool is DOWN: %+v", row.Status)
		}
	})

	t.Run("with a token it works", func(t *testing.T) {
		secret := secretOf("tools.agrajag.dev/system-credential", "127.0.0.1")
		secret.Namespace, secret.StringData["token"] = p.namespace, tokenOf(t, mock)
		p.must(env.Admin.Create(t.Context(), secret))
		tool("opened_echo", mock+"/mcp", "echo", `{"text":"towel"}`, withSystem("other"))
		if job := diagnosed("opened_echo"); !job.Status.Probes[0].Success {
			t.Errorf("probes %+v", job.Status.Probes)
		}
		row := &v1alpha1.ToolHealth{}
		err := env.Admin.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: tenancy.RowName(v1alpha1.ScopeProject, p.namespace, "opened_echo")}, row)
		if err != nil || row.Status.State != v1alpha1.StateOK {
			t.Errorf("the row is %+v (%v)", row.Status, err)
		}
	})
}

// tokenOf has mock-llm issue a token.
func tokenOf(t *testing.T, mock string) string {
	t.Helper()
	response, err := http.Post(mock+"/oauth/issue", "application/json", strings.NewReader(`{"clientId":"agrajag","scope":"mcp:tools"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	if err = errors.Join(err, json.Unmarshal(body, &issued)); err != nil || issued.AccessToken == "" {
		t.Fatalf("%s: %s (%v)", response.Status, body, err)
	}
	return issued.AccessToken
}
