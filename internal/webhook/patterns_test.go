package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// heard collects the warnings that a client is given.
type heard struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader keeps a warning.
func (h *heard) HandleWarningHeader(_ int, _, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, message)
}

// take returns the warnings since it was asked last.
func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// editor returns a client of somebody who may write rules in the project, and what it is warned of.
func (p project) editor() (client.Client, *heard) {
	p.t.Helper()
	must(p.t, env.Bind(p.t.Context(), p.namespace, "agrajag-editor", "edith"))
	config, err := env.User("edith")
	must(p.t, err)
	warnings := &heard{}
	config.WarningHandler = warnings
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	must(p.t, err)
	return c, warnings
}

// rule is one that asks for a text in the body.
func rule(id, body string, edits ...func(*v1alpha1.ErrorPattern)) v1alpha1.ErrorPattern {
	pattern := v1alpha1.ErrorPattern{ID: v1alpha1.PatternID(id), Match: v1alpha1.ErrorMatch{BodyContains: []v1alpha1.Substring{v1alpha1.Substring(body)}},
		Signature: "shop", Classification: v1alpha1.UserInput}
	for _, edit := range edits {
		edit(&pattern)
	}
	return pattern
}

func (p project) rules(name string, patterns ...v1alpha1.ErrorPattern) *v1alpha1.ErrorPatternSet {
	return &v1alpha1.ErrorPatternSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}, Spec: v1alpha1.ErrorPatternSetSpec{Patterns: patterns}}
}

// fields lists what a refusal says, by field.
func fields(err error) []string {
	var all []string
	if details := statusOf(err).Details; details != nil {
		for _, c := range details.Causes {
			all = append(all, c.Field+": "+c.Message)
		}
	}
	return all
}

func refusedRules(t *testing.T) {
	p := newProject(t)
	edith, _ := p.editor()
	good := p.rules("shop", rule("shop-closed", "closed today"))
	must(t, edith.Create(t.Context(), good))
	good.Spec.Patterns = append(good.Spec.Patterns,
		rule("short", "abc"),
		rule("twice", "first text"), rule("twice", "other text"),
		rule("wordy", strings.Repeat("ü", 200)))
	err := edith.Update(t.Context(), good)
	if status := statusOf(err); !apierrors.IsInvalid(err) || status.Code != 422 || !strings.Contains(status.Message, `ErrorPatternSet.tools.agrajag.dev "shop" is invalid`) {
		t.Fatalf("answered %v", err)
	}
	want := []string{
		"spec.patterns[1].match.bodyContains[0]: Invalid value: has 3 bytes, at least 4 are needed to mean something",
		"spec.patterns[3].id: Invalid value: stands at spec.patterns[2] too; use an id of its own",
		"spec.patterns[4].match.bodyContains[0]: Invalid value: has 400 bytes, at most 256 are allowed",
	}
	if diff := cmp.Diff(want, fields(err)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	stored := &v1alpha1.ErrorPatternSet{}
	must(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(good), stored))
	if len(stored.Spec.Patterns) != 1 {
		t.Errorf("%d entries are stored", len(stored.Spec.Patterns))
	}
	if err := edith.Create(t.Context(), p.rules("new", rule("short", "abc"))); !apierrors.IsInvalid(err) {
		t.Errorf("a new set with a mistake: %v", err)
	}
}

func manyMistakes(t *testing.T) {
	p := newProject(t)
	edith, _ := p.editor()
	set := p.rules("shop")
	for i := range 50 {
		set.Spec.Patterns = append(set.Spec.Patterns, rule(fmt.Sprintf("rule-%d", i), "abc"))
	}
	told := fields(edith.Create(t.Context(), set))
	if len(told) != maxFieldErrors+1 || !strings.HasPrefix(told[19], "spec.patterns[19].match") || told[20] != "spec.patterns: Invalid value: and 30 more" {
		t.Errorf("%d are told: %q", len(told), told)
	}
}

// storeMistake stores a set that a webhook would refuse, and returns the test of what can be done with it.
func storeMistake(t *testing.T) func(*testing.T) {
	p := newProject(t)
	set := p.rules("shop", rule("short", "abc"))
	must(t, env.Admin.Create(t.Context(), set))
	return func(t *testing.T) {
		p.t = t
		oldMistakes(t, p, set)
	}
}

func oldMistakes(t *testing.T, p project, set *v1alpha1.ErrorPatternSet) {
	edith, _ := p.editor()
	set.Labels, set.Finalizers = map[string]string{"team": "shop"}, []string{"example.com/keep"}
	must(t, edith.Update(t.Context(), set))
	set.Status.Entries = new(int32)
	must(t, env.Admin.Status().Update(t.Context(), set))
	// Whoever adds a good rule mends the bad one too.
	set.Spec.Patterns[0].Note = "still short"
	if err := edith.Update(t.Context(), set); !apierrors.IsInvalid(err) {
		t.Errorf("a rule with a mistake was changed, and answered %v", err)
	}
	must(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(set), set))
	set.Finalizers = nil
	must(t, edith.Update(t.Context(), set))
	must(t, edith.Delete(t.Context(), set))
}

func warnedOfRules(t *testing.T) {
	p := newProject(t)
	edith, warnings := p.editor()
	must(t, edith.Create(t.Context(), p.rules("b", rule("shop-closed", "closed today"), rule("shop-sale", "on sale"))))
	if told := warnings.take(); told != nil {
		t.Errorf("good rules are warned of: %q", told)
	}
	status := int32(403)
	for _, tc := range []struct {
		name string
		set  *v1alpha1.ErrorPatternSet
		want []string
	}{
		{"an id of an earlier set", p.rules("c", rule("shop-closed", "other text")), []string{
			`NS/c spec.patterns[0] ("shop-closed"): id: stands earlier too, at NS/b spec.patterns[0], and the first counts; use an id of its own`}},
		{"an id of a later set, which is not in force any more", p.rules("a", rule("shop-closed", "other text")), []string{
			`NS/b spec.patterns[0] ("shop-closed"): id: stands earlier too, at NS/a spec.patterns[0], and the first counts; use an id of its own`}},
		{"a place that leads nowhere", p.rules("c", rule("shop-new", "new text", func(r *v1alpha1.ErrorPattern) { r.Before = "nowhere" })), []string{
			`NS/c spec.patterns[0] ("shop-new"): before: "nowhere" leads to no entry; the entry is in force, before fallback`}},
		{"behind another set's rule", p.rules("c", rule("shop-closed-again", "we are closed today")), []string{
			`NS/c spec.patterns[0] ("shop-closed-again"): is never reached: "shop-closed" (NS/b spec.patterns[0]) stands before it and matches all that it matches`}},
		{"before another set's rule", p.rules("c", rule("shop-all", "sale", func(r *v1alpha1.ErrorPattern) { r.Before = "shop-sale" })), []string{
			`NS/b spec.patterns[1] ("shop-sale"): is never reached: "shop-all" (NS/c spec.patterns[0]) stands before it and matches all that it matches`}},
		{"behind a bundled rule", p.rules("c", rule("shop-429", "slow down", func(r *v1alpha1.ErrorPattern) { r.Match.HTTPStatusRange = []int32{429, 429} })), []string{
			`NS/c spec.patterns[0] ("shop-429"): is never reached: "http-429" (bundled) stands before it and matches all that it matches`}},
		{"a rule that excludes itself", p.rules("c", rule("shop-never", "any text", func(r *v1alpha1.ErrorPattern) {
			r.Match.HTTPStatus, r.Match.HTTPStatusIn = &status, []int32{401}
		})), []string{`NS/c spec.patterns[0] ("shop-never"): never matches: match.httpStatus and match.httpStatusIn exclude each other`}},
		{"a bundled rule's place", p.rules("c", rule("http-403", "any text", func(r *v1alpha1.ErrorPattern) { r.Match.HTTPStatus = &status })), nil},
	} {
		eventually(t, tc.name+" to be judged beside the set that is stored", func() error {
			err := edith.Create(t.Context(), tc.set.DeepCopy(), client.DryRunAll)
			told := warnings.take()
			for i := range told {
				told[i] = strings.ReplaceAll(told[i], p.namespace+"/", "NS/")
			}
			if diff := cmp.Diff(tc.want, told); diff != "" || err != nil {
				return fmt.Errorf("answered %w, warnings (-want +got):\n%s", err, diff)
			}
			return nil
		})
	}
}

func fewWarnings(t *testing.T) {
	p := newProject(t)
	edith, warnings := p.editor()
	set := p.rules("shop", rule("first", "closed today"))
	for i := range 30 {
		set.Spec.Patterns = append(set.Spec.Patterns, rule(strings.Repeat("long", 28)+fmt.Sprint(i), fmt.Sprintf("closed today %d", i)))
	}
	must(t, edith.Create(t.Context(), set))
	told := warnings.take()
	if len(told) != maxWarnings || told[9] != "and 21 more" {
		t.Errorf("%d warnings: %q", len(told), told)
	}
	for _, one := range told {
		if len(one) > maxWarning {
			t.Errorf("%d bytes: %s", len(one), one)
		}
	}
}

// largestSet holds as many rules as a set may, the last of which is never reached.
func largestSet() *v1alpha1.ErrorPatternSet {
	set := project{namespace: "shop"}.rules("set")
	set.APIVersion, set.Kind = v1alpha1.GroupVersion.String(), "ErrorPatternSet"
	for i := range 1000 {
		pattern := rule(fmt.Sprintf("rule-%d", i), fmt.Sprintf("text %04d of its own", i))
		for j := range 20 {
			pattern.Match.BodyContains = append(pattern.Match.BodyContains, v1alpha1.Substring(fmt.Sprintf("%02d text of rule %04d", j, i)))
		}
		set.Spec.Patterns = append(set.Spec.Patterns, pattern)
	}
	set.Spec.Patterns[999].Match = set.Spec.Patterns[0].Match
	return set
}

// largestAccepted sends it through the API server, which does not wait for ever: under the race detector it may pass over the
// warnings.
func largestAccepted(t *testing.T) {
	p := newProject(t)
	edith, _ := p.editor()
	set := p.rules("shop")
	set.Spec = largestSet().Spec
	must(t, edith.Create(t.Context(), set))
}

func TestTheLargestSetIsJudged(t *testing.T) {
	got := judged(t, nil, nil, largestSet())
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], `("rule-999"): is never reached: "rule-0"`) {
		t.Errorf("allowed %t with warnings %q", got.Allowed, got.Warnings)
	}
}

// BenchmarkJudge is what the largest set costs, the reading of its JSON included. The API server waits for two seconds.
func BenchmarkJudge(b *testing.B) {
	set := largestSet()
	for b.Loop() {
		judged(b, nil, nil, set)
	}
}

// judged asks the webhook about a set that replaces another, or a new one.
func judged(t testing.TB, get func(context.Context) error, former, set any) admission.Response {
	t.Helper()
	raw := func(object any) runtime.RawExtension {
		data, err := json.Marshal(object)
		must(t, err)
		return runtime.RawExtension{Raw: data}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "req-1", Namespace: "shop", Name: "set", Operation: admissionv1.Create, Object: raw(set)}}
	if former != nil {
		req.Operation, req.OldObject = admissionv1.Update, raw(former)
	}
	check, _ := fakeChecker(get)
	return (&Judge{Checker: check, Decoder: admission.NewDecoder(testenv.Scheme())}).Handle(t.Context(), req)
}

// TestJudgingHoldsUpNothingByItself: the handler alone, without the API server's matchConditions.
func TestJudgingHoldsUpNothingByItself(t *testing.T) {
	shop := project{t: t, namespace: "shop"}
	bad, good := shop.rules("set", rule("short", "abc")), shop.rules("set", rule("long", "closed today"), rule("longer", "closed today, all day"))
	for _, set := range []*v1alpha1.ErrorPatternSet{bad, good} {
		set.APIVersion, set.Kind = v1alpha1.GroupVersion.String(), "ErrorPatternSet"
	}
	labelled := bad.DeepCopy()
	labelled.Labels = map[string]string{"team": "shop"}
	unreadable := map[string]any{"apiVersion": bad.APIVersion, "kind": bad.Kind, "spec": "what"}
	broken := func(context.Context) error { return errors.New("no cache") }
	panics := func(context.Context) error { panic("a mistake of ours") }
	for _, tc := range []struct {
		name         string
		get          func(context.Context) error
		former, set  any
		want         bool
		wantWarnings int
	}{
		{"a new set with a mistake", nil, nil, bad, false, 0},
		{"a mistake that was there, and a new label", nil, bad, labelled, true, 0},
		{"a mistake that was not there", nil, good, bad, false, 0},
		{"a mistake that is mended", nil, bad, good, true, 1},
		{"nothing to compare with", broken, nil, good, true, 0},
		{"a mistake, and nothing to compare with", broken, nil, bad, false, 0},
		{"a mistake of ours", panics, nil, good, true, 0},
		{"what cannot be read is the schema's to refuse", nil, nil, unreadable, true, 0},
		{"a mistake in the place of what could not be read", nil, unreadable, bad, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := judged(t, tc.get, tc.former, tc.set); got.Allowed != tc.want || len(got.Warnings) != tc.wantWarnings {
				t.Errorf("allowed %t (%v) with warnings %q; want %t with %d", got.Allowed, got.Result, got.Warnings, tc.want, tc.wantWarnings)
			}
		})
	}
}
