package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// judged waits until an object has a condition with the reason, and returns it.
func (p project) judged(object client.Object, conditions func() []metav1.Condition, kind, reason string) *metav1.Condition {
	p.t.Helper()
	var got *metav1.Condition
	eventually(p.t, fmt.Sprintf("%s of %s to be judged %s", kind, object.GetName(), reason), func() error {
		if err := env.Admin.Get(p.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if got = meta.FindStatusCondition(conditions(), kind); got == nil || got.Reason != reason || got.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("condition %+v", got)
		}
		return nil
	})
	return got
}

func TestAToolSaysWhetherItCanBeProbed(t *testing.T) {
	startManager(t, testOptions())
	for _, tc := range []struct {
		name       string
		change     func(*v1alpha1.Tool)
		secret     *corev1.Secret
		noBinding  bool
		wantReady  string
		wantProbe  string
		wantInText string
	}{
		{name: "a safe tool is ready", change: func(*v1alpha1.Tool) {}, wantReady: v1alpha1.ReasonConfigured, wantProbe: v1alpha1.ReasonSafeProbe},
		{name: "a tool that writes is not probed", change: func(tool *v1alpha1.Tool) { tool.Spec.Safety = v1alpha1.SafetyWrite },
			wantReady: v1alpha1.ReasonConfigured, wantProbe: v1alpha1.ReasonWriteOnly},
		{name: "a tool that writes may have a read-only call", change: func(tool *v1alpha1.Tool) {
			tool.Spec.Safety = v1alpha1.SafetyWrite
			tool.Spec.Probe = &v1alpha1.ToolProbe{ReadOnlyCall: &v1alpha1.ReadOnlyCall{HTTP: &v1alpha1.HTTPReadOnlyCall{Path: "/healthz"}}}
		}, wantReady: v1alpha1.ReasonConfigured, wantProbe: v1alpha1.ReasonReadOnlyCall},
		{name: "diagnosis can be switched off", change: func(tool *v1alpha1.Tool) { tool.Spec.Diagnosis = v1alpha1.DiagnosisDisabled },
			wantReady: v1alpha1.ReasonConfigured, wantProbe: v1alpha1.ReasonDiagnosisDisabled},
		{name: "a missing Secret is named", change: withSystem("nowhere"),
			wantReady: v1alpha1.ReasonCredentialNotFound, wantProbe: v1alpha1.ReasonSafeProbe, wantInText: "nowhere"},
		{name: "a missing RoleBinding is named", change: withSystem("nowhere"), noBinding: true,
			wantReady: v1alpha1.ReasonCredentialNotReadable, wantProbe: v1alpha1.ReasonSafeProbe, wantInText: "RoleBinding"},
		{name: "a Secret of another type is refused", change: withSystem("other"), secret: secretOf("Opaque", "api.example.com"),
			wantReady: v1alpha1.ReasonCredentialNotAllowed, wantProbe: v1alpha1.ReasonSafeProbe, wantInText: "tools.agrajag.dev/system-credential"},
		{name: "a Secret for another host is refused", change: withSystem("other"), secret: secretOf("tools.agrajag.dev/system-credential", "elsewhere.example.com"),
			wantReady: v1alpha1.ReasonCredentialNotAllowed, wantProbe: v1alpha1.ReasonSafeProbe, wantInText: "api.example.com"},
		{name: "a Secret for this host is taken", change: withSystem("other"), secret: secretOf("tools.agrajag.dev/system-credential", "api.example.com"),
			wantReady: v1alpha1.ReasonConfigured, wantProbe: v1alpha1.ReasonSafeProbe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newProjectWith(t, !tc.noBinding)
			if tc.secret != nil {
				secret := tc.secret.DeepCopy()
				secret.Namespace = p.namespace
				p.must(env.Admin.Create(t.Context(), secret))
			}
			tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "search"}, Spec: v1alpha1.ToolSpec{
				Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: "https://api.example.com/v1"}}, Safety: v1alpha1.SafetySafeProbe}}
			tc.change(tool)
			p.must(env.Admin.Create(t.Context(), tool))
			conditions := func() []metav1.Condition { return tool.Status.Conditions }
			ready := p.judged(tool, conditions, v1alpha1.ConditionReady, tc.wantReady)
			if !strings.Contains(ready.Message, tc.wantInText) {
				t.Errorf("Ready says %q, not %q", ready.Message, tc.wantInText)
			}
			p.judged(tool, conditions, v1alpha1.ConditionProbeSafe, tc.wantProbe)
		})
	}
}

