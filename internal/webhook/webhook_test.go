package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// canary is what no object may hold.
const canary = "c4nary1234567890"

// fakeChecker answers reports in the namespace shop from memory. Before each read, get runs.
func fakeChecker(get func(context.Context) error) (*checker.Checker, client.Client) {
	c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).
		WithStatusSubresource(&v1alpha1.ToolHealth{}).WithIndex(&v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool).
		WithIndex(&v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if get != nil {
				if err := get(ctx); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		}}).Build()
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC))
	return &checker.Checker{Cache: c, Live: c, Cascade: checker.NewCascade(c), Clock: now, OperatorNamespace: "agrajag-system",
		Store: health.NewStore(health.StoreOptions{Client: c, Live: c, Clock: now, Recorder: events.NewFakeRecorder(100)})}, c
}

// request is the API server's question about an object that is being created.
func request(raw string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "req-1", Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)},
	}}
}

// prepared returns the preparer's answer as operation and path to value.
func prepared(t *testing.T, raw string) map[string]string {
	t.Helper()
	check, _ := fakeChecker(nil)
	response := (&Preparer{Checker: check, Decoder: admission.NewDecoder(testenv.Scheme())}).Handle(t.Context(), request(raw))
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	patch := map[string]string{}
	for _, operation := range response.Patches {
		value, err := json.Marshal(operation.Value)
		must(t, err)
		patch[operation.Operation+" "+operation.Path] = string(value)
	}
	return patch
}

// reportJSON is a report with fields in metadata and spec.
func reportJSON(metadata, spec string) string {
	return `{"apiVersion":"tools.agrajag.dev/v1alpha1","kind":"DiagnosisJob","metadata":{"namespace":"shop",` + metadata + `},"spec":{"toolName":"search","scope":"PROJECT","trigger":"tool_call_error",` + spec + `}}`
}

func TestPreparerPatchesWhatItMustAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name string
		raw  string
		want []string // operations and paths
	}{
		{"a clean report with a name stays as it is", reportJSON(`"name":"mine"`, `"error":{"httpStatus":503,"message":"oops"},"note":"seen twice"`), nil},
		{"fields of a later version stay", reportJSON(`"name":"mine","annotations":{"a":"b"}`, `"error":{"httpStatus":503,"traceId":"t"},"priority":7`), nil},
		{"they stay beside fields that change", reportJSON(`"name":"mine"`, `"error":{"message":"password=`+canary+`","traceId":"t"},"priority":7`), []string{"replace /spec/error/message"}},
		{"a generated name becomes the fault's", reportJSON(`"generateName":"report-"`, `"error":{"httpStatus":503}`), []string{"add /metadata/name", "remove /metadata/generateName"}},
		{"a chosen name is kept even beside a generated one", reportJSON(`"name":"mine","generateName":"report-"`, `"error":{"httpStatus":503}`), nil},
		{"without any name it is left to the API server", reportJSON(`"labels":{}`, `"error":{"httpStatus":503}`), nil},
		{"what was applied is dropped from the annotations", reportJSON(`"name":"mine","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"`+canary+`","a":"b"}`, `"error":{"httpStatus":503}`),
			[]string{"remove /metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"}},
		{"secrets go wherever they stand", reportJSON(`"name":"mine"`, `"note":"token=x secret=`+canary+`","error":{"headers":{"Authorization":"`+canary+`","x-ok":"fine"},"body":"{\"api_key\":\"`+canary+`\"}","message":"Bearer `+canary+`"}`),
			[]string{"replace /spec/error/body", "replace /spec/error/headers/Authorization", "replace /spec/error/message", "replace /spec/note"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patch := prepared(t, tc.raw)
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(patch))); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			for path, value := range patch {
				if strings.Contains(value, canary) {
					t.Errorf("%s still holds the secret: %s", path, value)
				}
			}
		})
	}
}

func TestOneFaultHasOneName(t *testing.T) {
	name := func(spec string) string {
		return prepared(t, reportJSON(`"generateName":"r-"`, spec))["add /metadata/name"]
	}
	first := name(`"error":{"httpStatus":503},"originatingUserId":"alice"`)
	if !strings.HasPrefix(first, `"diag-search-`) {
		t.Errorf("the name is %s", first)
	}
	for _, tc := range []struct {
		what, spec string
		same       bool
	}{
		{"another message of the same error", `"error":{"httpStatus":502,"message":"later"},"originatingUserId":"alice"`, true},
		{"another error", `"error":{"httpStatus":404},"originatingUserId":"alice"`, false},
		{"another user", `"error":{"httpStatus":503},"originatingUserId":"bob"`, false},
		{"nobody", `"error":{"httpStatus":503},"originatingUserId":"_system"`, false},
	} {
		if got := name(tc.spec); (got == first) != tc.same {
			t.Errorf("%s: %s beside %s", tc.what, got, first)
		}
	}
	if name(`"error":{"httpStatus":503}`) != name(`"error":{"httpStatus":503},"originatingUserId":"_system"`) {
		t.Error("nobody has two names")
	}
}

