// Package probe calls a tool the way its Tool object allows, so that a diagnosis rests on what the tool answers
// now and not on what somebody reported.
//
// It is the only part of the manager that sends requests to addresses which users choose. So everything it sends
// comes from the Tool alone, every connection passes the Guard, a credential goes only where its Secret says, and
// whatever could not be tried is told apart from what was tried and failed: Result.Possible against Result.Success.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

const (
	// maxAnswer bounds what is read of one answer, in bytes after decompression (design §5).
	maxAnswer = 64 << 10
	// maxAnswerHeader bounds the headers of one answer, in bytes.
	maxAnswerHeader = 64 << 10
	// defaultTimeout bounds a probe whose Tool says nothing (ToolProbe.timeoutSeconds).
	defaultTimeout = 10 * time.Second
	// maxTimeout is the most that a Tool may ask for (ToolProbe.timeoutSeconds).
	maxTimeout = 60 * time.Second
)

// Input holds the arguments of a probe.
type Input struct {
	// JSON is an object of at most MaxInput bytes. Empty: no arguments.
	JSON json.RawMessage
	// ByModel is true if a model chose the arguments. They are sent only if the Tool allows that
	// (Target.AllowModelInput) and they fit the tool's input schema.
	ByModel bool
}

// Refusal is what the prober itself has against a probe.
type Refusal string

const (
	// RefusedUnsafe means that the tool's server says of it that it writes or destroys.
	RefusedUnsafe Refusal = "Unsafe"
	// RefusedInput means that the input does not fit the tool's input schema.
	RefusedInput Refusal = "Input"
)

// Identity is as whom a tool is probed.
type Identity struct {
	// As is what the audit of the probe will say.
	As v1alpha1.ProbeIdentity
	// Credential is sent with the probe. Nil: the probe carries none.
	Credential *Credential
}

// Result says what came of a probe. It holds no credential, not even if the tool sent it back.
type Result struct {
	// As is the identity of the probe.
	As v1alpha1.ProbeIdentity
	// ByModel is true if a model chose the input.
	ByModel bool
	// At is when the probe began.
	At time.Time
	// Possible is false if the tool was not asked, or not long enough to say anything about it. Such a probe is
	// no evidence for an outage.
	Possible bool
	// Impossible tells a person why the probe was not possible and what to do about it. Empty if it was.
	Impossible string
	// Refused is set if the probe was not possible because the prober refused it. Empty for any other reason.
	Refused Refusal
	// Success is true if the answer was as spec.probe.expect says.
	Success bool
	// Duration is how long the probe took, the closing of an MCP session apart.
	Duration time.Duration
	// StatusCode is the HTTP status of the last answer, 0 if there was none.
	StatusCode int
	// Error is what a failed probe met, as the classifier reads it. Nil unless the probe was possible and failed.
	Error *v1alpha1.ToolError
	// AuthChallenge is true if the probe carried no credential and the server asked for one. It was reached, so
	// this is no outage.
	AuthChallenge bool
}

// Options configure a Prober.
type Options struct {
	// Guard decides to which addresses probes may connect.
	Guard Guard
	// Clock gives the times in Results. Nil: the system's clock.
	Clock clock.PassiveClock
	// RootCAs verify the certificates of tools. Nil: the system's.
	RootCAs *x509.CertPool
}

// Prober probes tools. It is safe for concurrent use.
type Prober struct {
	clock     clock.PassiveClock
	transport http.RoundTripper
}

// New returns a Prober.
func New(opts Options) *Prober {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	transport := opts.Guard.transport()
	// A connection that one identity opened must not serve another: servers exist that remember on a connection
	// who authenticated it.
	transport.DisableKeepAlives = true
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opts.RootCAs}
	return &Prober{clock: opts.Clock, transport: answersOnly{transport}}
}

// Probe calls what t names once, as id, with input. It never returns an error and never panics: the Result says
// what happened. It takes no longer than the Tool's timeout, and closeGrace more to close an MCP session.
func (p *Prober) Probe(ctx context.Context, t Target, id Identity, input Input) (result Result) {
	start := p.clock.Now()
	defer func() {
		// What a tool answers is parsed by libraries too. Should one of them panic, that is our fault, not the tool's.
		if r := recover(); r != nil {
			result = impossible("the probe broke off because of a programming error (%T); please report it", r)
		}
		result.As, result.ByModel, result.At = id.As, input.ByModel, start
		if result.Duration == 0 {
			result.Duration = p.clock.Since(start)
		}
	}()
	if reason := t.mayBeCalled(id, input); reason != nil {
		return impossible("%v", reason)
	}
	run := &run{prober: p, target: t, credential: id.Credential, start: start, secrets: t.secretsOf(id.Credential)}
	callCtx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if t.mcp != nil {
		result = run.mcp(ctx, callCtx, input)
	} else {
		result = run.http(callCtx, input)
	}
	if !result.Success && ctx.Err() != nil {
		// The diagnosis was stopped, or its own time ran out before the tool's: neither is the tool's doing.
		return impossible("the probe was broken off because the diagnosis ended: %v", context.Cause(ctx))
	}
	return result
}

// run is one probe on its way.
type run struct {
	prober     *Prober
	target     Target
	credential *Credential
	start      time.Time
	took       time.Duration // 0: the duration is measured when the Result is made
	secrets    redact.Values
}

// httpClient returns an HTTP client over transport that takes a redirect for the answer: where it points is the
// server's choice, and so not for a credential or for a probe.
func httpClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// impossible returns the Result of a probe that says nothing about the tool.
func impossible(format string, args ...any) Result {
	return Result{Impossible: fmt.Sprintf(format, args...)}
}
