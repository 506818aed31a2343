package budget

import (
	"context"
	"errors"
	"testing"
)

// A call of the API server that hangs keeps nobody longer than that one wants to wait, and forgets nothing that is
// settled meanwhile.
func TestASlowAPIServerKeepsNobody(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 50_000, All: 400_000})
	under, err := k.Account("beta").Hold(t.Context(), 1000, 5000)
	if err != nil {
		t.Fatal(err)
	}
	hangs, goOn := make(chan struct{}), make(chan struct{})
	b.fail = func() (error, bool) {
		close(hangs)
		<-goOn
		return nil, false
	}
	ended := make(chan error)
	go func() { ended <- b.spend(k, "acme", 40_000, 40_000) }() // More than is stored.
	<-hangs
	waits, stop := context.WithCancel(t.Context())
	stop()
	if _, err := k.Account("acme").Hold(waits, 10, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is broken off goes on: %v", err)
	}
	under.Settle(waits, 45_000)
	b.fail = nil
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := k.Account("beta").Afford(t.Context(), 5001); err == nil {
		t.Error("what was settled meanwhile is forgotten")
	}
	if err := b.spend(k, "beta", 5000, 5000); err != nil {
		t.Errorf("the rest cannot be spent: %v", err)
	}
	if stored, _ := number(b.stored()["tenant.beta"]); stored != 50_000 {
		t.Errorf("stored: %v", b.stored())
	}
}
