package v1alpha1_test

import (
	"context"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// sample reads the objects of a file in config/samples.
func sample(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(testenv.Path("config", "samples", file))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := testenv.Objects(data)
	if err != nil || len(objects) == 0 {
		t.Fatalf("%s holds no object: %v", file, err)
	}
	return objects
}

// sampleOf reads the only object of a file in config/samples.
func sampleOf[T any](t *testing.T, file string) *T {
	t.Helper()
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(sample(t, file)[0].Object, object, true); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

// user returns a client of an ordinary user who has a role in a namespace.
func user(t *testing.T, name, ns, role string) client.Client {
	t.Helper()
	if err := env.Bind(t.Context(), ns, role, name); err != nil {
		t.Fatal(err)
	}
	return clientOf(t, name)
}

func clientOf(t *testing.T, name string) client.Client {
	t.Helper()
	config, err := env.User(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// TestSamplesAreAcceptedAndKept applies each sample as somebody who may do no more than is needed. What comes back is
// what was sent, and besides it the defaults that the field's description names.
func TestSamplesAreAcceptedAndKept(t *testing.T) {
	ns := namespace(t, "shop")
	editor, reporter := user(t, "edith", ns, "agrajag-editor"), user(t, "alice", ns, "agrajag-reporter")
	cases := map[string]struct {
		as           client.Client
		wantDefaults map[string]any
	}{
		"tool.yaml":            {editor, map[string]any{"spec.diagnosis": "Enabled"}},
		"toolhealth.yaml":      {editor, map[string]any{"spec.override.by": "edith"}},
		"errorpatternset.yaml": {editor, map[string]any{}},
		"diagnosisrecipe.yaml": {editor, map[string]any{}},
		"diagnosisjob.yaml":    {reporter, map[string]any{"spec.reporter": "alice", "status.phase": "INIT"}},
	}
	for file, tc := range cases {
		t.Run(file, func(t *testing.T) {
			sent := sample(t, file)[0]
			checkStored(t, tc.as, ns, sent, tc.wantDefaults)
		})
	}
}

// TestDefaults sends as little as each kind allows.
func TestDefaults(t *testing.T) {
	ns := namespace(t, "defaults")
	editor, reporter := user(t, "erik", ns, "agrajag-editor"), user(t, "rita", ns, "agrajag-reporter")
	pattern := map[string]any{"id": "a", "match": map[string]any{}, "signature": "a", "classification": "UNCLEAR"}
	cases := map[string]struct {
		kind         string
		as           client.Client
		spec         map[string]any
		wantDefaults map[string]any
	}{
		"a tool of which only the name is known": {"Tool", editor, map[string]any{},
			map[string]any{"spec.safety": "WRITE", "spec.diagnosis": "Enabled"}},
		"a tool with an empty part of each kind": {"Tool", editor, map[string]any{
			"endpoint": map[string]any{"http": map[string]any{"url": "https://a.example.com"}},
			"probe":    map[string]any{"readOnlyCall": map[string]any{"http": map[string]any{"path": "/"}}}, "credentials": map[string]any{},
		}, map[string]any{
			"spec.safety": "WRITE", "spec.diagnosis": "Enabled", "spec.endpoint.http.method": "GET", "spec.probe.timeoutSeconds": int64(10),
			"spec.probe.readOnlyCall.http.method": "GET", "spec.credentials.scheme": "Bearer", "spec.credentials.header": "Authorization",
		}},
		"a row for everybody": {"ToolHealth", editor, map[string]any{"toolName": "a", "scope": "GLOBAL"},
			map[string]any{"spec.scopeId": ""}},
		"a rule": {"ErrorPatternSet", editor, map[string]any{"patterns": []any{pattern}}, map[string]any{}},
		"a report": {"DiagnosisJob", reporter, map[string]any{"toolName": "a", "error": map[string]any{"httpStatus": int64(500)}},
			map[string]any{"spec.scope": "PROJECT", "spec.trigger": "tool_call_error", "spec.reporter": "rita", "status.phase": "INIT"}},
		"a recipe": {"DiagnosisRecipe", editor, map[string]any{}, map[string]any{
			"spec.maxProbes": int64(3), "spec.maxIterations": int64(3), "spec.tokenTarget": int64(20000), "spec.tokenCeiling": int64(60000),
			"spec.activeDeadlineSeconds": int64(120), "spec.maxScope": "GLOBAL",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sent := &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}
			sent.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(tc.kind))
			sent.SetName("default")
			if tc.kind == "Tool" {
				sent.SetName(strings.ReplaceAll(name, " ", "-"))
			}
			checkStored(t, tc.as, ns, sent, tc.wantDefaults)
		})
	}
}

// checkStored creates an object and demands that what is stored is what was sent and some defaults.
func checkStored(t *testing.T, c client.Client, ns string, sent *unstructured.Unstructured, wantDefaults map[string]any) {
	t.Helper()
	created := sent.DeepCopy()
	created.SetNamespace(ns)
	if err := c.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(sent.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(created), stored); err != nil {
		t.Fatal(err)
	}
	want, got := leaves(sent), leaves(stored)
	maps.Copy(want, wantDefaults)
	for path := range wantDefaults { // What was sent empty is no leaf any more once it has a default.
		for i := range path {
			if m, ok := want[path[:i]].(map[string]any); ok && len(m) == 0 {
				delete(want, path[:i])
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (+) and expected (-) differ:\n%s", diff)
	}
}

// leaves lists what stands in spec and status, by path.
func leaves(object *unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			for key, v := range m {
				walk(path+"."+key, v)
			}
			return
		}
		found[path] = value
	}
	for _, part := range []string{"spec", "status"} {
		if value, ok := object.Object[part]; ok {
			walk(part, value)
		}
	}
	return found
}

// TestReportersMayNotWriteHealth keeps the roles apart: whoever reports errors cannot pin a tool's health.
func TestReportersMayNotWriteHealth(t *testing.T) {
	ns := namespace(t, "office")
	reporter := user(t, "roland", ns, "agrajag-reporter")
	for _, file := range []string{"tool.yaml", "toolhealth.yaml", "errorpatternset.yaml", "diagnosisrecipe.yaml"} {
		object := sample(t, file)[0]
		object.SetNamespace(ns)
		if err := reporter.Create(t.Context(), object, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s: answered %v instead of forbidden", file, err)
		}
	}
}

// TestSampleRowHasTheNameOfItsIdentity keeps the manager from ignoring the sample.
func TestSampleRowHasTheNameOfItsIdentity(t *testing.T) {
	row := sampleOf[v1alpha1.ToolHealth](t, "toolhealth.yaml")
	if want := tenancy.RowName(row.Spec.Scope, row.Spec.ScopeID, string(row.Spec.ToolName)); row.Name != want {
		t.Errorf("it is named %s instead of %s", row.Name, want)
	}
}

// TestSampleRulesDecideWhatTheySay puts the sample over the bundled rules and classifies an error for each.
func TestSampleRulesDecideWhatTheySay(t *testing.T) {
	layer := classify.Layer{Name: "project"}
	for _, pattern := range sampleOf[v1alpha1.ErrorPatternSet](t, "errorpatternset.yaml").Spec.Patterns {
		layer.Entries = append(layer.Entries, classify.Entry{Pattern: pattern})
	}
	rules, problems := classify.Compile(classify.Bundled(), layer)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	now := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	status := func(s int32) *int32 { return &s }
	cases := map[string]struct {
		error          v1alpha1.ToolError
		wantRule       v1alpha1.PatternID
		wantClass      v1alpha1.Classification
		wantWaitAtMost time.Duration
	}{
		"an auth error in the body of a success": {v1alpha1.ToolError{HTTPStatus: status(200), Body: `{"shop":{"fault":"SESSION_OVER"}}`},
			"shop-auth-error-in-body", v1alpha1.UserSpecificTechnical, 15 * time.Minute},
		"a closed account, before the bundled 401": {v1alpha1.ToolError{HTTPStatus: status(401), Body: `{"code":"ACCOUNT_CLOSED"}`},
			"shop-401-account-closed", v1alpha1.UserPermission, 24 * time.Hour},
		"stocktaking with a stated wait": {v1alpha1.ToolError{HTTPStatus: status(503), Body: "Closed for stocktaking",
			Headers: map[string]v1alpha1.HeaderValue{"Retry-After": "90"}}, "shop-stocktaking", v1alpha1.Intermittent, 90 * time.Second},
		"another 503":            {v1alpha1.ToolError{HTTPStatus: status(503)}, "http-5xx", v1alpha1.Unclear, -1},
		"a replaced rule":        {v1alpha1.ToolError{HTTPStatus: status(404)}, "http-404-endpoint", v1alpha1.UserInput, 30 * time.Second},
		"a code of the backend":  {v1alpha1.ToolError{ErrorCode: "E_BACKEND"}, "shop-backend-code", v1alpha1.Unclear, -1},
		"the sample of a report": {*sampleOf[v1alpha1.DiagnosisJob](t, "diagnosisjob.yaml").Spec.Error, "http-5xx", v1alpha1.Unclear, -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := rules.Classify(classify.Call{Tool: "orders"}, &tc.error, now)
			if got.RuleID != string(tc.wantRule) || got.Class != tc.wantClass {
				t.Errorf("rule %s says %s, want rule %s to say %s", got.RuleID, got.Class, tc.wantRule, tc.wantClass)
			}
			if tc.wantWaitAtMost >= 0 && got.Wait != tc.wantWaitAtMost {
				t.Errorf("wait %s, want %s", got.Wait, tc.wantWaitAtMost)
			}
		})
	}
}

// TestSampleCredentialsAreFound reads the sample's Secrets as the manager does, with the rights that the sample gives.
func TestSampleCredentialsAreFound(t *testing.T) {
	ns := namespace(t, "credentials")
	manager := clientOf(t, testenv.ManagerUser)
	if err := manager.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "any"}, secret()); !apierrors.IsForbidden(err) {
		t.Errorf("before the binding: answered %v instead of forbidden", err)
	}
	for _, object := range sample(t, "credential-access.yaml") {
		object.SetNamespace(ns)
		if err := env.Admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	awaitReadable(t, manager, ns)
	credentials := probe.Credentials{Reader: manager}
	tool := sampleOf[v1alpha1.Tool](t, "tool.yaml")
	target, err := probe.TargetOf(tool)
	if err != nil {
		t.Fatalf("the sample's Tool cannot be probed: %v", err)
	}
	read := map[string]func() (*probe.Credential, error){
		"example-token-of-alice-for-orders": func() (*probe.Credential, error) {
			return credentials.User(t.Context(), ns, "alice", tool.CalledAs())
		},
		"example-token-of-alice": func() (*probe.Credential, error) { return credentials.User(t.Context(), ns, "alice", "weather") },
		"example-token-of-the-system": func() (*probe.Credential, error) {
			return credentials.System(t.Context(), ns, tool.Spec.Credentials.System.Name)
		},
	}
	for _, want := range slices.Sorted(maps.Keys(read)) {
		got, err := read[want]()
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got.Token != want {
			t.Errorf("the token is %q instead of %q", got.Token, want)
		}
		if err := got.Check(target); err != nil {
			t.Errorf("%s may not go to the sample's Tool: %v", want, err)
		}
	}
	ai := sampleOf[v1alpha1.DiagnosisRecipe](t, "diagnosisrecipe.yaml").Spec.AI
	key, endpoint, err := credentials.Model(t.Context(), ns, ai.Credential.Name)
	if err != nil || key != "example-key-of-a-model" || endpoint != string(ai.Endpoint) {
		t.Errorf("the model's credential is %q for %q: %v", key, endpoint, err)
	}
	if err := manager.List(t.Context(), secrets(), client.InNamespace(ns)); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: answered %v instead of forbidden", err)
	}
}

// awaitReadable waits until the API server has taken up the RoleBinding.
func awaitReadable(t *testing.T, c client.Client, ns string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "any"}, secret())
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("Secrets are not readable: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestSamplesAreWhole keeps a sample for each kind, and fake hosts in all of them.
func TestSamplesAreWhole(t *testing.T) {
	files, err := filepath.Glob(testenv.Path("config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, file := range files {
		for _, object := range sample(t, filepath.Base(file)) {
			got[object.GetKind()]++
			for path, value := range leaves(object) {
				u, err := url.Parse(strings.TrimSpace(toString(value)))
				if err == nil && u.Host != "" && !strings.HasSuffix(u.Hostname(), ".example.com") {
					t.Errorf("%s: %s names a real host: %s", filepath.Base(file), path, u.Host)
				}
			}
		}
	}
	want := map[string]int{"Tool": 1, "ToolHealth": 1, "ErrorPatternSet": 1, "DiagnosisJob": 1, "DiagnosisRecipe": 1, "RoleBinding": 1, "Secret": 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func toString(value any) string {
	s, _ := value.(string)
	return s
}

func secret() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
}

func secrets() *metav1.PartialObjectMetadataList {
	return &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}}
}
