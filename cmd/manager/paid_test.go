package main

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

const works = "```json\n{\"classification\":\"UNCLEAR\",\"scope\":\"PROJECT\",\"humanNote\":\"nothing found\"}\n```"

// A run is paid for. Whatever happens to the writes after it, it is not run again.
func TestARunIsPaidForOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		// fails is the first write that the API server does not get.
		fails string
		// during happens while the model thinks.
		during func(p project)
		want   string
	}{
		{name: "undisturbed", want: v1alpha1.ReasonDiagnosed},
		{name: "another report with another text comes in meanwhile", want: v1alpha1.ReasonDiagnosed, during: func(p project) {
			p.answer(p.user("bob"), p.job("search", "", v1alpha1.ToolError{HTTPStatus: new(int32(500)), Message: "other words"}))
		}},
		{name: "the health is not written at first", fails: "toolhealths/status", want: v1alpha1.ReasonDiagnosed},
		{name: "the job is not closed at first", fails: "diagnosisjobs/status", want: v1alpha1.ReasonDiagnosed},
		{name: "the row's name is taken by another tool's", want: v1alpha1.ReasonDiagnosed, during: func(p project) {
			p.must(env.Admin.Create(p.t.Context(), &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "search"},
				Spec: v1alpha1.ToolHealthSpec{ToolName: "other", Scope: v1alpha1.ScopeProject, ScopeID: p.namespace}}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := scripted.New(scripted.Step{Text: works, Delay: 500 * time.Millisecond}, scripted.Step{Text: works}, scripted.Step{Text: works})
			o := testOptions()
			o.models, o.modelEndpoint = "some-model", serveTool(t, model)
			var failed atomic.Bool
			startManagerWith(t, o, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					asked := len(model.Requests()) > 0
					if asked && tc.fails != "" && r.Method == http.MethodPut && kindOf(r.URL.Path) == tc.fails && !failed.Swap(true) {
						return nil, errors.New("the connection broke")
					}
					return next.RoundTrip(r)
				})
			})
			p := newProject(t)
			job := p.job("search", "", v1alpha1.ToolError{HTTPStatus: new(int32(500)), Message: "first words"})
			p.must(p.user("alice").Create(t.Context(), job))
			eventually(t, "the model to be asked", func() error {
				if len(model.Requests()) == 0 {
					return errors.New("it is not asked")
				}
				return nil
			})
			if tc.during != nil {
				tc.during(p)
			}
			job = p.closed(job)
			complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete)
			if len(model.Requests()) != 1 || job.Status.Attempts != 1 || complete.Reason != tc.want {
				t.Errorf("the model was asked %d times, attempts %d, closed %s: %s", len(model.Requests()), job.Status.Attempts, complete.Reason, complete.Message)
			}
			if tc.fails != "" && !failed.Load() {
				t.Error("no write failed")
			}
			if strings.Contains(tc.name, "another text") && len(job.Status.Signals) != 1 {
				t.Errorf("signals: %+v", job.Status.Signals)
			}
			if strings.Contains(tc.name, "name is taken") && !strings.Contains(complete.Message, "not stored") {
				t.Errorf("the job says %q", complete.Message)
			}
		})
	}
}

func TestADeadlineIsSaidToBeOne(t *testing.T) {
	model := scripted.New(scripted.Step{Text: works, Delay: time.Minute}, scripted.Step{Text: works, Delay: time.Minute}, scripted.Step{Text: works})
	o := testOptions()
	o.models, o.modelEndpoint = "some-model", serveTool(t, model)
	startManager(t, o)
	p := newProject(t)
	p.must(env.Admin.Create(t.Context(), &v1alpha1.DiagnosisRecipe{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: v1alpha1.RecipeName},
		Spec: v1alpha1.DiagnosisRecipeSpec{ActiveDeadlineSeconds: new(int32(5))}}))
	job := p.job("search", "", status(500))
	p.must(p.user("alice").Create(t.Context(), job))
	job = p.closed(job)
	if complete := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete); complete.Reason != v1alpha1.ReasonDeadlineExceeded ||
		!strings.Contains(complete.Message, "5s") || len(model.Requests()) != 2 {
		t.Errorf("closed as %+v after %d runs", complete, len(model.Requests()))
	}
}
