package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

func TestWhatARecipeSaysOfItself(t *testing.T) {
	own, ofTenant := tenancy.Place{Project: "shop", Tenant: "shop"}, tenancy.Place{Project: "shop", Tenant: "acme"}
	ceiling := func(tokens int64) v1alpha1.DiagnosisRecipeSpec {
		return v1alpha1.DiagnosisRecipeSpec{TokenCeiling: &tokens}
	}
	for _, tc := range []struct {
		name       string
		spec       v1alpha1.DiagnosisRecipeSpec
		place      tenancy.Place
		want       metav1.ConditionStatus
		says, lack string
	}{
		{name: "it is in force", place: own, want: metav1.ConditionTrue, says: "in force", lack: "but"},
		{name: "a ceiling that pays for any first call", spec: ceiling(diagnose.WorstFirstCall), place: own, want: metav1.ConditionTrue, says: "in force", lack: "but"},
		{name: "one that does not is in force, with a warning", spec: ceiling(diagnose.WorstFirstCall - 1), place: ofTenant, want: metav1.ConditionTrue,
			says: "spec.tokenCeiling of 35999 may not pay for the first call of a long report with long histories, which may cost 36000"},
		{name: "a model that is the tenant's to choose", spec: v1alpha1.DiagnosisRecipeSpec{AI: &v1alpha1.RecipeAI{}}, place: ofTenant, want: metav1.ConditionFalse, says: "belongs to tenant acme"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := recipeAccepted(&v1alpha1.DiagnosisRecipe{Spec: tc.spec}, tc.place)
			if got.Status != tc.want || !strings.Contains(got.Message, tc.says) || tc.lack != "" && strings.Contains(got.Message, tc.lack) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
