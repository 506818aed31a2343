package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// concludes is a model's answer that cost so many tokens.
func concludes(class v1alpha1.Classification, cost llm.Usage) scripted.Step {
	return scripted.Step{Text: fmt.Sprintf("```json\n{\"classification\":%q,\"scope\":\"PROJECT\",\"humanNote\":\"so be it\"}\n```", class), Usage: cost}
}

// complete returns a job's condition Complete.
func complete(job *v1alpha1.DiagnosisJob) metav1.Condition {
	if c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestABudgetOutlivesItsManagers(t *testing.T) {
	thoughtful := llm.Usage{Prompt: 1500, Completion: 20_000}
	model := scripted.New(concludes(v1alpha1.Unclear, thoughtful), concludes(v1alpha1.Unclear, thoughtful), concludes(v1alpha1.Unclear, thoughtful))
	o := testOptions()
	o.models, o.modelEndpoint, o.budgets = "some-model", serveTool(t, model), budget.Limits{PerTenant: 40_000}
	p := newProject(t)
	alice := p.user("alice")
	diagnose := func(tool string) *v1alpha1.DiagnosisJob {
		job := p.job(tool, "", status(500))
		p.must(alice.Create(t.Context(), job))
		return p.closed(job)
	}
	for i, tool := range []string{"first", "second"} { // Each under a manager of its own.
		stop := startManager(t, o)
		if job := diagnose(tool); complete(job).Reason != v1alpha1.ReasonDiagnosed || job.Status.Usage.CompletionTokens != 20_000 {
			t.Errorf("run %d ended as %+v", i, job.Status)
		}
		stop()
	}
	startManager(t, o)
	job := diagnose("third")
	if end := complete(job); end.Reason != v1alpha1.ReasonBudgetExhausted || !strings.Contains(end.Message, "of tenant "+p.namespace) || !strings.Contains(end.Message, "T00:00:00Z") {
		t.Errorf("the third manager closed it as %+v", end)
	}
	if d := job.Status.Diagnosis; job.Status.Attempts != 0 || d == nil || d.Classification != v1alpha1.Unclear || job.Status.ErrorSignature == "" {
		t.Errorf("without budget the job ended as %+v", job.Status)
	}
	if row := p.row(v1alpha1.ScopeProject, p.namespace, "third"); row != nil {
		t.Errorf("an empty purse wrote %+v", row.Status)
	}
	// Whoever reports it again is told, and no further job is stored.
	for _, user := range []string{"alice", "bob"} {
		if got := p.answer(p.user(user), p.job("third", user, status(500))); cause(got, "Job") != job.Name && cause(got, "Outcome") != "AlreadyDiagnosed" {
			t.Errorf("%s is told %+v", user, got)
		}
	}
	if len(model.Requests()) != 2 {
		t.Errorf("the model was asked %d times", len(model.Requests()))
	}
	// Another tenant has its own.
	other := newProject(t)
	theirs := other.job("third", "", status(500))
	other.must(other.user("carol").Create(t.Context(), theirs))
	if theirs = other.closed(theirs); complete(theirs).Reason != v1alpha1.ReasonDiagnosed {
		t.Errorf("another tenant's job ended as %+v", complete(theirs))
	}
}

func TestTheManagerMayReadNoConfigMapButItsAccount(t *testing.T) {
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	manager, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	account := client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: budget.ConfigMapName}
	if err := manager.Get(t.Context(), account, &corev1.ConfigMap{}); client.IgnoreNotFound(err) != nil {
		t.Errorf("its account: %v", err)
	}
	for name, do := range map[string]func() error{
		"another": func() error {
			return manager.Get(t.Context(), client.ObjectKey{Namespace: account.Namespace, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
		},
		"one elsewhere": func() error {
			return manager.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: account.Name}, &corev1.ConfigMap{})
		},
		"all of them": func() error {
			return manager.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(account.Namespace))
		},
		"its account away": func() error {
			return manager.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}})
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADiagnosisAboveItsTargetWarns(t *testing.T) {
	model := scripted.New(concludes(v1alpha1.Intermittent, llm.Usage{Prompt: 1500, Completion: 30}), concludes(v1alpha1.Intermittent, llm.Usage{Prompt: 1500, Completion: 1000}))
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	p.must(env.Admin.Create(t.Context(), &v1alpha1.DiagnosisRecipe{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: v1alpha1.RecipeName},
		Spec: v1alpha1.DiagnosisRecipeSpec{TokenTarget: new(int64(2000))}}))
	for _, tc := range []struct {
		tool string
		want metav1.Condition
	}{
		{"cheap", metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWithinTokenTarget, Message: "The diagnosis cost 1530 tokens; the target is 2000"}},
		{"dear", metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTokenTargetExceeded, Message: "The diagnosis cost 2500 tokens; the target is 2000"}},
	} {
		job := p.job(tc.tool, "", status(500))
		p.must(p.user("alice").Create(t.Context(), job))
		job = p.closed(job)
		got := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionWithinTokenTarget)
		if got == nil || got.Status != tc.want.Status || got.Reason != tc.want.Reason || got.Message != tc.want.Message || got.ObservedGeneration != job.Generation {
			t.Errorf("%s: the condition is %+v", tc.tool, got)
		}
		if end := complete(job); end.Reason != v1alpha1.ReasonDiagnosed || strings.Contains(end.Message, "target") {
			t.Errorf("%s: closed as %+v", tc.tool, end)
		}
	}
}
