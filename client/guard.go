package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// Mode says what a Guard does with a call of a tool that is known to be DOWN.
type Mode int

const (
	// Refuse returns a RefusedError instead. It is the default.
	Refuse Mode = iota
	// Warn tells GuardOptions.OnTrouble, and lets the call go on.
	Warn
	// Off asks nothing before a call. Errors and successes are reported all the same.
	Off
)

// Defaults and bounds of a Guard.
const (
	// DefaultBudget is how long a call waits for Agrajag at most.
	DefaultBudget = 50 * time.Millisecond
	// DefaultFreshFor is how long what is known of a tool spares another question.
	DefaultFreshFor = 2 * time.Second
	// restAfterFailure is how long nothing is asked after Agrajag was away or did not answer within the budget.
	restAfterFailure = time.Second
	// reportWithin bounds one report in the background.
	reportWithin = 10 * time.Second
	// maxQueued bounds the reports that wait, maxKnown the tools and callers that are remembered.
	maxQueued = 256
	maxKnown  = 4096
	// maxAsking bounds the tools and callers that are asked for at the same time: what is asked may not hear that nobody
	// waits any more.
	maxAsking = 64
)

// API is what a Guard needs of Agrajag. Client is one.
type API interface {
	Report(context.Context, rest.Report) (rest.Verdict, error)
	Success(context.Context, rest.Success) (rest.Health, error)
	Health(ctx context.Context, tool string, caller Caller) (rest.Health, error)
}

// GuardOptions say how calls are guarded.
type GuardOptions struct {
	Mode Mode
	// Budget is how long a call waits for Agrajag at most; 0: DefaultBudget.
	Budget time.Duration
	// FreshFor is how long what is known of a tool spares another question; 0: DefaultFreshFor.
	FreshFor time.Duration
	// OnTrouble is told of a call of a tool that is DOWN, in the modes Refuse and Warn. It must not block.
	OnTrouble func(ctx context.Context, tool string, health rest.Health)
	// OnVerdict is told of every verdict on an error that was reported. It must not block.
	OnVerdict func(tool string, caller Caller, verdict rest.Verdict)
}

// Guard stands around calls of tools: it asks before, and reports after. Nothing it does blocks or changes a call, but
// that one of a tool that is DOWN may be refused. It is safe for concurrent use.
type Guard struct {
	api     API
	o       GuardOptions
	queue   chan func(context.Context)
	stop    context.CancelFunc
	done    chan struct{}
	dropped atomic.Int64

	mu sync.Mutex
	// closed says that nothing is to be sent any more.
	closed bool
	// known is what was last heard of a tool.
	known map[subject]knowledge
	// asking are the questions under way, at most maxAsking.
	asking map[subject]*question
	// restUntil is until when nothing is asked.
	restUntil time.Time
}

// subject is a tool for a caller.
type subject struct {
	tool string
	Caller
}

type knowledge struct {
	health rest.Health
	at     time.Time
	// signature is that of the last error that was reported; empty: none.
	signature string
	failed    bool
}

// NewGuard returns a Guard, whose Close ends it.
func NewGuard(api API, o GuardOptions) *Guard {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.FreshFor <= 0 {
		o.FreshFor = DefaultFreshFor
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{api: api, o: o, queue: make(chan func(context.Context), maxQueued), stop: stop, done: make(chan struct{}), known: map[subject]knowledge{}, asking: map[subject]*question{}}
	go g.work(ctx)
	return g
}

// Close sends the reports that wait, for as long as ctx lets it, and ends the Guard. What is to be reported later is
// dropped. One that is being sent then may go on in the background until it hears that it is to end.
func (g *Guard) Close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.queue)
	}
	g.mu.Unlock()
	select {
	case <-g.done:
		g.stop()
		return nil
	case <-ctx.Done():
		g.stop()
		return ctx.Err()
	}
}

// Dropped returns how many reports were dropped because too many waited, or the Guard was closed.
func (g *Guard) Dropped() int64 { return g.dropped.Load() }

