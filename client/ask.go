package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// question is one that is under way. Whoever wants to know the same waits for it, too.
type question struct {
	// answered is closed when health and known are there.
	answered chan struct{}
	health   rest.Health
	// known says whether there was an answer.
	known bool
}

// health returns what is known of a tool, having asked within the budget. ok is false if nothing is.
func (g *Guard) health(ctx context.Context, s subject) (health rest.Health, ok bool) {
	now := time.Now()
	known, q := g.look(ctx, s, now)
	if q == nil {
		return current(known, now), !known.at.IsZero()
	}
	within, cancel := context.WithTimeout(ctx, g.o.Budget)
	defer cancel()
	select {
	case <-q.answered:
		return q.health, q.known
	case <-within.Done():
		if ctx.Err() == nil { // That the caller had no time left says nothing about Agrajag.
			g.rest()
		}
		return rest.Health{}, false
	}
}

// look returns what was heard of a tool lately, or the question about it that is under way or begins now. That outlasts a
// caller who gives up, since others may wait for it. Neither: nothing is to be asked now.
func (g *Guard) look(ctx context.Context, s subject, now time.Time) (knowledge, *question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.known[s]; !known.at.IsZero() && now.Sub(known.at) < g.o.FreshFor {
		return known, nil
	}
	if now.Before(g.restUntil) || ctx.Err() != nil {
		return knowledge{}, nil
	}
	q := g.asking[s]
	if q == nil && len(g.asking) < maxAsking {
		q = &question{answered: make(chan struct{})}
		g.asking[s] = q
		go g.answer(context.WithoutCancel(ctx), s, q, now)
	}
	return knowledge{}, q
}

// answer asks a question and remembers the answer. Whoever waits for it goes by the own budget: what is asked may be
// deaf, as a Token that is fetched over a network.
func (g *Guard) answer(ctx context.Context, s subject, q *question, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, g.o.Budget)
	defer cancel()
	health, err := g.api.Health(ctx, s.tool, s.Caller)
	switch {
	case err == nil:
		q.health, q.known = health, true
		g.remember(s, func(k *knowledge) { k.health, k.at = health, now })
	case isRefusal(err):
		g.remember(s, func(k *knowledge) { k.health, k.at = rest.Health{}, now })
	default:
		g.rest()
	}
	g.mu.Lock()
	delete(g.asking, s)
	g.mu.Unlock()
	close(q.answered)
}

// isRefusal reports whether Agrajag answered that it does not answer this: the name is none, or the caller may not ask.
// It says nothing about other questions, but for 429, which asks to be left alone.
func isRefusal(err error) bool {
	var problem *ProblemError
	return errors.As(err, &problem) && problem.Status/100 == 4 && problem.Status != http.StatusTooManyRequests
}

// rest has nothing asked for a while.
func (g *Guard) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restUntil = time.Now().Add(restAfterFailure)
}

// current returns what is known as it is now: an outage whose end was expected meanwhile is to be tried.
func current(known knowledge, now time.Time) rest.Health {
	health := known.health
	if at := health.ExpectedRecoveryAt; at != nil && !at.After(now) && health.State != "OK" {
		health.Retesting = true
	}
	return health
}
