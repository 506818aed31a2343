package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// Whatever is missing or wrong, the job closes with a reason that a person can act on, and ToolHealth says no more
// than is known.
func TestWhatCannotBeProbedIsSaid(t *testing.T) {
	startManager(t, testOptions())
	api := sampletools.NewHTTPAPI("secret-of-alice")
	api.RequireAuth(true)
	apiURL := serveTool(t, api)
	noSuchHost := "http://no-such-host.invalid/v1"
	httpTool := func(change func(*v1alpha1.Tool)) *v1alpha1.Tool {
		tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "search"}, Spec: v1alpha1.ToolSpec{
			Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(apiURL)}}, Safety: v1alpha1.SafetySafeProbe}}
		change(tool)
		return tool
	}
	for _, tc := range []struct {
		name string
		// tool is nil where there is no Tool.
		tool      *v1alpha1.Tool
		noBinding bool
		secret    *corev1.Secret
		wantClass v1alpha1.Classification
		wantSaid  string
		wantState v1alpha1.State
		wantScope v1alpha1.Scope
	}{
		{name: "without a Tool history alone decides", wantClass: v1alpha1.Unclear, wantSaid: "Tool",
			wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a tool that writes is never called", tool: httpTool(func(tool *v1alpha1.Tool) { tool.Spec.Safety = v1alpha1.SafetyWrite }),
			wantClass: v1alpha1.Unclear, wantSaid: "SAFE_PROBE", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a tool that must not be diagnosed is left alone", tool: httpTool(func(tool *v1alpha1.Tool) { tool.Spec.Diagnosis = v1alpha1.DiagnosisDisabled }),
			wantClass: v1alpha1.Unclear, wantSaid: "spec.diagnosis", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a missing credential of the user is named", tool: httpTool(func(*v1alpha1.Tool) {}),
			wantClass: v1alpha1.Unclear, wantSaid: "agrajag-user-", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a missing RoleBinding is named", tool: httpTool(func(*v1alpha1.Tool) {}), noBinding: true,
			wantClass: v1alpha1.Unclear, wantSaid: "RoleBinding", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a Secret of another type is refused", tool: httpTool(func(tool *v1alpha1.Tool) {
			tool.Spec.Credentials = &v1alpha1.ToolCredentials{System: &v1alpha1.SecretName{Name: "other"}}
		}), secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}, StringData: map[string]string{"token": "t", "hosts": "x"}},
			wantClass: v1alpha1.Unclear, wantSaid: "system-credential", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
		{name: "a Tool that points nowhere is found broken", tool: httpTool(func(tool *v1alpha1.Tool) { tool.Spec.Endpoint.HTTP.URL = v1alpha1.URL(noSuchHost) }),
			wantClass: v1alpha1.TechnicallyBroken, wantSaid: "no-such-host", wantState: v1alpha1.StateDown, wantScope: v1alpha1.ScopeProject},
		{name: "an address that is refused is no outage", tool: httpTool(func(tool *v1alpha1.Tool) { tool.Spec.Endpoint.HTTP.URL = "http://169.254.169.254/latest" }),
			wantClass: v1alpha1.Unclear, wantSaid: "--probe-allow", wantState: v1alpha1.StateDegraded, wantScope: v1alpha1.ScopeUser},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newProjectWith(t, !tc.noBinding)
			if tc.secret != nil {
				tc.secret.Namespace = p.namespace
				p.must(env.Admin.Create(t.Context(), tc.secret))
			}
			if tc.tool != nil {
				tc.tool.Namespace = p.namespace
				p.must(env.Admin.Create(t.Context(), tc.tool))
				eventually(t, "the Tool to be known", func() error {
					if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(tc.tool), tc.tool); err != nil || len(tc.tool.Status.Conditions) == 0 {
						return fmt.Errorf("conditions %v: %w", tc.tool.Status.Conditions, err)
					}
					return nil
				})
			}
			job := p.job("search", "alice", status(401))
			p.must(p.user("alice").Create(t.Context(), job))
			job = p.closed(job)
			said := ""
			for _, probe := range job.Status.Probes {
				said += probe.Response + " "
			}
			if job.Status.Diagnosis == nil || job.Status.Diagnosis.Classification != tc.wantClass {
				t.Fatalf("the job ended as %+v", job.Status)
			}
			said += job.Status.Diagnosis.HumanNote
			if !strings.Contains(said, tc.wantSaid) {
				t.Errorf("the job says %q, not %q", said, tc.wantSaid)
			}
			id := p.namespace
			if tc.wantScope == v1alpha1.ScopeUser {
				id = "alice"
				if everybody := p.row(v1alpha1.ScopeProject, p.namespace, "search"); everybody != nil {
					t.Errorf("one user's 401 is told to everybody: %+v", everybody.Status)
				}
			}
			if row := p.row(tc.wantScope, id, "search"); row == nil || row.Status.State != tc.wantState {
				t.Errorf("the row is %+v", row)
			}
		})
	}
}

