package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rule is one thing that the schema of a kind demands.
type rule struct {
	kind string
	// path is where it stands, as in node.
	path string
	// demand is the schema's keyword, or "rule: " and the message of a CEL rule.
	demand string
}

func (r rule) String() string { return fmt.Sprintf("%s: %s %s", r.kind, r.path, r.demand) }

// rulesOf lists what the schema of a kind demands, and for each rule the path that its refusal names.
func rulesOf(crd *apiextensionsv1.CustomResourceDefinition) map[rule]string {
	found := map[rule]string{}
	for _, n := range nodes(crd) {
		add := func(path, demand string) { found[rule{crd.Spec.Names.Kind, path, demand}] = path }
		s := n.schema
		for _, property := range s.Required {
			add(strings.TrimPrefix(n.path+"."+property, "."), "required")
		}
		for _, v := range s.XValidations {
			at := n.path
			if at == "" {
				at = "(root)"
			}
			found[rule{crd.Spec.Names.Kind, at, "rule: " + v.Message}] = strings.Replace(at+v.FieldPath, "(root).", "", 1)
		}
		demands := map[string]bool{
			"enum": len(s.Enum) > 0, "pattern": s.Pattern != "", "format": s.Format == "date-time",
			"minLength": s.MinLength != nil, "maxLength": s.MaxLength != nil, "minItems": s.MinItems != nil, "maxItems": s.MaxItems != nil,
			"minProperties": s.MinProperties != nil, "maxProperties": s.MaxProperties != nil,
			"minimum": s.Minimum != nil, "maximum": s.Maximum != nil,
			"x-kubernetes-list-type": s.XListType != nil && *s.XListType != "atomic",
		}
		for demand, stands := range demands {
			if stands && !isConditions(n.path) {
				add(n.path, demand)
			}
		}
	}
	return found
}

// TestEveryRuleIsBrokenOnce keeps the cases of TestBrokenRuleIsNamed complete.
func TestEveryRuleIsBrokenOnce(t *testing.T) {
	broken := map[rule]bool{}
	for _, m := range manifests(t, "invalid/*/*.yaml") {
		broken[brokenBy(t, m)] = true
	}
	for _, crd := range definitions(t) {
		for r := range rulesOf(crd) {
			if !broken[r] {
				t.Errorf("no file in testdata/invalid breaks %s", r)
			}
		}
	}
}

// brokenBy reads which rule a manifest breaks.
func brokenBy(t *testing.T, m manifest) rule {
	t.Helper()
	path, demand, ok := strings.Cut(m.header["breaks"], " ")
	if !ok || m.header["want"] == "" {
		t.Fatalf("%s: its header must have the lines \"# breaks: <path> <keyword>\" and \"# want: <part of the refusal>\"", m.name)
	}
	return rule{m.objects[0].GetKind(), path, demand}
}

