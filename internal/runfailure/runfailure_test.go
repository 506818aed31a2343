package runfailure

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

var t0 = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)

// transient is a failure that may pass.
func transient(change ...func(*Failure)) Failure {
	f := Failure{Category: v1alpha1.FailureProviderTransient, Stage: v1alpha1.StageAsk, Kind: "Overloaded", Message: "HTTP status 503: overloaded", Attempt: 1}
	for _, c := range change {
		c(&f)
	}
	return f
}

func TestTheReceipt(t *testing.T) {
	due := metav1.NewTime(t0.Add(TransientDelay))
	want := v1alpha1.RunDecision{
		SchemaVersion: 1, Action: v1alpha1.RunRetry, Reason: ReasonMayPass, Category: v1alpha1.FailureProviderTransient, Kind: "Overloaded",
		Stage: v1alpha1.StageAsk, Retryable: true, Fingerprint: "fp:v1:" + "FINGERPRINT", Attempt: 1, DueAt: &due,
		DecidedAt: metav1.NewTime(t0), Message: "HTTP status 503: overloaded",
	}
	got := Decide(transient(), nil, t0)
	if !regexp.MustCompile(`^fp:v1:[0-9a-f]{20}$`).MatchString(got.Fingerprint) {
		t.Errorf("fingerprint %q", got.Fingerprint)
	}
	got.Fingerprint = want.Fingerprint
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

// The table of companion §3.
func TestEveryCategory(t *testing.T) {
	type outcome struct {
		action v1alpha1.RunAction
		reason string
		delay  time.Duration
	}
	again, change := outcome{v1alpha1.RunRetry, ReasonMayPass, 0}, outcome{v1alpha1.RunTerminate, ReasonNeedsChange, 0}
	later, keep := outcome{v1alpha1.RunRetry, ReasonMayPass, 30 * time.Second}, outcome{v1alpha1.RunPreserve, ReasonUnknown, 0}
	for category, want := range map[v1alpha1.RunFailureCategory]outcome{
		v1alpha1.FailureContextMismatch: again, v1alpha1.FailureInsufficientContext: again, v1alpha1.FailureModelOutput: again,
		v1alpha1.FailureProviderTransient: later, v1alpha1.FailureTimeout: again, v1alpha1.FailureTurnLimit: again, v1alpha1.FailureWorkspace: again,
		v1alpha1.FailureCredentials: change, v1alpha1.FailurePolicy: change, v1alpha1.FailureProviderBudget: change, v1alpha1.FailureProviderRequest: change,
		v1alpha1.FailureReviewRejected: change, v1alpha1.FailureStaleIssue: change, v1alpha1.FailureTokenBudget: change, v1alpha1.FailureVerification: change,
		v1alpha1.FailureUnknown: keep, "": keep, "made_up": keep,
	} {
		d := Decide(Failure{Category: category, Attempt: 1}, nil, t0)
		got := outcome{d.Action, d.Reason, 0}
		if d.DueAt != nil {
			got.delay = d.DueAt.Sub(t0)
		}
		if got != want || (d.DueAt != nil) != (d.Action == v1alpha1.RunRetry) || d.Retryable != (d.Action == v1alpha1.RunRetry) {
			t.Errorf("%q: got %+v (retryable %v), want %+v", category, got, d.Retryable, want)
		}
		if d.Action == v1alpha1.RunPreserve && d.Category != v1alpha1.FailureUnknown {
			t.Errorf("%q: written as %q", category, d.Category)
		}
	}
}

func TestRulesInTheirOrder(t *testing.T) {
	first := Decide(transient(), nil, t0)
	attempt := func(n int32) func(*Failure) { return func(f *Failure) { f.Attempt = n } }
	category := func(c v1alpha1.RunFailureCategory) func(*Failure) { return func(f *Failure) { f.Category = c } }
	final := func(f *Failure) { f.Final = true }
	for _, tc := range []struct {
		name    string
		failure Failure
		past    []v1alpha1.RunDecision
		want    v1alpha1.RunAction
		reason  string
	}{
		{"the first failure may pass", transient(), nil, v1alpha1.RunRetry, ReasonMayPass},
		{"the same one again is terminal", transient(attempt(2)), []v1alpha1.RunDecision{first}, v1alpha1.RunTerminate, ReasonSameFailureAgain},
		{"another one after a retry is, too", transient(attempt(2), category(v1alpha1.FailureTimeout)), []v1alpha1.RunDecision{first}, v1alpha1.RunTerminate, ReasonRetriedBefore},
		{"an unknown one after a retry is, too", transient(attempt(2), category(v1alpha1.FailureUnknown)), []v1alpha1.RunDecision{first}, v1alpha1.RunTerminate, ReasonRetriedBefore},
		{"a run that was lost used up the retry", transient(attempt(2)), nil, v1alpha1.RunTerminate, ReasonRetriedBefore},
		{"what is final is kept", transient(final), nil, v1alpha1.RunPreserve, ReasonNotRetryable},
		{"what needs a change needs it all the same", transient(final, category(v1alpha1.FailureCredentials)), nil, v1alpha1.RunTerminate, ReasonNeedsChange},
		{"a former end is no retry", transient(attempt(1), category(v1alpha1.FailureTimeout)), []v1alpha1.RunDecision{{Action: v1alpha1.RunTerminate, Attempt: 7}}, v1alpha1.RunRetry, ReasonMayPass},
		{"a retry under the same key counts, whoever counted it", transient(attempt(1), category(v1alpha1.FailureTimeout)), []v1alpha1.RunDecision{{Action: v1alpha1.RunRetry, Attempt: 7}}, v1alpha1.RunTerminate, ReasonRetriedBefore},
		{"attempts count from one", transient(attempt(0)), nil, v1alpha1.RunRetry, ReasonMayPass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := Decide(tc.failure, tc.past, t0); d.Action != tc.want || d.Reason != tc.reason {
				t.Errorf("got %s, %s; want %s, %s", d.Action, d.Reason, tc.want, tc.reason)
			}
		})
	}
}

