package restapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// bearing is a request with a token.
func bearing(ctx context.Context, t *testing.T, token string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// While nothing is said about any token, those who are not known wait in places of their own, and no more of them than
// there are; who is known never waits behind them. A token that was refused stays a stranger's.
func TestStrangersWaitApart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refused bool
	}{{"tokens that nobody sent before", false}, {"tokens that were refused before", true}} {
		t.Run(tc.name, func(t *testing.T) { strangersWait(t, tc.refused) })
	}
}

func strangersWait(t *testing.T, refused bool) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC))
	api := &reviewer{hold: make(chan struct{}), asked: make(chan struct{}, maxStrangers)}
	api.allowed.Store(true)
	access := api.access(t, clock)
	close(api.hold)
	for i := 0; refused && i <= maxStrangers; i++ {
		_, err := access.Authenticate(bearing(t.Context(), t, fmt.Sprint("made-up-", i)))
		isUnauthorized(t, err)
		<-api.asked
	}
	clock.Step(freshFor)
	_, err := access.Authenticate(bearing(t.Context(), t, "good"))
	must(t, err)
	<-api.asked

	api.hold = make(chan struct{})
	var waiting sync.WaitGroup
	for i := range maxStrangers {
		r := bearing(t.Context(), t, fmt.Sprint("made-up-", i))
		waiting.Go(func() {
			_, err := access.Authenticate(r)
			isUnauthorized(t, err)
		})
	}
	for range maxStrangers {
		<-api.asked
	}
	for i, token := range []string{"made-up-0", fmt.Sprint("made-up-", maxStrangers), "newcomer"} { // Nor does a token that is asked about already.
		w := newRecorder()
		_, err := access.Authenticate(bearing(t.Context(), t, token))
		writeProblem(w, newRequest(t), err)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("stranger %d more: %d, Retry-After %q", i, w.Code, w.Header().Get("Retry-After"))
		}
	}
	if who, err := access.Authenticate(bearing(t.Context(), t, "good")); err != nil || who.Username != "alice" {
		t.Errorf("who is known: %+v, %v", who, err)
	}
	close(api.hold)
	waiting.Wait()
	_, err = access.Authenticate(bearing(t.Context(), t, "newcomer"))
	isUnauthorized(t, err)
}

func isUnauthorized(t *testing.T, err error) {
	t.Helper()
	if got := asProblem(err); got == nil || got.status != http.StatusUnauthorized {
		t.Errorf("got %v, want that the token is nobody's", err)
	}
}

// The whole API, under a flood of made-up tokens while the API server hangs.
func TestKnownCallersAreAnsweredUnderAFloodOfMadeUpTokens(t *testing.T) {
	p := newWorld(t).project("")
	token := p.runtime()
	known := status("search", 403, forUser("alice"))
	p.report(token, known)
	eventually(t, "the cooldown", func() bool { return p.report(token, known).Outcome == "CoolingDown" })
	p.health(token, "search", "alice")

	p.outage.hangs.Store(true)
	var flood sync.WaitGroup
	var ended atomic.Bool
	var tokens atomic.Int64
	turned := make(chan string, 1) // The first of who is turned away.
	for range 2 * maxInFlight {
		flood.Go(func() {
			for !ended.Load() {
				_, err := post(http.DefaultClient, p, fmt.Sprint("made-up-", tokens.Add(1)), rest.Report{})
				if err == nil {
					t.Error("a made-up token is accepted")
					return
				}
				select {
				case turned <- err.Error():
				default:
				}
			}
		})
	}
	eventually(t, "strangers to take all their places", func() bool { return len(p.server.Access.strangers) == maxStrangers })
	<-turned
	for range 50 {
		if v := p.report(token, known); v.Outcome != "CoolingDown" {
			t.Errorf("a known caller is answered %+v", v)
		}
	}
	p.health(token, "search", "alice")
	p.outage.hangs.Store(false)
	ended.Store(true)
	flood.Wait()
	if stranger := p.caller("newcomer", "agrajag-reporter"); p.health(stranger, "search", "").State != "OK" {
		t.Error("a newcomer is not answered once the flood is over")
	}
}

func TestRefusalsCrowdOutNothingThatWasGranted(t *testing.T) {
	now := time.Date(2026, 5, 23, 15, 0, 0, 0, time.UTC)
	m := &answers[int, bool]{grants: func(allowed bool) bool { return allowed }}
	m.put(-1, true, now)
	for i := range maxRemembered * 2 {
		m.put(i, false, now)
	}
	if value, _, ok := m.get(-1, now); !ok || !value {
		t.Error("what was granted is forgotten")
	}
	if len(m.refused.answers) > maxRemembered {
		t.Errorf("%d refusals", len(m.refused.answers))
	}
	for _, step := range []bool{false, true, false} { // The last word counts.
		now = now.Add(freshFor)
		m.put(-1, step, now)
		if value, age, ok := m.get(-1, now); value != step || age != 0 || !ok {
			t.Errorf("%t is remembered as %t, %s old", step, value, age)
		}
	}
}