func TestAModelDiagnoses(t *testing.T) {
	model := scripted.New(
		scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: "tool_probe_as_user", Arguments: "{}"}, {ID: "2", Name: "tool_probe_as_system", Arguments: "{}"}}, Usage: llm.Usage{Prompt: 900, Completion: 40}},
		scripted.Step{Text: "As the user 401, as system fine.\n```json\n{\"classification\":\"USER_SPECIFIC_TECHNICAL\",\"scope\":\"GLOBAL\"," +
			"\"humanNote\":\"token refused\",\"userActionHint\":\"Renew the token of search\",\"expectedRecoveryAt\":null}\n```", Usage: llm.Usage{Prompt: 1100, Completion: 80}},
	)
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	api := sampletools.NewHTTPAPI("token-alice")
	url := serveTool(t, api)
	p.httpTool("search", url+"/v1/search?q=tea")
	p.credential("alice", "token-alice", strings.TrimPrefix(url, "http://"))
	api.RefuseToken("token-alice")

	job := p.job("search", "alice", status(401))
	p.must(p.user("alice").Create(t.Context(), job))
	job = p.closed(job)
	if d := job.Status.Diagnosis; d == nil || d.Classification != v1alpha1.UserSpecificTechnical || d.Scope != v1alpha1.ScopeUser {
		t.Fatalf("the job ended as %+v", job.Status)
	}
	if u := job.Status.Usage; u == nil || u.Turns != 2 || u.PromptTokens != 2000 || u.CompletionTokens != 120 {
		t.Errorf("usage is %+v", job.Status.Usage)
	}
	row := p.row(v1alpha1.ScopeUser, "alice", "search")
	if row == nil || row.Status.State != v1alpha1.StateDown || row.Status.LastDiagnosis.UserActionHint != "Renew the token of search" {
		t.Errorf("alice's row is %+v", row)
	}
	if p.row(v1alpha1.ScopeProject, p.namespace, "search") != nil {
		t.Error("the model's scope GLOBAL widened one user's trouble")
	}
	for _, request := range model.Requests() {
		if strings.Contains(request.Body, "token-alice") {
			t.Error("the model was shown the user's token")
		}
	}
}