func TestWhatIsTooLongIsCut(t *testing.T) {
	patch := prepared(t, reportJSON(`"name":"mine"`, fmt.Sprintf(`"note":%q,"error":{"body":%q}`, strings.Repeat("n", 1<<20), strings.Repeat("b", 1<<20))))
	for path, limit := range map[string]int{"replace /spec/note": 500, "replace /spec/error/body": v1alpha1.MaxErrorBody} {
		if got := len(patch[path]); got < limit/2 || got > limit+len(`""`) {
			t.Errorf("%s has %d bytes, want at most %d", path, got, limit)
		}
	}
}

func TestTheWebhooksAreNoGate(t *testing.T) {
	if deadline >= 2*time.Second {
		t.Errorf("answers may take %s, and the API server waits for two seconds", deadline)
	}
	broken := func(context.Context) error { return errors.New("etcd is on fire") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	good := reportJSON(`"name":"mine"`, `"error":{"httpStatus":403}`)
	generated := reportJSON(`"generateName":"r-"`, `"error":{"httpStatus":403,"message":"password=`+canary+`"}`)
	for _, tc := range []struct {
		name        string
		raw         string
		get         func(context.Context) error
		wantPatches int
		wantWarning bool
	}{
		{name: "no JSON at all", raw: "{"},
		{name: "a field of another type is the schema's to refuse", raw: reportJSON(`"name":"mine"`, `"error":{"httpStatus":"503"}`)},
		{name: "nothing", raw: ""},
		{name: "an API server in trouble", raw: good, get: broken, wantWarning: true},
		{name: "a mistake of ours", raw: generated, get: func(context.Context) error { panic("index out of range") }},
		{name: "one that hangs", raw: good, get: hangs, wantWarning: true},
		{name: "without a name for the fault the secrets go all the same", raw: generated, get: broken, wantPatches: 1, wantWarning: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check, c := fakeChecker(tc.get)
			decoder := admission.NewDecoder(testenv.Scheme())
			first := (&Preparer{Checker: check, Decoder: decoder}).Handle(t.Context(), request(tc.raw))
			second := (&Answerer{Checker: check, Client: c, Decoder: decoder}).Handle(t.Context(), request(tc.raw))
			if !first.Allowed || len(first.Patches) != tc.wantPatches {
				t.Errorf("prepared: %+v", first)
			}
			if !second.Allowed || (len(second.Warnings) > 0) != tc.wantWarning {
				t.Errorf("answered: %+v", second)
			}
		})
	}
}

func TestTheAnswererCleansWhatItRepeats(t *testing.T) {
	check, c := fakeChecker(nil)
	answerer := &Answerer{Checker: check, Client: c, Decoder: admission.NewDecoder(testenv.Scheme())}
	for i := range 2 { // The second answer repeats the error.
		raw := strings.Replace(reportJSON(`"name":"mine"`, `"error":{"httpStatus":403,"message":"password=`+canary+`"}`), `"name"`, fmt.Sprintf(`"uid":"u%d","name"`, i), 1)
		got := answerer.Handle(t.Context(), request(raw))
		data, err := json.Marshal(got)
		must(t, err)
		if got.Allowed || strings.Contains(string(data), canary) {
			t.Errorf("answer %d: %s", i, data)
		}
		if i == 1 && !strings.Contains(got.Result.Message, "The tool said: HTTP 403 password=[redacted]") {
			t.Errorf("the error is not reflected: %s", got.Result.Message)
		}
	}
}

// A full namespace makes no reports into jobs: they are answered as others are, and told not to be stored.
func TestAReportThatHasNoPlaceIsAnswered(t *testing.T) {
	check, c := fakeChecker(nil)
	check.Store = health.NewStore(health.StoreOptions{Client: c, Live: c, Clock: check.Clock, Recorder: events.NewFakeRecorder(100), MaxRows: 1})
	answerer := &Answerer{Checker: check, Client: c, Decoder: admission.NewDecoder(testenv.Scheme())}
	for i, stored := range []bool{true, false, false} {
		raw := reportJSON(fmt.Sprintf(`"name":"mine","uid":"u%d"`, i), fmt.Sprintf(`"originatingUserId":"user-%d","error":{"httpStatus":403}`, i))
		got := answerer.Handle(t.Context(), request(raw))
		if got.Allowed || got.Result.Reason != ReasonClassified || strings.Contains(got.Result.Message, "Not stored: the namespace holds as many") == stored {
			t.Errorf("report %d: %+v", i, got.Result)
		}
	}
}