func withSystem(name string) func(*v1alpha1.Tool) {
	return func(tool *v1alpha1.Tool) {
		tool.Spec.Credentials = &v1alpha1.ToolCredentials{System: &v1alpha1.SecretName{Name: name}}
	}
}

func secretOf(kind, hosts string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Type: corev1.SecretType(kind), StringData: map[string]string{"token": "t", "hosts": hosts}}
}

func TestOfTwoToolsWithOneNameTheOldestCounts(t *testing.T) {
	startManager(t, testOptions())
	p := newProject(t)
	var tools []*v1alpha1.Tool
	for _, name := range []string{"first", "second"} {
		tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}, Spec: v1alpha1.ToolSpec{ToolName: "search"}}
		p.must(env.Admin.Create(t.Context(), tool))
		tools = append(tools, tool)
	}
	conditions := func() []metav1.Condition { return tools[1].Status.Conditions }
	p.judged(tools[1], conditions, v1alpha1.ConditionReady, v1alpha1.ReasonDuplicateToolName)
	p.must(env.Admin.Delete(t.Context(), tools[0]))
	p.judged(tools[1], conditions, v1alpha1.ConditionReady, v1alpha1.ReasonConfigured)
}

func TestAProjectsRulesBeatItsTenantsAndOneBadEntryStopsNoOther(t *testing.T) {
	tenant, p := newProject(t), project{t: t, namespace: fmt.Sprintf("project-of-a-tenant-%d", projects.Add(1))}
	p.must(env.Namespace(t.Context(), p.namespace, tenant.namespace))
	alice := p.user("alice")
	set := func(in project, name string, patterns ...v1alpha1.ErrorPattern) *v1alpha1.ErrorPatternSet {
		s := &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: name}, Spec: v1alpha1.ErrorPatternSetSpec{Patterns: patterns}}
		p.must(env.Admin.Create(t.Context(), s))
		return s
	}
	pattern := func(id, code string, class v1alpha1.Classification) v1alpha1.ErrorPattern {
		return v1alpha1.ErrorPattern{ID: v1alpha1.PatternID(id), Match: v1alpha1.ErrorMatch{ErrorCode: code}, Signature: v1alpha1.ErrorSignature(id), Classification: class}
	}
	set(tenant, "tenant", pattern("tenants-own", "E1", v1alpha1.UserInput), pattern("shared", "E2", v1alpha1.UserInput))
	own := set(p, "own", pattern("shared", "E2", v1alpha1.UserPermission), pattern("shared", "E3", v1alpha1.UserInput))
	startManager(t, testOptions()) // Only now: it would have refused the duplicate.
	accepted := p.judged(own, func() []metav1.Condition { return own.Status.Conditions }, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidEntries)
	if !strings.Contains(accepted.Message, "spec.patterns[1]") || own.Status.Entries == nil || *own.Status.Entries != 1 {
		t.Errorf("the duplicate entry is told as %q, %v in force", accepted.Message, own.Status.Entries)
	}
	for code, want := range map[string]string{"E1": "USER_INPUT", "E2": "USER_PERMISSION"} {
		eventually(t, "error "+code+" to be "+want, func() error {
			if got := cause(p.answer(alice, p.job("search-"+strings.ToLower(code), "alice", v1alpha1.ToolError{ErrorCode: code})), "Classification"); got != want {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
	}
}

// TestASetSaysWhichOfItsEntriesAreNeverReached: also where what stands before them is changed elsewhere.
func TestASetSaysWhichOfItsEntriesAreNeverReached(t *testing.T) {
	startManager(t, testOptions())
	tenant, p := newProject(t), project{t: t, namespace: fmt.Sprintf("project-with-shadows-%d", projects.Add(1))}
	p.must(env.Namespace(t.Context(), p.namespace, tenant.namespace))
	pattern := func(id, body string) v1alpha1.ErrorPattern {
		return v1alpha1.ErrorPattern{ID: v1alpha1.PatternID(id), Match: v1alpha1.ErrorMatch{BodyContains: []v1alpha1.Substring{v1alpha1.Substring(body)}},
			Signature: v1alpha1.ErrorSignature(id), Classification: v1alpha1.UserInput}
	}
	own := &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "own"},
		Spec: v1alpha1.ErrorPatternSetSpec{Patterns: []v1alpha1.ErrorPattern{pattern("gadget", "gadget E17"), pattern("widget", "widget E18")}}}
	p.must(env.Admin.Create(t.Context(), own))
	conditions := func() []metav1.Condition { return own.Status.Conditions }
	p.judged(own, conditions, v1alpha1.ConditionReachable, v1alpha1.ReasonReachable)

	wide := &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.namespace, Name: "wide"},
		Spec: v1alpha1.ErrorPatternSetSpec{Patterns: []v1alpha1.ErrorPattern{pattern("all-widgets", "WIDGET")}}}
	p.must(env.Admin.Create(t.Context(), wide))
	shadowed := p.judged(own, conditions, v1alpha1.ConditionReachable, v1alpha1.ReasonShadowed)
	want := fmt.Sprintf(`spec.patterns[1] ("widget"): is never reached: "all-widgets" (%s/wide spec.patterns[0]) stands before it and matches all that it matches`, tenant.namespace)
	if shadowed.Message != want {
		t.Errorf("told: %s\nwant: %s", shadowed.Message, want)
	}
	p.judged(own, conditions, v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted) // It is in force all the same.

	p.must(env.Admin.Delete(t.Context(), wide))
	p.judged(own, conditions, v1alpha1.ConditionReachable, v1alpha1.ReasonReachable)
}