func TestAKilledManagerLosesNoJob(t *testing.T) {
	stop := startManager(t, testOptions())
	p := newProject(t)
	alice := p.user("alice")
	server := sampletools.NewMCPServer()
	p.mcpTool("search", serveTool(t, server), "search")
	server.Hang()
	job := p.job("search", "", status(503))
	p.must(alice.Create(t.Context(), job))
	now := &v1alpha1.DiagnosisJob{}
	eventually(t, "the job to run", func() error {
		if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(job), now); err != nil || now.Status.Phase != v1alpha1.PhaseRunning {
			return fmt.Errorf("phase %s: %w", now.Status.Phase, err)
		}
		return nil
	})
	stop()

	// While it is away, reports are taken all the same: one that a rule decides, and one with a secret.
	clear := p.job("orders", "alice", status(403))
	p.must(alice.Create(t.Context(), clear))
	secret := p.job("search", "", v1alpha1.ToolError{Message: "Authorization: Bearer abcdefgh12345678 refused"})
	p.must(alice.Create(t.Context(), secret))
	if secret.Spec.Reporter != "alice" {
		t.Errorf("the reporter is %q", secret.Spec.Reporter)
	}
	server.Heal()

	startManager(t, testOptions())
	if job = p.closed(job); job.Status.Attempts != 2 || job.Status.Diagnosis == nil || job.Status.Diagnosis.Classification != v1alpha1.Working {
		t.Errorf("the interrupted job ended as %+v", job.Status)
	}
	if clear = p.closed(clear); clear.Status.CloseReason != v1alpha1.CloseDone || clear.Status.Attempts != 0 ||
		clear.Status.Diagnosis.Classification != v1alpha1.UserPermission {
		t.Errorf("the clear report ended as %+v", clear.Status)
	}
	if row := p.row(v1alpha1.ScopeUser, "alice", "orders"); row == nil || len(row.Status.Cooldowns) != 1 {
		t.Errorf("the clear report's row is %+v", row)
	}
	if secret = p.closed(secret); strings.Contains(secret.Spec.Error.Message, "abcdefgh12345678") || !strings.Contains(secret.Spec.Error.Message, "[redacted]") {
		t.Errorf("the secret is still in %q", secret.Spec.Error.Message)
	}
}

func TestConditionsFollowTheTime(t *testing.T) {
	startManager(t, testOptions())
	p := newProject(t)
	p.rule("shortly", "PT2S", v1alpha1.ErrorMatch{ErrorCode: "E_SHORT"})
	p.answer(p.user("alice"), p.job("search", "alice", v1alpha1.ToolError{ErrorCode: "E_SHORT"}))
	kind := "cooldown.tools.agrajag.dev/shortly"
	if row := p.row(v1alpha1.ScopeUser, "alice", "search"); row == nil || !meta.IsStatusConditionTrue(row.Status.Conditions, kind) {
		t.Fatalf("the row is %+v", row)
	}
	eventually(t, "the cooldown's condition to turn False", func() error {
		row := p.row(v1alpha1.ScopeUser, "alice", "search")
		if !meta.IsStatusConditionFalse(row.Status.Conditions, kind) {
			return fmt.Errorf("conditions %+v", row.Status.Conditions)
		}
		return nil
	})

	// A person pins the row for two seconds.
	row := p.row(v1alpha1.ScopeUser, "alice", "search")
	until := metav1.NewTime(time.Now().Add(2 * time.Second))
	row.Spec.Override = &v1alpha1.HealthOverride{State: v1alpha1.StateDown, Until: &until, Reason: "moving house"}
	p.must(env.Admin.Update(t.Context(), row))
	for _, want := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		eventually(t, "Available to be "+string(want), func() error {
			row := p.row(v1alpha1.ScopeUser, "alice", "search")
			if !meta.IsStatusConditionPresentAndEqual(row.Status.Conditions, "Available", want) {
				return fmt.Errorf("conditions %+v", row.Status.Conditions)
			}
			return nil
		})
	}
}

func TestOthersWaitForTheSameFault(t *testing.T) {
	startManager(t, testOptions())
	p := newProject(t)
	server := sampletools.NewMCPServer()
	p.mcpTool("search", serveTool(t, server), "search")
	server.Hang()
	var jobs []*v1alpha1.DiagnosisJob
	for _, user := range []string{"alice", "bob", "carol"} {
		job := p.job("search", user, status(503))
		p.must(p.user(user).Create(t.Context(), job))
		jobs = append(jobs, job)
	}
	time.Sleep(1100 * time.Millisecond) // Creation times are whole seconds: the verdict has to be later by one.
	server.Heal()
	runs := 0
	for _, job := range jobs {
		job = p.closed(job)
		runs += int(job.Status.Attempts)
		if job.Status.Attempts == 0 && job.Status.CloseReason != v1alpha1.CloseStale {
			t.Errorf("a job that did not run ended as %+v", job.Status)
		}
	}
	if runs != 1 {
		t.Errorf("one outage cost %d runs", runs)
	}
}
