package llm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// FailureKind says in which way a model failed to answer.
type FailureKind string

// The kinds of failure. What becomes of a run that ends with one is for the caller to decide.
const (
	// RateLimited means that the endpoint asks for fewer requests; Failure.Wait says how long, where it does.
	RateLimited FailureKind = "RateLimited"
	// Overloaded means that the endpoint failed by its own account, or broke off.
	Overloaded FailureKind = "Overloaded"
	// TimedOut means that no answer came in time.
	TimedOut FailureKind = "TimedOut"
	// Unreachable means that no connection came about.
	Unreachable FailureKind = "Unreachable"
	// KeyRefused means that the endpoint does not accept the key, or not for this.
	KeyRefused FailureKind = "KeyRefused"
	// NoFunds means that the account may spend no more.
	NoFunds FailureKind = "NoFunds"
	// UnknownModel means that the endpoint has no such model.
	UnknownModel FailureKind = "UnknownModel"
	// NoTools means that the model, or its server as it is set up, can call no tools.
	NoTools FailureKind = "NoTools"
	// TooLong means that the request is longer than the model can read.
	TooLong FailureKind = "TooLong"
	// ContentFiltered means that the endpoint's content filter, or the model itself, declined.
	ContentFiltered FailureKind = "ContentFiltered"
	// BadRequest means that the endpoint refuses the request for another reason.
	BadRequest FailureKind = "BadRequest"
	// Misdirected means that what answers is no such API, or may not be asked: a redirect, a web page, another
	// certificate, a forbidden address.
	Misdirected FailureKind = "Misdirected"
	// Unreadable means that the answer is not of the API's form.
	Unreadable FailureKind = "Unreadable"
	// Empty means that the answer holds neither text nor calls.
	Empty FailureKind = "Empty"
	// CutOff means that the answer reached its length limit before it said anything.
	CutOff FailureKind = "CutOff"
	// Unknown is what is none of the others.
	Unknown FailureKind = "Unknown"
)

// FailureKinds are all of them.
func FailureKinds() []FailureKind {
	return []FailureKind{RateLimited, Overloaded, TimedOut, Unreachable, KeyRefused, NoFunds, UnknownModel, NoTools, TooLong,
		ContentFiltered, BadRequest, Misdirected, Unreadable, Empty, CutOff, Unknown}
}

// mayPass reports whether the same request may well be answered a little later.
func (k FailureKind) mayPass() bool {
	switch k {
	case RateLimited, Overloaded, TimedOut, Unreachable, Unreadable, Empty, CutOff:
		return true
	default:
		return false
	}
}

// ofEndpoint reports whether every model behind the same endpoint fails alike, so that asking the next one is no use.
func (k FailureKind) ofEndpoint() bool {
	switch k {
	case Unreachable, KeyRefused, NoFunds, Misdirected:
		return true
	default:
		return false
	}
}

// Failure is the error of a Chat that could be asked, or should have been, and gave no answer that can be used.
type Failure struct {
	Kind FailureKind
	// Wait is how long the endpoint asks to be left alone; 0: it does not say.
	Wait time.Duration
	// MayCost says that the endpoint may have worked for the request before it failed, so that the provider may bill it: the
	// request reached it, and no answer says that it was refused. Of several models' failures it says so if one does.
	MayCost bool
	// refused says that an answer came which refuses the request without work.
	refused bool
	// message says what happened, in one plain line of at most maxFailures bytes and without credentials.
	message string
}

// Error says what happened, model by model.
func (f *Failure) Error() string { return f.message }

// and returns the failure with more to say.
func (f *Failure) and(more string) *Failure {
	return &Failure{Kind: f.Kind, Wait: f.Wait, MayCost: f.MayCost, message: text.Plain(f.message+"; "+more, maxFailures)}
}

// maxFailures bounds the text of a Failure, in bytes: four models' errors.
const maxFailures = 1400

// sum returns what the failures of several models, in the order in which they were asked, come to: if any may pass by
// itself, the first of those, with the least wait; else the first, which is the one to mend.
func sum(models []string, failures []*Failure) *Failure {
	chosen := failures[0]
	var wait time.Duration
	mayCost := false
	parts := make([]string, 0, len(failures))
	for i, f := range failures {
		parts = append(parts, fmt.Sprintf("model %s: %s", text.Plain(models[i], maxModelName), f.message))
		if f.Kind.mayPass() && !chosen.Kind.mayPass() {
			chosen = f
		}
	}
	for _, f := range failures {
		mayCost = mayCost || f.MayCost
		if f.Kind == chosen.Kind && f.Wait > 0 {
			wait = min(cmp.Or(wait, f.Wait), f.Wait)
		}
	}
	return &Failure{Kind: chosen.Kind, Wait: wait, MayCost: mayCost, message: text.Plain(strings.Join(parts, "; "), maxFailures)}
}

// maxModelName bounds what an error quotes of a model's name, in bytes.
const maxModelName = 64

// tame returns an endpoint's or a library's words as far as they may be shown: an endpoint may send back the key it got,
// in pieces between characters that are not shown.
func tame(message, key string) string {
	known := knownOf(key)
	if len(message) > maxErrorBody {
		message = known.Part(message[:maxErrorBody])
	}
	return text.Plain(redact.Cut(known.Text(message), maxErrorText), maxErrorText)
}

// knownOf returns a key as it is and as one line.
func knownOf(key string) redact.Values {
	return redact.ValuesOf(text.Shown(key), text.Plain(key, maxErrorBody))
}