// TestGoodObjectsAreAccepted shows that the objects from which the broken ones differ are good.
func TestGoodObjectsAreAccepted(t *testing.T) {
	c, ns := client.WithFieldValidation(env.Admin, metav1.FieldValidationStrict), namespace(t, "good-objects")
	for _, m := range manifests(t, "valid/*.yaml") {
		t.Run(m.name, func(t *testing.T) {
			if err := apply(t, c, ns, m.objects); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBrokenRuleIsNamed applies objects that break one rule each. As a cluster admin, so that no policy is in the
// way: what refuses them is the schema alone.
func TestBrokenRuleIsNamed(t *testing.T) {
	c, ns := client.WithFieldValidation(env.Admin, metav1.FieldValidationStrict), namespace(t, "broken-objects")
	fields := map[rule]string{}
	for _, crd := range definitions(t) {
		for r, field := range rulesOf(crd) {
			fields[r] = field
		}
	}
	good := manifests(t, "valid/*.yaml")
	for _, m := range manifests(t, "invalid/*/*.yaml") {
		t.Run(m.name, func(t *testing.T) {
			broken := brokenBy(t, m)
			checkOneDifference(t, m, good)
			err := apply(t, c, ns, m.objects)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), m.header["want"]) {
				t.Errorf("the refusal does not say %q:\n%v", m.header["want"], err)
			}
			field, ok := fields[broken]
			switch {
			case broken.demand == "type": // Every place has one; they are not listed.
				field = broken.path
			case !ok:
				t.Fatalf("the schema has no rule %s", broken)
			}
			checkFields(t, err, field, m.header["also"])
		})
	}
}

// apply creates the first object, and updates it to the second if there is one. A status is written by an update
// of its own. It returns the refusal of the last step; nothing remains.
func apply(t *testing.T, c client.Client, ns string, objects []*unstructured.Unstructured) error {
	t.Helper()
	first := objects[0].DeepCopy()
	first.SetNamespace(ns)
	status, hasStatus := first.Object["status"]
	if len(objects) == 1 && !hasStatus {
		return c.Create(t.Context(), first, client.DryRunAll)
	}
	if err := c.Create(t.Context(), first); err != nil {
		t.Fatalf("create the object to be changed: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Admin.Delete(context.WithoutCancel(t.Context()), first); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	if hasStatus {
		first.Object["status"] = status
		return c.Status().Update(t.Context(), first, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
	}
	second := objects[1].DeepCopy()
	second.SetNamespace(ns)
	second.SetResourceVersion(first.GetResourceVersion())
	return c.Update(t.Context(), second, client.DryRunAll)
}

// checkFields demands that a refusal complains about one field, and about no other but perhaps a second.
func checkFields(t *testing.T, err error, want, also string) {
	t.Helper()
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		t.Fatalf("no status: %v", err)
	}
	named := false
	for _, cause := range refusal.Status().Details.Causes {
		switch {
		case isField(cause.Field, want):
			named = true
		case also != "" && isField(cause.Field, also):
		case strings.Contains(cause.Message, "some validation rules were not checked"): // The CEL rules are skipped.
		default:
			t.Errorf("a field other than %s is complained about: %q: %s", want, cause.Field, cause.Message)
		}
	}
	if !named {
		t.Errorf("%s is not complained about: %v", want, err)
	}
}

// isField reports whether a refused field is one of those that a path in the schema stands for.
func isField(field, path string) bool {
	if path == "(root)" {
		return field == "<nil>" || field == ""
	}
	expression := regexp.QuoteMeta(path)
	expression = strings.ReplaceAll(expression, `\[\]`, `\[\d+\]`)
	expression = strings.ReplaceAll(expression, `\{\}`, `\..+`)
	// A list whose elements must differ names the element.
	return regexp.MustCompile(`^` + expression + `(\[\d+\])?$`).MatchString(field)
}

// checkOneDifference demands that the last object of a manifest differs in one place from a good object, or from
// the manifest's first, so that nothing else can have had it refused.
func checkOneDifference(t *testing.T, m manifest, good []manifest) {
	t.Helper()
	last, bases := m.objects[len(m.objects)-1], slices.Clone(m.objects[:len(m.objects)-1])
	if len(bases) == 0 {
		for _, g := range good {
			bases = append(bases, g.objects[0])
		}
	}
	var fewest []string
	for i, base := range bases {
		if d := differences("", base.Object, last.Object); i == 0 || len(d) < len(fewest) {
			fewest = d
		}
	}
	if len(fewest) != 1 {
		t.Errorf("it must differ from a good object in one place, but differs in %q", fewest)
	}
}

// differences lists the outermost places in which two values differ.
func differences(path string, a, b any) []string {
	listA, okA := a.([]any)
	listB, okB := b.([]any)
	if okA && okB && len(listA) == len(listB) {
		var found []string
		for i := range listA {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), listA[i], listB[i])...)
		}
		return found
	}
	mapA, okA := a.(map[string]any)
	mapB, okB := b.(map[string]any)
	if !okA || !okB {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []string{path}
	}
	var found []string
	for key, value := range mapA {
		found = append(found, differences(path+"."+key, value, mapB[key])...)
	}
	for key, value := range mapB {
		if _, ok := mapA[key]; !ok && value != nil {
			found = append(found, path+"."+key)
		}
	}
	slices.Sort(found)
	return found
}
