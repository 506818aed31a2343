package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// bank is the ConfigMap, and who keeps the account in it.
type bank struct {
	t      *testing.T
	client client.WithWatch
	clock  *testclock.FakePassiveClock
	events *events.FakeRecorder
	writes atomic.Int32
	// fail is asked before each write. With after, the write is done and its answer is lost.
	fail func() (err error, after bool)
}

func newBank(t *testing.T, objects ...client.Object) *bank {
	b := &bank{t: t, clock: testclock.NewFakePassiveClock(noon), events: events.NewFakeRecorder(100)}
	write := func(do func() error) error {
		b.writes.Add(1)
		if b.fail == nil {
			return do()
		}
		err, after := b.fail()
		if err != nil && !after {
			return err
		}
		return errors.Join(do(), err)
	}
	b.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, o, opts...) })
		},
	}).Build()
	return b
}

// keeper returns a manager's keeper, which knows nothing yet.
func (b *bank) keeper(limits Limits) *Keeper {
	return &Keeper{Client: b.client, Live: b.client, Clock: b.clock, Recorder: b.events, Namespace: "agrajag-system", Limits: limits}
}

// stored returns what the ConfigMap holds.
func (b *bank) stored() map[string]string {
	b.t.Helper()
	found := &corev1.ConfigMap{}
	if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: "agrajag-system", Name: ConfigMapName}, found); client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return found.Data
}

// spend makes one call of a tenant: it may cost most and costs cost.
func (b *bank) spend(k *Keeper, tenant string, most, cost int64) error {
	h, err := k.Account(tenant).Hold(b.t.Context(), most, most)
	if err == nil {
		h.Settle(b.t.Context(), cost)
	}
	return err
}

func TestAManagerThatTakesOverForgetsNothing(t *testing.T) {
	limits := Limits{PerTenant: 100_000, All: 150_000}
	b := newBank(t)
	first := b.keeper(limits)
	for range 10 {
		if err := b.spend(first, "acme", 5000, 4000); err != nil {
			t.Fatal(err)
		}
	}
	under, err := first.Account("beta").Hold(t.Context(), 100, 5000) // The manager dies during this call.
	if err != nil {
		t.Fatal(err)
	}
	_ = under
	second := b.keeper(limits)
	spentSince := int64(0)
	for b.spend(second, "acme", 1000, 1000) == nil {
		spentSince += 1000
	}
	// 40,000 were spent before, and at most a block and a hold more may be lost.
	if spentSince > 60_000 || spentSince < 60_000-minBlock-5000 {
		t.Errorf("after the first manager's 40000 the second one could spend %d of 100000", spentSince)
	}
	if err := second.Account("beta").Afford(t.Context(), 100_000-4999); err == nil {
		t.Error("the call under way is forgotten")
	}
}

func TestABlockCoversManyCalls(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 1_000_000, All: 10_000_000})
	for range 200 {
		if err := b.spend(k, "acme", 6000, 1500); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.writes.Load(); n > 8 { // 300,000 tokens in blocks of 50,000 for the tenant; those of all are larger.
		t.Errorf("200 calls cost %d writes", n)
	}
}

func TestABudgetComesBackAtMidnightUTC(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 10_000})
	b.clock.SetTime(noon.Add(12*time.Hour - time.Second).In(time.FixedZone("elsewhere", -7*3600)))
	late, err := k.Account("acme").Hold(t.Context(), 4000, 4000) // Ends tomorrow.
	if err != nil {
		t.Fatal(err)
	}
	if err := b.spend(k, "acme", 6000, 6000); err != nil {
		t.Fatal(err)
	}
	var exhausted *ExhaustedError
	if err := b.spend(k, "acme", 10, 10); !errors.As(err, &exhausted) || !strings.Contains(err.Error(), "2026-05-24T00:00:00Z") || !strings.Contains(err.Error(), "tenant acme") {
		t.Fatalf("with all spent: %v", err)
	}
	b.clock.SetTime(noon.Add(12 * time.Hour))
	if err := b.spend(k, "acme", 1000, 1000); err != nil {
		t.Fatalf("the next day: %v", err)
	}
	late.Settle(t.Context(), 9_000_000)
	if err := k.Account("acme").Afford(t.Context(), 9000); err != nil {
		t.Errorf("a call that began yesterday counts today: %v", err)
	}
	if data := b.stored(); data["day"] != "2026-05-24" || data["tenant.acme"] != "10000" {
		t.Errorf("stored: %v", data)
	}
	b.clock.SetTime(noon) // The clock is put back.
	if err := b.spend(k, "acme", 9001, 1); err == nil {
		t.Error("a clock that goes back gives the budget of a day twice")
	}
}

