// Package v1alpha1 holds the API of Agrajag: the kinds by which tools, their health, the rules that
// classify their errors and the diagnoses of what the rules cannot decide are read and written.
//
// +kubebuilder:object:generate=true
// +groupName=tools.agrajag.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "tools.agrajag.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Tool{}, &ToolList{},
		&ToolHealth{}, &ToolHealthList{},
		&ErrorPatternSet{}, &ErrorPatternSetList{},
		&DiagnosisJob{}, &DiagnosisJobList{},
		&DiagnosisRecipe{}, &DiagnosisRecipeList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
})

// AddToScheme registers the kinds of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme
