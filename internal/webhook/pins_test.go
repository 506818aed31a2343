package webhook

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// pins is a row and the people who pin it.
type pins struct {
	t      *testing.T
	key    client.ObjectKey
	people map[string]client.Client
}

// newPins makes a project whose editors are ann, ben and gitops; root passes every check.
func newPins(t *testing.T) *pins {
	t.Helper()
	needEnv(t)
	p := &pins{t: t, key: client.ObjectKey{Namespace: fmt.Sprintf("pins-%d", steps.Add(1)), Name: "search"},
		people: map[string]client.Client{"root": env.Admin, "manager": clientOf(t, testenv.ManagerUser)}}
	must(t, env.Namespace(t.Context(), p.key.Namespace, ""))
	for _, name := range []string{"ann", "ben", "gitops"} {
		must(t, env.Bind(t.Context(), p.key.Namespace, "agrajag-editor", name))
		p.people[name] = clientOf(t, name)
	}
	return p
}

// row is the project's row of search with a pin, as it is created.
func (p *pins) row(pin *v1alpha1.HealthOverride) *v1alpha1.ToolHealth {
	return &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name},
		Spec: v1alpha1.ToolHealthSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, ScopeID: p.key.Namespace, Override: pin}}
}

func (p *pins) stored() *v1alpha1.ToolHealth {
	p.t.Helper()
	row := &v1alpha1.ToolHealth{}
	must(p.t, env.Admin.Get(p.t.Context(), p.key, row))
	return row
}

// update edits the row as it is stored, as somebody.
func (p *pins) update(who string, edit func(*v1alpha1.ToolHealth)) error {
	p.t.Helper()
	row := p.stored()
	edit(row)
	return p.people[who].Update(p.t.Context(), row)
}

// says checks who pinned; empty: nobody is named.
func (p *pins) says(what, want string) {
	p.t.Helper()
	if o := p.stored().Spec.Override; o == nil || string(o.By) != want {
		p.t.Errorf("%s: %+v, want it pinned by %q", what, o, want)
	}
}

func down(by v1alpha1.UserID) *v1alpha1.HealthOverride {
	return &v1alpha1.HealthOverride{State: v1alpha1.StateDown, Reason: "maintenance", By: by}
}

func pinned(edit func(*v1alpha1.HealthOverride)) func(*v1alpha1.ToolHealth) {
	return func(row *v1alpha1.ToolHealth) { edit(row.Spec.Override) }
}

func labelled(row *v1alpha1.ToolHealth) {
	row.Labels = map[string]string{"seen": fmt.Sprint(steps.Add(1))}
}

func TestAPinSaysWhoSetIt(t *testing.T) {
	p := newPins(t)
	must(t, p.people["ann"].Create(t.Context(), p.row(down("ben"))))
	p.says("created in another's name", "ann")
	until := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, step := range []struct {
		name, who string
		edit      func(*v1alpha1.ToolHealth)
		want      string
	}{
		{"somebody else labels it", "ben", labelled, "ann"},
		{"somebody else pins the same, as if it were new", "ben", func(row *v1alpha1.ToolHealth) { row.Spec.Override = down("") }, "ann"},
		{"and claims it", "ben", func(row *v1alpha1.ToolHealth) { row.Spec.Override = down("ben") }, "ann"},
		{"or hands it on", "ann", func(row *v1alpha1.ToolHealth) { row.Spec.Override = down("ben") }, "ann"},
		{"another reason", "ben", pinned(func(o *v1alpha1.HealthOverride) { o.Reason = "moving house" }), "ben"},
		{"an end", "ann", pinned(func(o *v1alpha1.HealthOverride) { o.Until = &until }), "ann"},
		{"another state", "ben", pinned(func(o *v1alpha1.HealthOverride) { o.State = v1alpha1.StateDegraded }), "ben"},
		{"no end, and another's name", "ann", pinned(func(o *v1alpha1.HealthOverride) { o.Until, o.By = nil, "root" }), "ann"},
		{"a cluster admin is no exception", "root", pinned(func(o *v1alpha1.HealthOverride) { o.Reason = "by order" }), "admin"},
	} {
		must(t, p.update(step.who, step.edit))
		p.says(step.name, step.want)
	}
	row := p.stored()
	row.Status.State = v1alpha1.StateOK
	must(t, p.people["manager"].Status().Update(t.Context(), row))
	p.says("the manager writes what it knows", "admin")
	must(t, p.update("ben", func(row *v1alpha1.ToolHealth) { row.Spec.Override = nil }))
	must(t, p.update("ben", func(row *v1alpha1.ToolHealth) { row.Spec.Override = down("") }))
	p.says("taken away and pinned anew", "ben")
}

// What is in git does not name who applies it. Applying it again changes nothing, and what somebody changed by hand says who,
// until git has the last word.
func TestAPinInGitStaysWithWhoAppliedIt(t *testing.T) {
	p := newPins(t)
	apply := func() string {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ToolHealth", "metadata": map[string]any{"namespace": p.key.Namespace, "name": p.key.Name},
			"spec": map[string]any{"toolName": "search", "scope": "PROJECT", "scopeId": p.key.Namespace,
				"override": map[string]any{"state": "DOWN", "until": "2030-01-01T00:00:00Z", "reason": "maintenance"}},
		}}
		must(t, p.people["gitops"].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("gitops"), client.ForceOwnership))
		return object.GetResourceVersion()
	}
	first := apply()
	p.says("applied", "gitops")
	if again := apply(); again != first {
		t.Errorf("applying the same again wrote: resourceVersion %s after %s", again, first)
	}
	p.says("applied again", "gitops")
	must(t, p.update("ann", labelled))
	apply()
	p.says("applied after somebody labelled it", "gitops")
	must(t, p.update("ann", pinned(func(o *v1alpha1.HealthOverride) { o.Reason = "longer than planned" })))
	p.says("changed by hand", "ann")
	third := apply()
	p.says("git has the last word", "gitops")
	if again := apply(); again != third {
		t.Errorf("applying the same again wrote: resourceVersion %s after %s", again, third)
	}
}

// On clusters before Kubernetes 1.36 nothing sets who pinned, and nobody can say that it was somebody else.
func TestWithoutTheStampNobodyPinsInAnothersName(t *testing.T) {
	p := newPins(t)
	const stamp = "stamp-pin.tools.agrajag.dev"
	must(t, env.Admin.Delete(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: stamp}}))
	stamps := func(want bool) func() error {
		return func() error {
			row := p.row(down(""))
			row.Name, row.Spec.ToolName = "other", "other"
			must(t, p.people["ann"].Create(context.WithoutCancel(t.Context()), row, client.DryRunAll))
			if stamped := row.Spec.Override.By != ""; stamped != want {
				return fmt.Errorf("stamped: %t", stamped)
			}
			return nil
		}
	}
	restore := func() {
		data, err := os.ReadFile(testenv.Path("config", "policy", "pins.yaml"))
		must(t, err)
		must(t, env.ApplyYAML(context.WithoutCancel(t.Context()), string(data)))
		eventually(t, "the stamp to be back", stamps(true))
	}
	t.Cleanup(restore) // What is there already is left alone.
	eventually(t, "the stamp to be away", stamps(false))

	must(t, p.people["ann"].Create(t.Context(), p.row(down(""))))
	p.says("who says nothing is not named", "")
	for _, step := range []struct {
		name, who string
		edit      func(*v1alpha1.ToolHealth)
		refused   bool
		want      string
	}{
		{"claiming a pin that is there", "ben", pinned(func(o *v1alpha1.HealthOverride) { o.By = "ben" }), true, ""},
		{"pinning in another's name", "ben", pinned(func(o *v1alpha1.HealthOverride) { o.Reason, o.By = "moving house", "ann" }), true, ""},
		{"pinning in one's own", "ben", pinned(func(o *v1alpha1.HealthOverride) { o.Reason, o.By = "moving house", "ben" }), false, "ben"},
		{"labelling it", "ann", labelled, false, "ben"},
		{"taking it over as it is", "ann", pinned(func(o *v1alpha1.HealthOverride) { o.By = "ann" }), true, "ben"},
		{"changing it and leaving the name", "ann", pinned(func(o *v1alpha1.HealthOverride) { o.State = v1alpha1.StateOK }), true, "ben"},
		{"changing it without a name", "ann", pinned(func(o *v1alpha1.HealthOverride) { o.State, o.By = v1alpha1.StateOK, "" }), false, ""},
	} {
		if err := p.update(step.who, step.edit); apierrors.IsForbidden(err) != step.refused || !step.refused && err != nil {
			t.Errorf("%s: %v, want it refused: %t", step.name, err, step.refused)
		}
		p.says(step.name, step.want)
	}

	restore()
	must(t, p.update("ben", labelled))
	p.says("a pin of nobody that is labelled once the stamp is there", "")
	must(t, p.update("ben", pinned(func(o *v1alpha1.HealthOverride) { o.By = "ben" })))
	p.says("and claimed", "")
}
