// Package runfailure decides what is done about a run that failed itself, a diagnosis as well as any other run of an
// agent: it is retried, ended, or kept for a person to look at. The rules and numbers are those of "Diagnose agent
// failure" (companion §3); they depend on the failure and on what was decided before, and on nothing else.
package runfailure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify/fingerprint"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// TransientDelay is when a run is tried again whose provider was overloaded and did not say for how long
	// (companion §3).
	TransientDelay = 30 * time.Second
	// MaxDelay is the longest delay of a retry (companion §3).
	MaxDelay = 300 * time.Second
	// fingerprintLength is the length of a fingerprint behind its version, in hexadecimal digits (companion §3).
	fingerprintLength = 20
	maxKind           = 64
	maxMessage        = 500
)

// Reasons of a decision: which rule decided.
const (
	// ReasonSameFailureAgain goes with terminate: the retry failed in the same way.
	ReasonSameFailureAgain = "SameFailureAgain"
	// ReasonRetriedBefore goes with terminate: the one retry was used for something else.
	ReasonRetriedBefore = "RetriedBefore"
	// ReasonMayPass goes with retry.
	ReasonMayPass = "MayPass"
	// ReasonNeedsChange goes with terminate: a person has to change something first.
	ReasonNeedsChange = "NeedsChange"
	// ReasonNotRetryable goes with preserve: the category may pass, but this failure says that it does not.
	ReasonNotRetryable = "NotRetryable"
	// ReasonUnknown goes with preserve: nobody knows what failed.
	ReasonUnknown = "Unknown"
)

// Failure is why a run failed.
type Failure struct {
	Category v1alpha1.RunFailureCategory
	// Stage is how far the run got; empty: not known.
	Stage v1alpha1.RunStage
	// Kind says more closely what failed, in one word.
	Kind string
	// Message says what failed and what can be done about it, without secrets.
	Message string
	// Final says that another run would end the same, whatever the category says.
	Final bool
	// Wait is how long the provider asks to wait; 0: it does not say.
	Wait time.Duration
	// Attempt is which run under its key this was, from 1. The key of a run is what may be retried once: a job.
	Attempt int32
}

// Decide says what is done about a failure. Past holds what was decided before under the same key, in any order; a
// failure that was decided already gets the same decision again.
func Decide(f Failure, past []v1alpha1.RunDecision, now time.Time) v1alpha1.RunDecision {
	attempt := max(f.Attempt, 1)
	for _, before := range past {
		if before.Attempt == attempt {
			return before
		}
	}
	d := v1alpha1.RunDecision{
		SchemaVersion: v1alpha1.RunDecisionVersion,
		Category:      f.category(),
		Kind:          cmp.Or(text.Plain(f.Kind, maxKind), string(v1alpha1.FailureUnknown)),
		Stage:         f.Stage,
		Retryable:     mayPass(f.Category) && !f.Final,
		Fingerprint:   f.fingerprint(),
		Attempt:       attempt,
		DecidedAt:     metav1.NewTime(now),
		Message:       text.Plain(f.Message, maxMessage),
	}
	d.Action, d.Reason = choose(d, past)
	if d.Action == v1alpha1.RunRetry {
		due := metav1.NewTime(dueAt(now, f.delay()))
		d.DueAt = &due
	}
	return d
}

// choose applies the rules in their order.
func choose(d v1alpha1.RunDecision, past []v1alpha1.RunDecision) (v1alpha1.RunAction, string) {
	retried := d.Attempt > 1 // A second run was begun, be it only because the first one was lost.
	for _, before := range past {
		if before.Action != v1alpha1.RunRetry {
			continue
		}
		if before.Fingerprint == d.Fingerprint {
			return v1alpha1.RunTerminate, ReasonSameFailureAgain
		}
		retried = true
	}
	switch {
	case retried:
		return v1alpha1.RunTerminate, ReasonRetriedBefore
	case d.Retryable:
		return v1alpha1.RunRetry, ReasonMayPass
	case needsChange(d.Category):
		return v1alpha1.RunTerminate, ReasonNeedsChange
	case d.Category == v1alpha1.FailureUnknown:
		return v1alpha1.RunPreserve, ReasonUnknown
	default:
		return v1alpha1.RunPreserve, ReasonNotRetryable
	}
}

func mayPass(c v1alpha1.RunFailureCategory) bool {
	switch c {
	case v1alpha1.FailureContextMismatch, v1alpha1.FailureInsufficientContext, v1alpha1.FailureModelOutput,
		v1alpha1.FailureProviderTransient, v1alpha1.FailureTimeout, v1alpha1.FailureTurnLimit, v1alpha1.FailureWorkspace:
		return true
	default:
		return false
	}
}

func needsChange(c v1alpha1.RunFailureCategory) bool {
	switch c {
	case v1alpha1.FailureCredentials, v1alpha1.FailurePolicy, v1alpha1.FailureProviderBudget, v1alpha1.FailureProviderRequest,
		v1alpha1.FailureReviewRejected, v1alpha1.FailureStaleIssue, v1alpha1.FailureTokenBudget, v1alpha1.FailureVerification:
		return true
	default:
		return false
	}
}

// category is the failure's, if it is a known one.
func (f Failure) category() v1alpha1.RunFailureCategory {
	if mayPass(f.Category) || needsChange(f.Category) {
		return f.Category
	}
	return v1alpha1.FailureUnknown
}

// delay returns how long a retry waits: only a provider gains by it.
func (f Failure) delay() time.Duration {
	switch {
	case f.Category != v1alpha1.FailureProviderTransient:
		return 0
	case f.Wait > 0:
		return min(f.Wait, MaxDelay)
	default:
		return TransientDelay
	}
}

// dueAt returns the first whole second, as times in the API are, that is not before the delay has passed.
func dueAt(now time.Time, delay time.Duration) time.Time {
	due := now.Add(delay)
	if whole := due.Truncate(time.Second); whole.Before(due) {
		return whole.Add(time.Second)
	}
	return due
}

// fingerprint returns what is the same for failures that differ only by chance: the version of its normalisation and 20
// hexadecimal digits over category, stage, kind and message.
func (f Failure) fingerprint() string {
	parts := []string{fingerprint.Version, string(f.category()), string(f.Stage), f.Kind, fingerprint.Normalise(f.Message)}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return fingerprint.Version + ":" + hex.EncodeToString(sum[:])[:fingerprintLength]
}
