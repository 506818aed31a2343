package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// asked answers a question as it comes over the wire.
func asked(t *testing.T, handler admission.Handler, question string) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	w := httptest.NewRecorder()
	Serve(handler).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(question)))
	if w.Code != http.StatusOK {
		return w.Code, nil
	}
	var review admissionv1.AdmissionReview
	must(t, json.Unmarshal(w.Body.Bytes(), &review))
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Response == nil {
		t.Fatalf("it answers %s", w.Body)
	}
	return w.Code, review.Response
}

func TestQuestionsAreReadOnceAndAnswered(t *testing.T) {
	check, _ := fakeChecker(nil)
	preparer := &Preparer{Checker: check, Decoder: admission.NewDecoder(testenv.Scheme())}
	ask := func(object string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","namespace":"shop","operation":"CREATE","object":` + object + `}}`
	}
	for _, tc := range []struct {
		name, question string
		status         int
		patch          string // holds it; empty: no patch
	}{
		{"a clean report", ask(reportJSON(`"name":"mine"`, `"error":{"httpStatus":503}`)), http.StatusOK, ""},
		{"a report with a secret", ask(reportJSON(`"name":"mine"`, `"error":{"message":"password=`+canary+`"}`)), http.StatusOK, `"path":"/spec/error/message"`},
		{"a report that cannot be read is left to the schema", ask(`{"spec":{"toolName":7}}`), http.StatusOK, ""},
		{"a question without a request", `{"apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest, ""},
		{"a request without an identity", `{"request":{"namespace":"shop"}}`, http.StatusBadRequest, ""},
		{"no JSON", `nonsense`, http.StatusBadRequest, ""},
		{"more than the API server sends", strings.Repeat(" ", maxReview+1), http.StatusBadRequest, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, response := asked(t, preparer, tc.question)
			if status != tc.status {
				t.Fatalf("status %d", status)
			}
			if response == nil {
				return
			}
			if !response.Allowed || response.UID != "u-1" || (tc.patch == "") != (len(response.Patch) == 0) || !strings.Contains(string(response.Patch), tc.patch) {
				t.Errorf("%+v, patch %s", response, response.Patch)
			}
			if strings.Contains(string(response.Patch), canary) {
				t.Errorf("the patch holds the secret: %s", response.Patch)
			}
		})
	}
	t.Run("what a handler is told", func(t *testing.T) {
		var got admission.Request
		_, response := asked(t, admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
			got = req
			return admission.Denied("no")
		}), `{"request":{"uid":"u-2","name":"n","namespace":"shop","operation":"CREATE","dryRun":true,"object":{"spec":{"toolName":"search"}}}}`)
		job, err := reportIn(got, nil)
		if err != nil || job.Spec.ToolName != "search" || job.Namespace != "shop" || got.Name != "n" || got.DryRun == nil || !*got.DryRun || response.Allowed {
			t.Errorf("%+v %+v %v, answered %+v", got, job, err, response)
		}
	})
}

func TestLongTextsAreComparedApart(t *testing.T) {
	for _, tc := range []struct{ name, former, now, wantFormer, wantNow, replaces string }{
		{"equal ones are left out", "same", "same", "", "", ""},
		{"of two that differ the new one is said", "long secret", "long [redacted]", "", "", "long [redacted]"},
		{"one that is new stays", "", "new", "", "new", ""},
		{"one that went stays", "old", "", "old", "", ""},
	} {
		former, now := &v1alpha1.ToolError{Body: tc.former}, &v1alpha1.ToolError{Body: tc.now}
		replaces := ""
		for _, operation := range replaced(former, now) {
			replaces += fmt.Sprint(operation.Value)
		}
		if diff := cmp.Diff([]string{tc.wantFormer, tc.wantNow, tc.replaces}, []string{former.Body, now.Body, replaces}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