func TestRefusal(t *testing.T) {
	job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	verdict := classify.Verdict{RuleID: "http-403", Signature: "http-403", Class: v1alpha1.UserPermission, Action: v1alpha1.HealthActionNone}
	base := checker.Decision{Outcome: checker.Classified, Verdict: verdict, Class: verdict.Class, Health: health.View{State: v1alpha1.StateOK},
		RetryAfter: 90 * time.Second, Message: "what it is", Hint: "what to do", Scope: v1alpha1.ScopeUser, ToolKnown: true}
	with := func(edit func(*checker.Decision)) checker.Decision { d := base; edit(&d); return d }
	cause := func(pairs ...string) (causes []metav1.StatusCause) {
		for i := 0; i < len(pairs); i += 2 {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(pairs[i]), Message: pairs[i+1]})
		}
		return causes
	}
	for _, tc := range []struct {
		name       string
		decision   checker.Decision
		wantReason metav1.StatusReason
		wantRetry  int32
		wantCauses []metav1.StatusCause
	}{
		{"a verdict", base, "ToolErrorClassified", 90,
			cause("Outcome", "Classified", "Classification", "USER_PERMISSION", "RuleID", "http-403", "ErrorSignature", "http-403", "State", "OK", "Scope", "USER", "Action", "none", "DiagnosisPending", "false", "ToolKnown", "true", "UserActionHint", "what to do", "RetryAfterSeconds", "90")},
		{"a job under way", with(func(d *checker.Decision) {
			d.Outcome, d.Class, d.Job, d.Hint = checker.Coalesced, v1alpha1.Unclear, "diag-1", ""
		}), "ToolErrorCoalesced", 90,
			cause("Outcome", "Coalesced", "Classification", "UNCLEAR", "RuleID", "http-403", "ErrorSignature", "http-403", "State", "OK", "Scope", "USER", "Action", "none", "DiagnosisPending", "true", "ToolKnown", "true", "Job", "diag-1", "RetryAfterSeconds", "90")},
		{"a verdict in force", with(func(d *checker.Decision) { d.Outcome, d.Health.State = checker.AlreadyDiagnosed, v1alpha1.StateDown }), "ToolErrorClassified", 90,
			cause("Outcome", "AlreadyDiagnosed", "Classification", "USER_PERMISSION", "RuleID", "http-403", "ErrorSignature", "http-403", "State", "DOWN", "Scope", "USER", "Action", "none", "DiagnosisPending", "false", "ToolKnown", "true", "UserActionHint", "what to do", "RetryAfterSeconds", "90")},
		{"a verdict for which there is no place", with(func(d *checker.Decision) {
			d.NotStored = fmt.Errorf("%w: 100 rows are the limit", health.ErrFull)
		}), "ToolErrorClassified", 90,
			cause("Outcome", "Classified", "Classification", "USER_PERMISSION", "RuleID", "http-403", "ErrorSignature", "http-403", "State", "OK", "Scope", "USER", "Action", "none", "DiagnosisPending", "false", "ToolKnown", "true", "UserActionHint", "what to do", "RetryAfterSeconds", "90",
				"StoreError", "the namespace holds as many ToolHealth rows as it may: 100 rows are the limit")},
		{"a message that a job did not take, of which nobody need know", with(func(d *checker.Decision) {
			d.NotStored = errors.New("secret detail")
		}), "ToolErrorClassified", 90,
			cause("Outcome", "Classified", "Classification", "USER_PERMISSION", "RuleID", "http-403", "ErrorSignature", "http-403", "State", "OK", "Scope", "USER", "Action", "none", "DiagnosisPending", "false", "ToolKnown", "true", "UserActionHint", "what to do", "RetryAfterSeconds", "90")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := metav1.Status{Status: "Failure", Code: http.StatusUnprocessableEntity, Reason: tc.wantReason, Message: "what it is",
				Details: &metav1.StatusDetails{Name: "mine", Group: "tools.agrajag.dev", Kind: "diagnosisjobs", RetryAfterSeconds: tc.wantRetry, Causes: tc.wantCauses}}
			got := refusal(job, tc.decision)
			if diff := cmp.Diff(want, *got.Result); diff != "" || got.Allowed {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitsAreWholeSecondsRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int32{-time.Hour: 0, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 24 * time.Hour: 86400, 1 << 62: 1<<31 - 1} {
		if got := seconds(d); got != want {
			t.Errorf("%s: %d, want %d", d, got, want)
		}
	}
}

func TestWarningsAreShortEnoughForTheAPIServer(t *testing.T) {
	check, c := fakeChecker(nil)
	tool := strings.Repeat("t", 128)
	raw := strings.Replace(reportJSON(`"name":"mine"`, `"error":{"httpStatus":503}`), `"search"`, fmt.Sprintf("%q", tool+"é\u202e"), 1)
	got := (&Answerer{Checker: check, Client: c, Decoder: admission.NewDecoder(testenv.Scheme())}).Handle(t.Context(), request(raw))
	if !got.Allowed || len(got.Warnings) != 1 || len(got.Warnings[0]) > 256 || !strings.HasPrefix(got.Warnings[0], "Diagnosis pending: the error of ttt") {
		t.Errorf("answered: %+v", got)
	}
}