func TestDecidingTwiceSaysTheSame(t *testing.T) {
	first := Decide(transient(), nil, t0)
	again := Decide(transient(func(f *Failure) { f.Category = v1alpha1.FailureCredentials }), []v1alpha1.RunDecision{first}, t0.Add(time.Hour))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
}

func TestARetryIsDueInBounds(t *testing.T) {
	now := t0.Add(400 * time.Millisecond)
	for _, tc := range []struct {
		name     string
		category v1alpha1.RunFailureCategory
		wait     time.Duration
		want     time.Duration // after t0
	}{
		{"unless the provider says otherwise, in 30 s", v1alpha1.FailureProviderTransient, 0, 31 * time.Second},
		{"as it says", v1alpha1.FailureProviderTransient, 12 * time.Second, 13 * time.Second},
		{"never too early", v1alpha1.FailureProviderTransient, 2500 * time.Millisecond, 3 * time.Second},
		{"at most in five minutes", v1alpha1.FailureProviderTransient, time.Hour, 301 * time.Second},
		{"a wait below zero is none", v1alpha1.FailureProviderTransient, -time.Hour, 31 * time.Second},
		{"nothing else waits", v1alpha1.FailureTimeout, time.Minute, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(Failure{Category: tc.category, Wait: tc.wait, Attempt: 1}, nil, now)
			if got := d.DueAt.Sub(t0); got != tc.want {
				t.Errorf("due after %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFingerprints(t *testing.T) {
	of := func(change func(*Failure)) string { return Decide(transient(change), nil, t0).Fingerprint }
	message := func(s string) string { return of(func(f *Failure) { f.Message = s }) }
	base := message("request 6fa459ea-ee8a-3ca4-894e-db77e160355e timed out after 31 s, see /tmp/run-8812/log")
	if again := message("Request 16fd2706-8baf-433b-82eb-8c7fada847da timed out after 29 s, see /tmp/run-17/log"); again != base {
		t.Errorf("chance makes two of one failure: %s and %s", base, again)
	}
	for name, other := range map[string]string{
		"another message":  message("connection refused"),
		"another kind":     of(func(f *Failure) { f.Kind = "Unreachable" }),
		"another stage":    of(func(f *Failure) { f.Stage = v1alpha1.StageParse }),
		"another category": of(func(f *Failure) { f.Category = v1alpha1.FailureTimeout }),
	} {
		if other == Decide(transient(), nil, t0).Fingerprint {
			t.Errorf("%s has the same fingerprint", name)
		}
	}
}

func TestTextIsBounded(t *testing.T) {
	d := Decide(Failure{Kind: strings.Repeat("k", 500), Message: "a\x1b[31m\n" + strings.Repeat("é", 5000)}, nil, t0)
	if len(d.Kind) > 64 || len(d.Message) > 500 || strings.ContainsAny(d.Message, "\x1b\n") {
		t.Errorf("kind of %d bytes, message %q", len(d.Kind), d.Message)
	}
	if d := Decide(Failure{}, nil, t0); d.Kind == "" || d.Attempt != 1 {
		t.Errorf("the API refuses %+v", d)
	}
}
