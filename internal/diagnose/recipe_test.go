package diagnose

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

func recipe(namespace string, spec v1alpha1.DiagnosisRecipeSpec) *v1alpha1.DiagnosisRecipe {
	return &v1alpha1.DiagnosisRecipe{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.RecipeName}, Spec: spec}
}

func TestResolveRecipe(t *testing.T) {
	alone := tenancy.Place{Project: "essays", Tenant: "essays", Operator: "agrajag-system"}
	model := &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"big", "small"}, Endpoint: "https://models.example/v1", Credential: &v1alpha1.SecretName{Name: "key"}}
	other := &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"own"}, Endpoint: "http://other.example"}
	changed := func(change func(*Limits)) Limits {
		limits := DefaultLimits()
		change(&limits)
		return limits
	}
	tests := []struct {
		name            string
		place           tenancy.Place
		project, tenant *v1alpha1.DiagnosisRecipe
		wantLimits      Limits
		wantAI          *AI
	}{
		{name: "no recipe: all is built in, the model is the operator's", place: place, wantLimits: DefaultLimits()},
		{
			name: "the project's limits and the tenant's model", place: place,
			project: recipe("essays", v1alpha1.DiagnosisRecipeSpec{MaxProbes: ptr.To[int32](1), MaxIterations: ptr.To[int32](2), TokenTarget: ptr.To[int64](2000),
				TokenCeiling: ptr.To[int64](13_000), ActiveDeadlineSeconds: ptr.To[int32](7), MaxScope: v1alpha1.ScopeUser}),
			tenant:     recipe("acme", v1alpha1.DiagnosisRecipeSpec{MaxProbes: ptr.To[int32](6), AI: model}),
			wantLimits: Limits{MaxProbes: 1, MaxIterations: 2, TokenTarget: 2000, TokenCeiling: 13_000, Deadline: 7 * time.Second, MaxScope: v1alpha1.ScopeUser},
			wantAI:     &AI{Endpoint: "https://models.example/v1", Models: []string{"big", "small"}, Credential: "key", Namespace: "acme"},
		},
		{
			name: "the tenant's limits where the project has none; its model belongs to its namespace, without a key if it names none", place: place,
			tenant:     recipe("acme", v1alpha1.DiagnosisRecipeSpec{MaxProbes: ptr.To[int32](0), AI: other}),
			wantLimits: changed(func(l *Limits) { l.MaxProbes = 0 }),
			wantAI:     &AI{Endpoint: "http://other.example", Models: []string{"own"}, Namespace: "acme"},
		},
		{
			name: "a project's model is ignored where it belongs to a tenant", place: place,
			project: recipe("essays", v1alpha1.DiagnosisRecipeSpec{AI: other}), tenant: recipe("acme", v1alpha1.DiagnosisRecipeSpec{}),
			wantLimits: DefaultLimits(),
		},
		{
			name: "nothing of a project's model is mixed into the tenant's", place: place,
			project:    recipe("essays", v1alpha1.DiagnosisRecipeSpec{AI: model}),
			tenant:     recipe("acme", v1alpha1.DiagnosisRecipeSpec{AI: other}),
			wantLimits: DefaultLimits(),
			wantAI:     &AI{Endpoint: "http://other.example", Models: []string{"own"}, Namespace: "acme"},
		},
		{
			name: "a project without a tenant is its own tenant", place: alone,
			project: recipe("essays", v1alpha1.DiagnosisRecipeSpec{MaxProbes: ptr.To[int32](2), AI: other}), wantLimits: changed(func(l *Limits) { l.MaxProbes = 2 }),
			wantAI: &AI{Endpoint: "http://other.example", Models: []string{"own"}, Namespace: "essays"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			limits, ai, err := ResolveRecipe(tc.place, tc.project, tc.tenant)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantLimits, limits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAI, ai); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABrokenRecipeMeansNoDiagnosis(t *testing.T) {
	ai := func(models int, endpoint v1alpha1.URL, secret *v1alpha1.SecretName) v1alpha1.DiagnosisRecipeSpec {
		return v1alpha1.DiagnosisRecipeSpec{AI: &v1alpha1.RecipeAI{Models: make([]v1alpha1.ModelName, models), Endpoint: endpoint, Credential: secret}}
	}
	tests := []struct {
		name string
		spec v1alpha1.DiagnosisRecipeSpec
		want string
	}{
		{"more probes than the hard cap", v1alpha1.DiagnosisRecipeSpec{MaxProbes: ptr.To[int32](7)}, "spec.maxProbes must be from 0 to 6, not 7"},
		{"no iteration", v1alpha1.DiagnosisRecipeSpec{MaxIterations: ptr.To[int32](0)}, "spec.maxIterations must be from 1 to 6"},
		{"a ceiling of nothing", v1alpha1.DiagnosisRecipeSpec{TokenCeiling: ptr.To[int64](-1)}, "spec.tokenCeiling"},
		{"a ceiling under which no call fits", v1alpha1.DiagnosisRecipeSpec{TokenTarget: ptr.To[int64](1000), TokenCeiling: ptr.To[int64](9999)}, "spec.tokenCeiling must be from 10000"},
		{"a target above the ceiling", v1alpha1.DiagnosisRecipeSpec{TokenTarget: ptr.To[int64](15_000), TokenCeiling: ptr.To[int64](14_000)}, "spec.tokenTarget must not be above"},
		{"no time", v1alpha1.DiagnosisRecipeSpec{ActiveDeadlineSeconds: ptr.To[int32](0)}, "spec.activeDeadlineSeconds"},
		{"a scope that is none", v1alpha1.DiagnosisRecipeSpec{MaxScope: "GALAXY"}, "spec.maxScope must be one of"},
		{"an endpoint that is none", ai(1, "models.example", nil), "spec.ai.endpoint must be an address"},
		{"an endpoint with a password", ai(1, "https://u:hunter2@models.example", nil), "spec.ai.endpoint must be an address"},
		{"no model", ai(0, "https://models.example", nil), "spec.ai.models must list 1 to 4"},
		{"a model without a name", ai(1, "https://models.example", nil), "spec.ai.models[0] must not be empty"},
		{"a Secret without a name", v1alpha1.DiagnosisRecipeSpec{AI: &v1alpha1.RecipeAI{Models: []v1alpha1.ModelName{"m"}, Endpoint: "https://models.example", Credential: &v1alpha1.SecretName{}}}, "spec.ai.credential.name"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			limits, ai, err := ResolveRecipe(place, nil, recipe("acme", tc.spec))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "acme/default") {
				t.Errorf("got error %v, want it to name acme/default and %q", err, tc.want)
			}
			if ai != nil || limits != (Limits{}) || err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a broken recipe gives %+v, %+v, %v", limits, ai, err)
			}
		})
	}
}