func TestARecipeSaysWhatOfItIsInForce(t *testing.T) {
	startManager(t, testOptions())
	tenant, p := newProject(t), project{t: t, namespace: fmt.Sprintf("recipe-of-a-project-%d", projects.Add(1))}
	p.must(env.Namespace(t.Context(), p.namespace, tenant.namespace))
	zero := int32(0)
	for _, in := range []struct {
		project
		want string
	}{{tenant, v1alpha1.ReasonAccepted}, {p, v1alpha1.ReasonAINotAllowed}} {
		recipe := &v1alpha1.DiagnosisRecipe{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: v1alpha1.RecipeName}, Spec: v1alpha1.DiagnosisRecipeSpec{
			MaxProbes: &zero, AI: &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"m"}, Endpoint: "http://169.254.169.254/v1"}}}
		p.must(env.Admin.Create(t.Context(), recipe))
		p.judged(recipe, func() []metav1.Condition { return recipe.Status.Conditions }, v1alpha1.ConditionAccepted, in.want)
	}
	// The tenant's model counts for its project, and its endpoint passes the guard that probes pass.
	job := p.job("search", "", status(500))
	p.must(p.user("alice").Create(t.Context(), job))
	if job = p.closed(job); !meta.IsStatusConditionTrue(job.Status.Conditions, "Stalled") || job.Status.Decision.Action != v1alpha1.RunTerminate ||
		!strings.Contains(job.Status.Decision.Message, "169.254.169.254") {
		t.Errorf("the job ended as %+v", job.Status)
	}
}

func TestARowElsewhereIsIgnored(t *testing.T) {
	startManager(t, testOptions())
	p := newProject(t)
	for _, tc := range []struct {
		name, tool, id string
		scope          v1alpha1.Scope
		want           string
	}{
		{"search", "search", p.namespace, v1alpha1.ScopeProject, v1alpha1.ReasonAccepted},
		{"elsewhere", "elsewhere", "another-project", v1alpha1.ScopeProject, v1alpha1.ReasonWrongNamespace},
		{"everywhere", "everywhere", "", v1alpha1.ScopeGlobal, v1alpha1.ReasonWrongNamespace},
		{"misnamed", "other", p.namespace, v1alpha1.ScopeProject, v1alpha1.ReasonWrongName},
	} {
		row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: tc.name},
			Spec: v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(tc.tool), Scope: tc.scope, ScopeID: tc.id}}
		p.must(env.Admin.Create(t.Context(), row))
		p.judged(row, func() []metav1.Condition { return row.Status.Conditions }, v1alpha1.ConditionAccepted, tc.want)
	}
}

