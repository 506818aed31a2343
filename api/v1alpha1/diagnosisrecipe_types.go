package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RecipeName is the only name that a DiagnosisRecipe may have.
const RecipeName = "default"

// DiagnosisRecipeSpec bounds diagnoses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tokenTarget) || !has(self.tokenCeiling) || self.tokenTarget <= self.tokenCeiling",message="tokenTarget (default 20000) must not be above tokenCeiling (default 60000): set both",fieldPath=".tokenTarget"
type DiagnosisRecipeSpec struct {
	// maxProbes bounds the probes of one diagnosis.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=6
	MaxProbes *int32 `json:"maxProbes,omitempty"`

	// maxIterations bounds the turns in which the model may ask for tools; up to two closing turns may follow.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// tokenTarget is what a diagnosis should cost at most, in tokens; a job that cost more says so by its condition
	// WithinTokenTarget.
	// +optional
	// +kubebuilder:default=20000
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=1000000
	TokenTarget *int64 `json:"tokenTarget,omitempty"`

	// tokenCeiling is what a diagnosis may cost at most, in tokens. No call is made that could cost more than is left, at
	// worst. The first may cost 3000, with a long error report 10000, with many headers and long histories besides up to 36000.
	// Where it does not fit nothing is asked, and no state is written.
	// +optional
	// +kubebuilder:default=60000
	// +kubebuilder:validation:Minimum=10000
	// +kubebuilder:validation:Maximum=1000000
	TokenCeiling *int64 `json:"tokenCeiling,omitempty"`

	// activeDeadlineSeconds bounds the time of one diagnosis.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=900
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// maxScope is the widest scope that a diagnosis may write.
	// +optional
	// +kubebuilder:default=GLOBAL
	MaxScope Scope `json:"maxScope,omitempty"`

	// ai says which model diagnoses. Only a tenant's own recipe may say so; a project's is ignored.
	// +optional
	AI *RecipeAI `json:"ai,omitempty"`
}

// RecipeAI is a model behind an OpenAI-compatible endpoint, taken whole: no part of it is mixed with
// another recipe's or with the operator's.
type RecipeAI struct {
	// models are tried in order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Models []ModelName `json:"models"`

	// endpoint is the base URL of the API, as in https://api.example.com/v1.
	// +required
	Endpoint URL `json:"endpoint"`

	// credential names the Secret of type tools.agrajag.dev/model-credential with apiKey and endpoint. Without
	// it the endpoint is asked without a key.
	// +optional
	Credential *SecretName `json:"credential,omitempty"`
}

// ModelName names a model as its endpoint does.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type ModelName string

// DiagnosisRecipeStatus says whether the recipe is in force.
type DiagnosisRecipeStatus struct {
	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions hold Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DiagnosisRecipe bounds what diagnoses in a project, or in every project of a tenant, may do and cost. It is
// always named default. Limits come from the project's, else from the tenant's, else they are built in.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dr,categories=agrajag
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a DiagnosisRecipe is always named default: a namespace has one"
// +kubebuilder:printcolumn:name="Max-Probes",type=integer,JSONPath=`.spec.maxProbes`
// +kubebuilder:printcolumn:name="Token-Ceiling",type=integer,JSONPath=`.spec.tokenCeiling`
// +kubebuilder:printcolumn:name="Max-Scope",type=string,JSONPath=`.spec.maxScope`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.ai.models[0]`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DiagnosisRecipe struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the limits.
	// +required
	Spec DiagnosisRecipeSpec `json:"spec"`

	// status says whether they are in force.
	// +optional
	Status DiagnosisRecipeStatus `json:"status,omitempty"`
}

// DiagnosisRecipeList is a list of DiagnosisRecipes.
//
// +kubebuilder:object:root=true
type DiagnosisRecipeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DiagnosisRecipe `json:"items"`
}
