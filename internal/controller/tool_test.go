package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

func TestWhatAServerSaysAppearsInTheConditions(t *testing.T) {
	before := func(generation int64, kind, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "as it said", ObservedGeneration: generation}}
	}
	unsafe, misfit := v1alpha1.ReasonMarkedUnsafe, v1alpha1.ReasonInputInvalid
	for _, tc := range []struct {
		name                string
		before              []metav1.Condition
		look                probe.Look
		wantReady, wantSafe string
	}{
		{"nothing against it", nil, probe.Look{Known: true}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
		{"nothing at all", nil, probe.Look{}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
		{"it destroys", nil, probe.Look{Known: true, Refused: probe.RefusedUnsafe}, v1alpha1.ReasonConfigured, unsafe},
		{"the input does not fit", nil, probe.Look{Known: true, Refused: probe.RefusedInput}, misfit, v1alpha1.ReasonSafeProbe},
		{"it destroyed, and now says nothing", before(2, v1alpha1.ConditionProbeSafe, unsafe), probe.Look{}, v1alpha1.ReasonConfigured, unsafe},
		{"it destroyed, and says nothing of the changed Tool", before(1, v1alpha1.ConditionProbeSafe, unsafe), probe.Look{}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
		{"it destroyed, and does no more", before(2, v1alpha1.ConditionProbeSafe, unsafe), probe.Look{Known: true}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
		{"the input did not fit, and now it says nothing", before(2, v1alpha1.ConditionReady, misfit), probe.Look{}, misfit, v1alpha1.ReasonSafeProbe},
		{"the input did not fit, and does now", before(2, v1alpha1.ConditionReady, misfit), probe.Look{Known: true}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
		{"a credential was missing, and now it says nothing", before(2, v1alpha1.ConditionReady, v1alpha1.ReasonCredentialNotFound), probe.Look{}, v1alpha1.ReasonConfigured, v1alpha1.ReasonSafeProbe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1alpha1.ToolStatus{Conditions: tc.before}}
			ready, safe := withLook(tool, tc.look, condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonConfigured, ""),
				condition(v1alpha1.ConditionProbeSafe, true, v1alpha1.ReasonSafeProbe, ""))
			if ready.Reason != tc.wantReady || safe.Reason != tc.wantSafe {
				t.Errorf("Ready %s, ProbeSafe %s, want %s and %s", ready.Reason, safe.Reason, tc.wantReady, tc.wantSafe)
			}
		})
	}
}

// A server is asked anew where a probe went otherwise than the conditions say, for what it says of the tool alone: that a
// user has no Secret is no reason, however often it is met.
func TestWhatContradictsATool(t *testing.T) {
	unsafe := []metav1.Condition{{Type: v1alpha1.ConditionProbeSafe, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonMarkedUnsafe, ObservedGeneration: 1}}
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		probe      v1alpha1.ProbeAudit
		want       bool
	}{
		{"a probe of a safe tool", nil, v1alpha1.ProbeAudit{Possible: true, Success: true}, false},
		{"the server marks it as unsafe now", nil, v1alpha1.ProbeAudit{Refused: string(probe.RefusedUnsafe)}, true},
		{"its input does not fit any more", nil, v1alpha1.ProbeAudit{Refused: string(probe.RefusedInput)}, true},
		{"the user has no Secret", nil, v1alpha1.ProbeAudit{Response: "credential not found"}, false},
		{"an unsafe tool was probed", unsafe, v1alpha1.ProbeAudit{Possible: true}, true},
		{"an unsafe tool was not", unsafe, v1alpha1.ProbeAudit{Refused: string(probe.RefusedUnsafe)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "search", Generation: 1}, Status: v1alpha1.ToolStatus{Conditions: tc.conditions}}
			c := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(tool).WithIndex(tool, registry.CalledAsIndex, registry.IndexCalledAs).Build()
			r := &ToolReconciler{Client: c}
			r.looks.remember(tool, probe.Look{Known: true})
			job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: "p"}, Spec: v1alpha1.DiagnosisJobSpec{ToolName: "search"},
				Status: v1alpha1.DiagnosisJobStatus{Probes: []v1alpha1.ProbeAudit{tc.probe}}}
			asked := len(r.contradicted(t.Context(), job)) == 1
			if _, remembered := r.looks.find(tool); asked != tc.want || remembered == tc.want {
				t.Errorf("it is asked anew: %t, what it said is remembered: %t", asked, remembered)
			}
		})
	}
}

func TestASecretThatIsMissingIsLookedForSoon(t *testing.T) {
	naming := &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Credentials: &v1alpha1.ToolCredentials{System: &v1alpha1.SecretName{Name: "key"}}}}
	good := condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonConfigured, "")
	for name, tc := range map[string]struct {
		tool  *v1alpha1.Tool
		ready metav1.Condition
		want  time.Duration
	}{
		"one that can be used":          {naming, good, 5 * time.Minute},
		"one that is missing":           {naming, notReady(v1alpha1.ReasonCredentialNotFound, ""), 30 * time.Second},
		"one that may not be read":      {naming, notReady(v1alpha1.ReasonCredentialNotReadable, ""), 30 * time.Second},
		"none is named":                 {&v1alpha1.Tool{}, good, 0},
		"none is named, and not usable": {&v1alpha1.Tool{}, notReady(v1alpha1.ReasonInputInvalid, ""), 0},
	} {
		if got := nextLook(tc.tool, tc.ready); got != tc.want {
			t.Errorf("%s: looked at after %s, want %s", name, got, tc.want)
		}
	}
}

func TestALookIsRememberedForOneGenerationOfOneTool(t *testing.T) {
	tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "search", UID: "1", Generation: 1}}
	var l looks
	l.remember(tool, probe.Look{Known: true})
	changed, recreated := tool.DeepCopy(), tool.DeepCopy()
	changed.Generation, recreated.UID = 2, "2"
	for name, tc := range map[string]struct {
		tool *v1alpha1.Tool
		want bool
	}{"the same": {tool, true}, "changed": {changed, false}, "created anew": {recreated, false}} {
		if _, ok := l.find(tc.tool); ok != tc.want {
			t.Errorf("%s: remembered %t", name, ok)
		}
	}
	l.forget(types.NamespacedName{Namespace: "p", Name: "search"})
	if _, ok := l.find(tool); ok {
		t.Error("it is not forgotten")
	}
}
