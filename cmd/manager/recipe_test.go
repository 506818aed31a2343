package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// recipe creates the project's recipe with a model.
func (p project) recipe(ai v1alpha1.RecipeAI) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &v1alpha1.DiagnosisRecipe{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: v1alpha1.RecipeName},
		Spec: v1alpha1.DiagnosisRecipeSpec{AI: &ai}}))
}

// modelKey creates the Secret with a model's key.
func (p project) modelKey(name, key, endpoint string) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Type: "tools.agrajag.dev/model-credential", StringData: map[string]string{"apiKey": key, "endpoint": endpoint}}))
}

// asked returns the models that a server was asked for, each with the key that came along.
func asked(servers ...*scripted.Server) []string {
	var list []string
	for _, server := range servers {
		for _, r := range server.Requests() {
			list = append(list, r.Model+" "+r.Authorization)
		}
	}
	return list
}

// The model is the tenant's, whole, or the operator's, whole; a project of a tenant has no say, and nothing is mixed.
func TestWhoseModelDiagnoses(t *testing.T) {
	operators, projects := instant(), instant()
	tenants := scripted.New(scripted.Step{Status: http.StatusNotFound, Text: "no such model"}, concludes(v1alpha1.Unclear, llm.Usage{Prompt: 1500, Completion: 50}))
	operatorsURL, tenantsURL, projectsURL := serveTool(t, operators), serveTool(t, tenants), serveTool(t, projects)
	o := testOptions()
	o.models, o.modelEndpoint = "operators-model", operatorsURL
	startManager(t, o)
	for _, tc := range []struct {
		name      string
		tenant    *v1alpha1.RecipeAI
		key       string // the endpoint of the tenant's key
		wantOf    []*scripted.Server
		want      []string
		wantAnd   string // in the job's message
		wantStale bool
	}{
		{name: "the tenant's models in order, with the tenant's key", key: tenantsURL, wantOf: []*scripted.Server{tenants},
			tenant: &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"gone", "there"}, Endpoint: v1alpha1.URL(tenantsURL), Credential: &v1alpha1.SecretName{Name: "key"}},
			want:   []string{"gone Bearer key-of-the-tenant", "there Bearer key-of-the-tenant"}},
		{name: "without one the operator's, and no key of the tenant goes there", key: tenantsURL, wantOf: []*scripted.Server{operators}, want: []string{"operators-model "}},
		{name: "a key for another endpoint stays where it is", key: "https://elsewhere.example/v1", wantStale: true, wantAnd: "another endpoint",
			tenant: &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"there"}, Endpoint: v1alpha1.URL(tenantsURL), Credential: &v1alpha1.SecretName{Name: "key"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tenant := newProject(t)
			p := newProjectOf(t, tenant)
			tenant.modelKey("key", "key-of-the-tenant", tc.key)
			if tc.tenant != nil {
				tenant.recipe(*tc.tenant)
			}
			p.modelKey("key", "key-of-the-project", projectsURL)
			p.recipe(v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"projects-model"}, Endpoint: v1alpha1.URL(projectsURL), Credential: &v1alpha1.SecretName{Name: "key"}})
			before := asked(operators, tenants, projects)
			job := p.job("search", "", status(500))
			p.must(p.user("alice").Create(t.Context(), job))
			job = p.closed(job)
			if diff := cmp.Diff(tc.want, asked(tc.wantOf...)); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if all := asked(operators, tenants, projects); len(all) != len(before)+len(tc.want) || slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "project") }) {
				t.Errorf("asked in all: %q, before: %q", all, before)
			}
			end := complete(job)
			if (job.Status.CloseReason == v1alpha1.CloseStale) != tc.wantStale || !strings.Contains(end.Message, tc.wantAnd) {
				t.Errorf("closed as %+v", end)
			}
		})
	}
}