// Whatever two managers, lost answers, refused writes and crashes do, what is stored is never less than what was spent.
func TestNothingSpentIsEverForgotten(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBank(t)
		b.fail = func() (error, bool) {
			switch random.IntN(10) {
			case 0:
				return errors.New("the connection broke"), false
			case 1:
				return errors.New("the answer was lost"), true
			case 2:
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, ConfigMapName, errors.New("changed")), random.IntN(2) == 0
			}
			return nil, false
		}
		limits := Limits{PerTenant: 120_000, All: 200_000}
		keepers := []*Keeper{b.keeper(limits), b.keeper(limits)}
		tenants, all := map[string]int64{}, int64(0)
		for range 200 {
			i, tenant := random.IntN(2), fmt.Sprintf("t%d", random.IntN(3))
			if random.IntN(20) == 0 {
				keepers[i] = b.keeper(limits) // It crashed.
			}
			h, err := keepers[i].Account(tenant).Hold(t.Context(), 500, random.Int64N(5000)+500)
			if err != nil {
				continue
			}
			cost := random.Int64N(h.Tokens + 1)
			tenants[tenant], all = tenants[tenant]+cost, all+cost
			if random.IntN(20) == 0 {
				keepers[i] = b.keeper(limits) // It crashed during the call.
			} else {
				h.Settle(t.Context(), cost)
			}
			data := b.stored()
			if stored, _ := number(data["all"]); stored < all {
				t.Fatalf("seed %d: %d of all are stored, %d were spent", seed, stored, all)
			}
			if stored, _ := number(data["tenant."+tenant]); stored < tenants[tenant] {
				t.Fatalf("seed %d: %d of %s are stored, %d were spent", seed, stored, tenant, tenants[tenant])
			}
		}
		if all > limits.All || tenants["t0"] > limits.PerTenant {
			t.Errorf("seed %d: %d were spent of %d", seed, all, limits.All)
		}
	}
}

func TestCallsAtOnceNeverSpendMoreThanThereIs(t *testing.T) {
	b := newBank(t)
	limits := Limits{PerTenant: 100_000, All: 150_000}
	keepers := []*Keeper{b.keeper(limits), b.keeper(limits)}
	var spent, acme atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			tenant := []string{"acme", "beta"}[i/2%2]
			for {
				h, err := keepers[i%2].Account(tenant).Hold(t.Context(), 700, 3000)
				if exhausted := new(ExhaustedError); errors.As(err, &exhausted) {
					return
				} else if err != nil {
					continue // Conflicts of the two.
				}
				cost := h.Tokens / 2
				spent.Add(cost)
				if tenant == "acme" {
					acme.Add(cost)
				}
				h.Settle(t.Context(), cost)
			}
		})
	}
	wg.Wait()
	if all, own := spent.Load(), acme.Load(); all > limits.All || own > limits.PerTenant || all < limits.All/2 {
		t.Errorf("%d were spent of %d, %d by one tenant of %d", all, limits.All, own, limits.PerTenant)
	}
}

func TestACallThatCostsMoreThanWasHeldIsStoredAtOnce(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 50_000})
	if err := b.spend(k, "acme", 1000, 40_000); err != nil {
		t.Fatal(err)
	}
	if stored, _ := number(b.stored()["tenant.acme"]); stored < 40_000 {
		t.Errorf("%d are stored", stored)
	}
	if err := b.spend(k, "acme", 1000, -7_000_000); err != nil { // Nobody pays us.
		t.Fatal(err)
	}
	if err := k.Account("acme").Afford(t.Context(), 10_001); err == nil {
		t.Error("a negative cost made room")
	}
}

func TestACallIsChargedOnce(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 10_000})
	hold, err := k.Account("acme").Hold(t.Context(), 4000, 4000)
	if err != nil {
		t.Fatal(err)
	}
	hold.Settle(t.Context(), 1000)
	hold.Settle(t.Context(), 1000)
	if err := k.Account("acme").Afford(t.Context(), 9001); err == nil {
		t.Error("a second end of the call gave back what it had cost")
	}
	if err := k.Account("acme").Afford(t.Context(), 9000); err != nil {
		t.Errorf("a second end of the call cost something: %v", err)
	}
}

func TestAnAccountThatSomebodyDeletesIsWrittenAnew(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 1_000_000})
	first, err := k.Account("acme").Hold(t.Context(), 5000, 5000)
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: ConfigMapName}}
	if err := b.client.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	// More than the block that was stored, so that it has to write.
	if err := b.spend(k, "acme", 90_000, 90_000); err != nil {
		t.Fatal(err)
	}
	first.Settle(t.Context(), 5000)
	if tokens, _ := number(b.stored()["tenant.acme"]); tokens < 95_000 {
		t.Errorf("it says %v", b.stored())
	}
}

