package diagnose

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// maxModels bounds the models of a recipe, as its schema does.
const maxModels = 4

// Bounds of a recipe's token limits, in tokens, as in its schema.
const minTokenTarget, minTokenCeiling, maxTokenLimit = 1000, 10_000, 1_000_000

// errRecipe is what every refused recipe has in common.
var errRecipe = errors.New("the recipe cannot be used")

// AI says which model diagnoses. It is taken whole from one place.
type AI struct {
	// Endpoint is the base URL of an OpenAI-compatible API.
	Endpoint string
	// Models are tried in order.
	Models []string
	// Credential is the Secret with the key; empty: none is sent.
	Credential string
	// Namespace is where that Secret is.
	Namespace string
}

// DefaultLimits are in force where no recipe says otherwise (specification §10 and the defaults of DiagnosisRecipe).
func DefaultLimits() Limits {
	return Limits{MaxProbes: 3, MaxIterations: 3, TokenTarget: 20_000, TokenCeiling: 60_000, Deadline: 120 * time.Second,
		MaxScope: v1alpha1.ScopeGlobal}
}

// ResolveRecipe returns the limits of a project's diagnoses and its model; nil: the operator's. Limits come from the
// project's recipe, else the tenant's, else they are built in; the model only from the tenant's recipe. A project
// without a tenant is its own. project and tenant are the recipes of the two namespaces, nil where there is none. An
// error means that nothing may be diagnosed; its text names the field to be mended.
func ResolveRecipe(place tenancy.Place, project, tenant *v1alpha1.DiagnosisRecipe) (Limits, *AI, error) {
	if !place.HasTenant() {
		if tenant == nil {
			tenant = project
		}
		project = nil
	}
	limits := DefaultLimits()
	source := project
	if source == nil {
		source = tenant
	}
	if source != nil {
		var err error
		if limits, err = limitsOf(source.Spec); err != nil {
			return Limits{}, nil, recipeError(source, err)
		}
	}
	if tenant == nil || tenant.Spec.AI == nil {
		return limits, nil, nil
	}
	ai, err := aiOf(*tenant.Spec.AI)
	if err != nil {
		return Limits{}, nil, recipeError(tenant, err)
	}
	ai.Namespace = place.Tenant
	return limits, ai, nil
}

func recipeError(recipe *v1alpha1.DiagnosisRecipe, err error) error {
	return fmt.Errorf("%w: DiagnosisRecipe %s/%s: %w", errRecipe, recipe.Namespace, recipe.Name, err)
}

// limitsOf reads the limits of a recipe as strictly as its schema does: a recipe may be older than the schema.
func limitsOf(spec v1alpha1.DiagnosisRecipeSpec) (Limits, error) {
	limits := DefaultLimits()
	maxProbes, maxIterations := int64(limits.MaxProbes), int64(limits.MaxIterations)
	seconds := int64(limits.Deadline / time.Second)
	problem := errors.Join(
		within(&maxProbes, "maxProbes", wide(spec.MaxProbes), 0, v1alpha1.MaxProbeAudits),
		within(&maxIterations, "maxIterations", wide(spec.MaxIterations), 1, 6),
		within(&limits.TokenTarget, "tokenTarget", spec.TokenTarget, minTokenTarget, maxTokenLimit),
		within(&limits.TokenCeiling, "tokenCeiling", spec.TokenCeiling, minTokenCeiling, maxTokenLimit),
		within(&seconds, "activeDeadlineSeconds", wide(spec.ActiveDeadlineSeconds), 5, 900),
	)
	limits.MaxProbes, limits.MaxIterations = int(maxProbes), int(maxIterations)
	limits.Deadline = time.Duration(seconds) * time.Second
	if spec.MaxScope != "" {
		limits.MaxScope = spec.MaxScope
	}
	switch {
	case problem != nil:
		return Limits{}, problem
	case limits.TokenTarget > limits.TokenCeiling:
		return Limits{}, fmt.Errorf("spec.tokenTarget must not be above spec.tokenCeiling, but %d is above %d",
			limits.TokenTarget, limits.TokenCeiling)
	case limits.MaxScope.Width() < 0:
		return Limits{}, fmt.Errorf("spec.maxScope must be one of %v, not %q", v1alpha1.Scopes(), limits.MaxScope)
	}
	return limits, nil
}

// within sets target to value, if there is one.
func within(target *int64, field string, value *int64, least, most int64) error {
	if value == nil {
		return nil
	}
	if *value < least || *value > most {
		return fmt.Errorf("spec.%s must be from %d to %d, not %d", field, least, most, *value)
	}
	*target = *value
	return nil
}

func wide(value *int32) *int64 {
	if value == nil {
		return nil
	}
	v := int64(*value)
	return &v
}

func aiOf(spec v1alpha1.RecipeAI) (*AI, error) {
	ai := &AI{Endpoint: string(spec.Endpoint)}
	if u, err := url.Parse(ai.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("spec.ai.endpoint must be an address such as https://models.example.com/v1, without user and password")
	}
	if len(spec.Models) == 0 || len(spec.Models) > maxModels {
		return nil, fmt.Errorf("spec.ai.models must list 1 to %d models, not %d", maxModels, len(spec.Models))
	}
	for i, model := range spec.Models {
		if model == "" {
			return nil, fmt.Errorf("spec.ai.models[%d] must not be empty", i)
		}
		ai.Models = append(ai.Models, string(model))
	}
	if spec.Credential != nil {
		if spec.Credential.Name == "" {
			return nil, errors.New("spec.ai.credential.name must name a Secret")
		}
		ai.Credential = spec.Credential.Name
	}
	return ai, nil
}