// work sends reports one after the other.
func (g *Guard) work(ctx context.Context) {
	defer close(g.done)
	for send := range g.queue {
		if ctx.Err() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, reportWithin)
		send(ctx)
		cancel()
	}
}

// enqueue has something sent, unless too much waits or the Guard is closed: calls may end after it.
func (g *Guard) enqueue(send func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.dropped.Add(1)
		return
	}
	select {
	case g.queue <- send:
	default:
		g.dropped.Add(1)
	}
}

// RefusedError says that a call was not made because the tool is DOWN. It is no error of the tool.
type RefusedError struct {
	Tool   string
	Health rest.Health
}

// Error tells what a model or a person is to know.
func (e *RefusedError) Error() string {
	message := fmt.Sprintf("%s was not called: it is DOWN", e.Tool)
	if e.Health.Text != "" {
		message += ". " + e.Health.Text
	}
	if e.Health.UserActionHint != "" {
		message += " The user can do this: " + e.Health.UserActionHint
	}
	return message
}

// callerKey is the key of the caller in a context.
type callerKey struct{}

// WithCaller says on whose behalf calls with a context are made.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func callerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// Before asks whether a tool may be called. The error, if there is one, is a RefusedError.
func (g *Guard) Before(ctx context.Context, tool string) error {
	if g.o.Mode == Off {
		return nil
	}
	health, ok := g.health(ctx, subject{tool, callerOf(ctx)})
	// A tool that is past its expected recovery is to be tried: the next call is the test.
	if !ok || health.State != "DOWN" || health.Retesting {
		return nil
	}
	if g.o.OnTrouble != nil {
		g.o.OnTrouble(ctx, tool, health)
	}
	if g.o.Mode == Refuse {
		return &RefusedError{Tool: tool, Health: health}
	}
	return nil
}

// remember changes what is known of a tool. Where there is no room, any other is forgotten.
func (g *Guard) remember(s subject, change func(*knowledge)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, have := g.known[s]
	if !have && len(g.known) >= maxKnown {
		for other := range g.known {
			delete(g.known, other)
			break
		}
	}
	change(&known)
	g.known[s] = known
}

// Failed reports a call that failed. A call that was cancelled, or refused by a Guard, is not: do not report those.
func (g *Guard) Failed(ctx context.Context, tool string, e rest.ToolError) {
	s := subject{tool, callerOf(ctx)}
	g.remember(s, func(k *knowledge) { k.failed, k.at = true, time.Time{} })
	g.enqueue(func(ctx context.Context) {
		verdict, err := g.api.Report(ctx, rest.Report{ToolName: tool, OriginatingUserID: s.User, OriginatingSessionID: s.Session, Error: &e})
		if err != nil {
			return // Agrajag is away: the next failure is reported again.
		}
		g.remember(s, func(k *knowledge) { k.signature = verdict.Signature })
		if g.o.OnVerdict != nil {
			g.o.OnVerdict(tool, s.Caller, verdict)
		}
	})
}

// Worked reports a call that worked, if there is something that it can clear: the tool was in trouble, or its last call
// failed.
func (g *Guard) Worked(ctx context.Context, tool string) {
	s := subject{tool, callerOf(ctx)}
	g.mu.Lock()
	known := g.known[s]
	troubled := known.failed || known.health.State != "" && known.health.State != "OK" || len(known.health.Cooldowns) > 0
	if troubled {
		g.known[s] = knowledge{}
	}
	g.mu.Unlock()
	if !troubled {
		return
	}
	g.enqueue(func(ctx context.Context) {
		_, _ = g.api.Success(ctx, rest.Success{ToolName: tool, OriginatingUserID: s.User, OriginatingSessionID: s.Session, ErrorSignature: known.signature})
	})
}

// IsRefused reports whether an error is, or came of, the refusal of a Guard: as of one further in, around the HTTP client
// of an MCP client. It is no error of the tool.
func IsRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// IsCancelled reports whether an error means that the caller gave up, which says nothing about the tool.
func IsCancelled(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled)
}