// Two managers share the webhooks' work, one of them leads.
func TestTwoReplicas(t *testing.T) {
	first := testOptions()
	first.leaderElect, first.healthAddress = true, freeAddress(t)
	stop := startManager(t, first)
	second := first
	second.healthAddress, second.webhookPort = freeAddress(t), freePort(t)
	standby, _ := replica(t, second, nil)
	for _, address := range []string{first.healthAddress, second.healthAddress} {
		for _, path := range []string{"/healthz", "/readyz"} {
			eventually(t, address+path, func() error { return get("http://" + address + path) })
		}
	}
	select {
	case <-standby.Elected():
		t.Fatal("two managers lead at once")
	case <-time.After(time.Second):
	}
	p := newProject(t)
	server := sampletools.NewMCPServer()
	p.mcpTool("search", serveTool(t, server), "search")
	server.Hang()
	job := p.job("search", "", status(503))
	p.must(p.user("alice").Create(t.Context(), job))
	eventually(t, "the first manager to run the job", func() error {
		if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || job.Status.Holder == "" {
			return fmt.Errorf("phase %s: %w", job.Status.Phase, err)
		}
		return nil
	})
	holder := job.Status.Holder
	stop()
	server.Heal()
	if job = p.closed(job); job.Status.Holder == holder || job.Status.Attempts != 2 || job.Status.CloseReason != v1alpha1.CloseDone {
		t.Errorf("after the leader was lost the job ended as %+v", job.Status)
	}
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// freePort returns a port on which nothing listens.
func freePort(t testing.TB) int {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// get asks for a page and wants 200.
func get(url string) error {
	response, err := http.Get(url) //nolint:noctx // A test's own server.
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*options)
		want   string
	}{
		{"a CIDR that is none", func(o *options) { o.probeAllow = "127.0.0.0/99" }, "--probe-allow"},
		{"a denied CIDR that is none", func(o *options) { o.probeDeny = "10.0.0.0/8,kubernetes" }, "--probe-deny: \"kubernetes\""},
		{"no workers", func(o *options) { o.diagnosisWorkers = 0 }, "--diagnosis-workers must be from 1 to 128"},
		{"more workers than memory allows for", func(o *options) { o.diagnosisWorkers = 129 }, "--diagnosis-workers must be from 1 to 128"},
		{"a negative window", func(o *options) { o.freshnessWindow = -1 }, "--freshness-window"},
		{"a model behind no address", func(o *options) { o.models, o.modelEndpoint = "m", "models" }, "--model-endpoint"},
		{"jobs that go before they are of use", func(o *options) { o.jobTTL = time.Second }, "--job-ttl"},
		{"a wait of more than a day", func(o *options) { o.maxWait = 25 * time.Hour }, "--max-wait must be from 1m to 24h"},
		{"a budget below nothing", func(o *options) { o.budgets.All = -1 }, "--daily-token-budget must be from 0"},
		{"a tenant's budget that sums cannot hold", func(o *options) { o.budgets.PerTenant = 1 << 62 }, "--daily-token-budget-per-tenant must be from 0"},
		{"a limit below nothing", func(o *options) { o.perRow = -1 }, "--diagnoses-per-row-per-hour must be from 0"},
		{"jobs that go before they are counted", func(o *options) { o.jobTTL = 59 * time.Minute }, "--job-ttl must be at least 1h"},
		{"no namespace", func(o *options) { o.namespace = "" }, "--namespace"},
		{"no rows", func(o *options) { o.maxRows = 0 }, "--max-rows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions()
			tc.change(&o)
			if err := o.validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to name %s", err, tc.want)
			}
		})
	}
	o := testOptions()
	o.diagnosisWorkers = maxWorkers
	if err := o.validate(); err != nil {
		t.Errorf("good settings are refused: %v", err)
	}
}