func TestOfTwoManagersThatBeginAnAccountBothSpendFromIt(t *testing.T) {
	b := newBank(t)
	limits := Limits{PerTenant: 100_000}
	b.fail = func() (error, bool) { // The other one is faster.
		b.fail = nil
		return b.spend(b.keeper(limits), "acme", 60_000, 60_000), false
	}
	k := b.keeper(limits)
	if err := b.spend(k, "acme", 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := k.Account("acme").Afford(t.Context(), 40_000); err == nil {
		t.Error("what the other one spent is forgotten")
	}
}

// What a call cost beyond what was held counts for everybody's budget, too; and no claim of an endpoint makes a sum overflow.
func TestWhatCostsMoreThanWasHeldCountsForAll(t *testing.T) {
	b := newBank(t)
	k := b.keeper(Limits{PerTenant: 1_000_000, All: 1_000_000})
	if err := b.spend(k, "acme", 1000, 300_000); err != nil {
		t.Fatal(err)
	}
	if tokens, _ := number(b.stored()["all"]); tokens < 300_000 {
		t.Errorf("300000 were spent, and it says %v", b.stored())
	}
	var holds []*Hold
	for range 2 {
		h, err := k.Account("acme").Hold(t.Context(), 1000, 1000)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	for _, h := range holds {
		h.Settle(t.Context(), math.MaxInt64-1000)
	}
	var exhausted *ExhaustedError
	if err := k.Account("acme").Afford(t.Context(), 1); !errors.As(err, &exhausted) {
		t.Errorf("after all was spent: %v", err)
	}
}

func TestWhatIsEditedByHand(t *testing.T) {
	by := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "agrajag-system", Name: ConfigMapName, Labels: map[string]string{"team": "ops"}}, Data: data}
	}
	t.Run("what cannot be read is told, and counts as spent", func(t *testing.T) {
		b := newBank(t, by(map[string]string{"day": "2026-05-23", "all": "60000", "tenant.acme": "many"}))
		k := b.keeper(Limits{PerTenant: 50_000})
		if err := b.spend(k, "acme", 10, 10); err == nil {
			t.Error("an unreadable number counts as nothing")
		}
		if err := b.spend(k, "beta", 10, 10); err != nil {
			t.Errorf("another tenant pays for it: %v", err)
		}
		select {
		case got := <-b.events.Events:
			if !strings.Contains(got, "BudgetUnreadable") || !strings.Contains(got, `tenant.acme is "many"`) {
				t.Errorf("the Event says %s", got)
			}
		default:
			t.Error("nobody is told")
		}
	})
	t.Run("what others put on the object stays", func(t *testing.T) {
		b := newBank(t, by(nil))
		if err := b.spend(b.keeper(Limits{All: 50_000}), "acme", 10, 10); err != nil {
			t.Fatal(err)
		}
		found := &corev1.ConfigMap{}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(by(nil)), found); err != nil || found.Labels["team"] != "ops" || found.Data["day"] == "" {
			t.Errorf("%v: %+v", err, found)
		}
	})
	t.Run("a lower number gives a manager that runs no more", func(t *testing.T) {
		b := newBank(t)
		k := b.keeper(Limits{PerTenant: 50_000})
		if err := b.spend(k, "acme", 45_000, 45_000); err != nil {
			t.Fatal(err)
		}
		for tenant, change := range map[string]func() error{
			"edits": func() error {
				return b.client.Update(t.Context(), by(map[string]string{"day": "2026-05-23", "tenant.acme": "5"}))
			},
			"deletes": func() error { return b.client.Delete(t.Context(), by(nil)) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if err := b.spend(k, tenant, 40_000, 40_000); err != nil { // Writes.
				t.Fatal(err)
			}
			if err := k.Account("acme").Afford(t.Context(), 5001); err == nil {
				t.Error("an edit by hand made room")
			}
			if stored, _ := number(b.stored()["tenant.acme"]); stored < 45_000 {
				t.Errorf("stored: %v", b.stored())
			}
		}
	})
}

func TestTheLaterDayOfTwoManagersCounts(t *testing.T) {
	today, tomorrow := newLedger("2026-05-23"), newLedger("2026-05-24")
	today.all.add(100)
	if today.merge(tomorrow) != tomorrow || tomorrow.merge(today) != tomorrow || tomorrow.all.used != 0 {
		t.Error("two days are mixed, or the earlier one counts")
	}
}

func TestAnAccountThatCannotBeKeptSpendsNothing(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ConfigMapName, errors.New("no role"))
	for _, tc := range []struct {
		name     string
		fails    error
		wantKept bool // A person has to mend it.
	}{
		{"the role is missing", forbidden, true},
		{"the namespace is missing", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "agrajag-system"), true},
		{"a policy refuses it", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, ConfigMapName, nil), true},
		{"the API server is away", errors.New("connection refused"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBank(t)
			b.fail = func() (error, bool) { return tc.fails, false }
			k := b.keeper(Limits{All: 50_000})
			if err := b.spend(k, "acme", 50_000, 10); err == nil || errors.Is(err, ErrNotKept) != tc.wantKept || b.writes.Load() != 1 {
				t.Errorf("got %v after %d writes", err, b.writes.Load())
			}
			b.fail = nil
			if err := b.spend(k, "acme", 50_000, 10); err != nil {
				t.Errorf("afterwards, with all of it left: %v", err)
			}
		})
	}
}

func TestWithoutBudgetsNothingIsKept(t *testing.T) {
	b := newBank(t)
	for _, k := range []*Keeper{nil, b.keeper(Limits{})} {
		h, err := k.Account("acme").Hold(t.Context(), 5, 1<<40)
		if err != nil || h.Tokens != 1<<40 {
			t.Errorf("got %+v, %v", h, err)
		}
		h.Settle(t.Context(), 1<<40)
	}
	if b.stored() != nil {
		t.Errorf("stored: %v", b.stored())
	}
}
