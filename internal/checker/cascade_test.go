package checker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// set is a set of one rule per id, each for a status of its own.
func set(namespace, name string, ids ...string) *v1alpha1.ErrorPatternSet {
	s := &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i, id := range ids {
		status := int32(600 + i)
		s.Spec.Patterns = append(s.Spec.Patterns, v1alpha1.ErrorPattern{
			ID: v1alpha1.PatternID(id), Match: v1alpha1.ErrorMatch{HTTPStatus: &status},
			Signature: v1alpha1.ErrorSignature(id), Classification: v1alpha1.Intermittent,
		})
	}
	return s
}

// ownRules lists the rules that are not bundled, with their layer and set.
func (w *world) ownRules(at tenancy.Place) []string {
	w.t.Helper()
	rules, problems, err := w.Cascade.Compiled(w.t.Context(), at)
	if err != nil || len(problems) > 0 {
		w.t.Fatal(err, problems)
	}
	var own []string
	for _, entry := range rules.Entries() {
		if entry.Set != "" {
			own = append(own, fmt.Sprintf("%s %s %s", entry.Layer, entry.Set, entry.Pattern.ID))
		}
	}
	return own
}

func TestTheCascadeGoesFromTheOperatorToTheProject(t *testing.T) {
	sets := []*v1alpha1.ErrorPatternSet{
		set("agrajag-system", "o", "from-operator"), set("acme", "t", "from-tenant"), set("shop", "b-second", "from-b"), set("shop", "a-first", "from-a"),
		set("solo", "s", "from-solo"), set("other", "x", "from-elsewhere"),
	}
	for _, tc := range []struct {
		name  string
		place tenancy.Place
		want  []string
	}{
		{"a project of a tenant has all layers, its own sets in name order", place,
			[]string{"operator agrajag-system/o from-operator", "tenant acme/t from-tenant", "project shop/a-first from-a", "project shop/b-second from-b"}},
		{"a project of no tenant is its own, once", tenancy.Place{Project: "solo", Tenant: "solo", Operator: "agrajag-system"},
			[]string{"operator agrajag-system/o from-operator", "tenant solo/s from-solo"}},
		{"a report in the operator's namespace counts it once", tenancy.Place{Project: "agrajag-system", Tenant: "agrajag-system", Operator: "agrajag-system"},
			[]string{"operator agrajag-system/o from-operator"}},
		{"a tenant that does not exist has no rules", tenancy.Place{Project: "empty", Tenant: "nowhere", Operator: "agrajag-system"},
			[]string{"operator agrajag-system/o from-operator"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for _, s := range sets {
				if err := w.client.Create(t.Context(), s.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, w.ownRules(tc.place)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesAreCompiledOncePerChangeNeverPerReport(t *testing.T) {
	w := newWorld(t, set("shop", "a", "first"))
	for i := range 50 {
		w.check(Decide, fmt.Sprint(i), 403)
	}
	if w.lists != 3 {
		t.Errorf("50 reports listed sets %d times, want once for each of three layers", w.lists)
	}
	if err := w.client.Create(t.Context(), set("acme", "b", "second")); err != nil {
		t.Fatal(err)
	}
	w.Cascade.Forget("elsewhere")
	if w.ownRules(place); w.lists != 3 {
		t.Errorf("a change elsewhere cost a compilation: %d lists", w.lists)
	}
	w.Cascade.Forget("acme")
	for range 50 {
		if got := w.ownRules(place); len(got) != 2 {
			t.Fatalf("rules: %v", got)
		}
	}
	if w.lists != 6 {
		t.Errorf("after a change sets were listed %d times in all, want 6", w.lists)
	}
}

func TestAChangeDuringACompilationIsNotLost(t *testing.T) {
	w := newWorld(t, set("shop", "a", "first"))
	w.onSetList = func() { // The first layer is read, then a set of the operator appears, which that missed.
		if w.lists != 2 {
			return
		}
		if err := w.client.Create(t.Context(), set("agrajag-system", "late", "late")); err != nil {
			t.Error(err)
		}
		w.Cascade.Forget("agrajag-system")
	}
	if got := w.ownRules(place); len(got) != 1 {
		t.Fatalf("the change came too early for this test: %v", got)
	}
	want := []string{"operator agrajag-system/late late", "project shop/a first"}
	if diff := cmp.Diff(want, w.ownRules(place)); diff != "" {
		t.Errorf("the outdated list was kept (-want +got):\n%s", diff)
	}
}

func TestCompiledListsAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range maxCompiled {
		w.Cascade.compiled[tenancy.Place{Project: fmt.Sprint(i)}] = compiled{}
	}
	w.ownRules(place)
	if got := len(w.Cascade.compiled); got > maxCompiled {
		t.Errorf("%d lists are kept", got)
	}
}

func TestABrokenEntryCostsNoOther(t *testing.T) {
	broken := set("acme", "broken", "bad", "good")
	broken.Spec.Patterns[0].Cooldown = "soon"
	w := newWorld(t, broken, set("shop", "fine", "fine"))
	rules, problems, err := w.Cascade.Compiled(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 1 || problems[0].Set != "acme/broken" {
		t.Errorf("problems: %v", problems)
	}
	for status, want := range map[int32]string{600: "fine", 601: "good"} {
		if got := rules.Classify(classify.Call{Tool: "search"}, &v1alpha1.ToolError{HTTPStatus: &status}, t0); got.RuleID != want {
			t.Errorf("%d is decided by %s, want %s", status, got.RuleID, want)
		}
	}
}

// TestASetIsTriedBesideTheOthers: in its own place, and without a trace.
func TestASetIsTriedBesideTheOthers(t *testing.T) {
	w := newWorld(t, set("shop", "b", "second"), set("acme", "b", "tenants"), set("agrajag-system", "b", "operators"))
	want := []string{"operator agrajag-system/b operators", "tenant acme/b tenants", "project shop/b second"}
	if diff := cmp.Diff(want, w.ownRules(place)); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		name  string
		tried *v1alpha1.ErrorPatternSet
		want  []string
	}{
		{"a new one, in the order of names", set("shop", "a", "first"), []string{want[0], want[1], "project shop/a first", want[2]}},
		{"in the place of the one of its name", set("shop", "b", "other"), []string{want[0], want[1], "project shop/b other"}},
		{"one of the same name in another layer", set("acme", "b", "other"), []string{want[0], "tenant acme/b other", want[2]}},
		{"one that concerns another place", set("solo", "b", "other"), want},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, problems, err := w.Cascade.CompiledWith(t.Context(), place, tc.tried)
			if err != nil || len(problems) > 0 {
				t.Fatalf("problems %v, error %v", problems, err)
			}
			var got []string
			for _, entry := range rules.Entries() {
				if entry.Layer != "bundled" {
					got = append(got, fmt.Sprintf("%s %s %s", entry.Layer, entry.Set, entry.Pattern.ID))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, w.ownRules(place)); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}
