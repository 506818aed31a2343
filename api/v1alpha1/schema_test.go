package v1alpha1_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// definitions reads the generated definitions of our kinds.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(testenv.Path("config", "crd", "tools.agrajag.dev_*.yaml"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%d definitions instead of 5: %v", len(files), err)
	}
	var read []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(crd.Spec.Versions) != 1 {
			t.Fatalf("%s: %d versions instead of 1", file, len(crd.Spec.Versions))
		}
		read = append(read, crd)
	}
	return read
}

// node is one place of a schema: a.b for a property, a[] for the elements of a list, a{} for the values of a map.
type node struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// nodes lists every place of a kind's schema that is ours to write: what Kubernetes gives every object, and the
// conditions that it defines, are left out.
func nodes(crd *apiextensionsv1.CustomResourceDefinition) []node {
	var found []node
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		found = append(found, node{path, s})
		for name, property := range s.Properties {
			switch {
			case path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name):
			case path == "":
				walk(name, property)
			default:
				walk(path+"."+name, property)
			}
		}
		if s.Items != nil && s.Items.Schema != nil && !isConditions(path) {
			walk(path+"[]", *s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			walk(path+"{}", *s.AdditionalProperties.Schema)
		}
	}
	walk("", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	return found
}

// isConditions says whether a place holds a list of metav1.Condition, which Kubernetes bounds, except for the
// type and reason of a condition.
func isConditions(path string) bool { return path == "status.conditions" }

func TestEveryStringListAndMapIsBounded(t *testing.T) {
	for _, crd := range definitions(t) {
		for _, n := range nodes(crd) {
			if problem := unbounded(n); problem != "" {
				t.Errorf("%s: %s: %s", crd.Spec.Names.Kind, n.path, problem)
			}
		}
	}
}

// unbounded says what is missing for a place of the schema not to grow without limit.
func unbounded(n node) string {
	s := n.schema
	switch {
	case s.Type == "string" && s.Format == "date-time": // The format allows nothing long.
	case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0:
		return "a string without maxLength or enum"
	case s.Type == "array" && s.MaxItems == nil:
		return "a list without maxItems"
	case s.Type == "object" && len(s.Properties) == 0 && s.MaxProperties == nil:
		return "a map without maxProperties"
	case s.AdditionalProperties != nil && !hasKeyRule(s):
		return "a map whose keys have no bound: no rule says self.all(name, size(name) <= ...)"
	case s.Type == "" && !s.XIntOrString:
		return "no type"
	// The arguments of a probe have any shape; the manager bounds their size (16 KiB as JSON).
	case s.XPreserveUnknownFields != nil && n.path != "spec.probe.input":
		return "keeps unknown fields"
	}
	return ""
}

// hasKeyRule reports whether a map bounds its keys, for which a schema has no keyword.
func hasKeyRule(s apiextensionsv1.JSONSchemaProps) bool {
	return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool {
		return strings.Contains(r.Rule, "self.all(name, ") && strings.Contains(r.Rule, "size(name) <= ")
	})
}

func TestUnboundedPlacesAreFound(t *testing.T) {
	limit, keeps := int64(8), true
	cases := map[string]struct {
		schema apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"a string":                       {apiextensionsv1.JSONSchemaProps{Type: "string"}, "a string without maxLength or enum"},
		"a string with a pattern alone":  {apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: "^x$"}, "a string without maxLength or enum"},
		"a list":                         {apiextensionsv1.JSONSchemaProps{Type: "array"}, "a list without maxItems"},
		"a map":                          {apiextensionsv1.JSONSchemaProps{Type: "object"}, "a map without maxProperties"},
		"a map of few but endless keys":  {apiextensionsv1.JSONSchemaProps{Type: "object", MaxProperties: &limit, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}}, "a map whose keys have no bound: no rule says self.all(name, size(name) <= ...)"},
		"something that keeps the rest":  {apiextensionsv1.JSONSchemaProps{Type: "object", MaxProperties: &limit, XPreserveUnknownFields: &keeps}, "keeps unknown fields"},
		"a bounded string":               {apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &limit}, ""},
		"a word out of several":          {apiextensionsv1.JSONSchemaProps{Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}}}, ""},
		"a time":                         {apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}, ""},
		"a bounded list":                 {apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: &limit}, ""},
		"an object with properties only": {apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {}}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, unbounded(node{"spec.x", tc.schema})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	for _, crd := range definitions(t) {
		if crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description == "" {
			t.Errorf("%s has no description", crd.Spec.Names.Kind)
		}
		for _, n := range nodes(crd) {
			if !strings.HasSuffix(n.path, "[]") && !strings.HasSuffix(n.path, "{}") && n.schema.Description == "" {
				t.Errorf("%s: %s has no description", crd.Spec.Names.Kind, n.path)
			}
		}
	}
}

func TestNamesAndColumns(t *testing.T) {
	type names struct {
		Plural, Short string
		// Columns always show, Wide only with -o wide.
		Columns, Wide []string
	}
	want := map[string]names{
		"Tool": {"tools", "tl", []string{"Tool", "Safety", "Ready", "Probe-Safe", "Age"}, []string{"Reason"}},
		"ToolHealth": {"toolhealths", "th", []string{"Tool", "Scope", "State", "Classification", "Recovery", "Since", "Age"},
			[]string{"Scope-Id", "Available", "Override", "Hint"}},
		"ErrorPatternSet": {"errorpatternsets", "eps", []string{"Entries", "Accepted", "Age"}, []string{"Message"}},
		"DiagnosisJob": {"diagnosisjobs", "dj", []string{"Tool", "Signature", "Phase", "Result", "Probes", "Age"},
			[]string{"Trigger", "User", "Decision", "Closed"}},
		"DiagnosisRecipe": {"diagnosisrecipes", "dr", []string{"Max-Probes", "Token-Ceiling", "Max-Scope", "Model", "Accepted", "Age"}, nil},
	}
	got := map[string]names{}
	for _, crd := range definitions(t) {
		n := crd.Spec.Names
		kind := names{Plural: n.Plural, Short: strings.Join(n.ShortNames, " ")}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			// kubectl prints <invalid> for a date that lies ahead.
			if column.Type == "date" && !slices.Contains([]string{"Age", "Since"}, column.Name) {
				t.Errorf("%s: column %s is a date, but may lie ahead", n.Kind, column.Name)
			}
			if column.Priority > 0 {
				kind.Wide = append(kind.Wide, column.Name)
			} else {
				kind.Columns = append(kind.Columns, column.Name)
			}
		}
		got[n.Kind] = kind
		if diff := cmp.Diff([]string{"agrajag"}, n.Categories); diff != "" {
			t.Errorf("%s: categories: %s", n.Kind, diff)
		}
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("%s is %s", n.Kind, crd.Spec.Scope)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
