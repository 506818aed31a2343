package survival

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

const (
	// purses is how many worlds may keep an account at once.
	purses = 8
	// dear is what a model's answer costs: the second one does not fit into the block that was stored for the first.
	dear = 9000
	// wasted is more than a manager's life or a disturbed write may waste of a budget: a block and what was held.
	wasted = 25_000
)

// budgets are those of a world: so small that blocks are, too.
var budgets = budget.Limits{PerTenant: 200_000, All: 200_000}

// newPurses makes namespaces in which accounts are kept, one world's at a time: there the manager may do what it may in
// the operator's.
func newPurses(ctx context.Context) (chan string, error) {
	role := &rbacv1.Role{}
	if err := env.Admin.Get(ctx, client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "agrajag-manager"}, role); err != nil {
		return nil, err
	}
	free := make(chan string, purses)
	for i := range purses {
		name := fmt.Sprintf("purse-%d", i)
		meta := metav1.ObjectMeta{Namespace: name, Name: role.Name}
		err := errors.Join(
			env.Namespace(ctx, name, ""),
			env.Admin.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: role.Rules}),
			env.Admin.Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: testenv.ManagerUser}},
			}),
		)
		if err != nil {
			return nil, err
		}
		free <- name
	}
	return free, nil
}

// accounts is what is known of a world's spending.
type accounts struct {
	purse  string
	limits budget.Limits
	day    string

	mu sync.Mutex // the model answers on a goroutine of its own
	// asks is the process that asks the model.
	asks *process
	// spent is what the model's answers cost.
	spent int64
	// wrong is what the account did not show when it should have.
	wrong []string
}

// open takes an empty purse, or one of which so much is spent already.
func (w *world) open(before int64) error {
	w.money.purse, w.money.limits, w.money.day = <-w.suite.purses, budgets, w.today()
	w.stop = append(w.stop, func() {
		err := env.Admin.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: w.account()})
		w.must(client.IgnoreNotFound(err))
		w.suite.purses <- w.money.purse
	})
	if before == 0 {
		return nil
	}
	spent := strconv.FormatInt(before, 10)
	account := &corev1.ConfigMap{ObjectMeta: w.account(), Data: map[string]string{"day": w.money.day, "all": spent, "tenant." + project: spent}}
	if err := env.Admin.Create(w.t.Context(), account); err != nil {
		return err
	}
	w.written.add(account)
	return nil
}

func (w *world) account() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.money.purse, Name: budget.ConfigMapName}
}

func (w *world) today() string { return w.clock.Now().UTC().Format(time.DateOnly) }

// booked returns what the account shows as spent: of the project, and of all, whichever is less.
func (w *world) booked() int64 {
	found := &corev1.ConfigMap{}
	err := env.Admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.money.purse, Name: budget.ConfigMapName}, found)
	if apierrors.IsNotFound(err) {
		return 0
	}
	w.must(err)
	own, _ := strconv.ParseInt(found.Data["tenant."+project], 10, 64)
	all, _ := strconv.ParseInt(found.Data["all"], 10, 64)
	return min(own, all)
}

// asked notes what the answer costs that the model is about to give. It is booked before it was asked for, beside all
// that was booked when the process began: whoever takes over counts that as spent.
func (w *world) asked(cost llm.Usage) {
	money := &w.money
	money.mu.Lock()
	defer money.mu.Unlock()
	p := money.asks
	p.spent += cost.Prompt + cost.Completion
	money.spent += cost.Prompt + cost.Completion
	if booked := w.booked(); booked < p.before+p.spent && w.today() == money.day {
		money.wrong = append(money.wrong, fmt.Sprintf("%d were booked when the manager began, which has spent %d since, and %d are booked now", p.before, p.spent, booked))
	}
}

// asksFor notes which process asks the model.
func (m *accounts) asksFor(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asks = p
}

// charged returns what the jobs say that they were charged: more than was spent where an answer does not say its cost.
func (w *world) charged() (tokens int64) {
	for _, key := range w.keys {
		if usage := w.job(key).Status.Usage; usage != nil {
			tokens += usage.PromptTokens + usage.CompletionTokens
		}
	}
	return tokens
}

// audit says what is wrong with the account in the end, as it is and as a manager understands it that takes over.
func (w *world) audit() []string {
	money, booked := &w.money, w.booked()
	money.mu.Lock()
	defer money.mu.Unlock()
	if w.today() != money.day {
		return nil
	}
	problems := money.wrong
	if booked < money.spent {
		problems = append(problems, fmt.Sprintf("%d were spent, %d are booked", money.spent, booked))
	}
	charged := max(money.spent, w.charged())
	if most := w.before + charged + int64(w.processes+w.disturbed)*wasted; booked > most {
		problems = append(problems, fmt.Sprintf("%d were charged by %d managers, %d are booked, at most %d may be", charged, w.processes, booked, most))
	}
	heir := &budget.Keeper{Client: env.Admin, Live: env.Admin, Clock: &w.clock, Recorder: &events.FakeRecorder{}, Namespace: money.purse, Limits: money.limits}
	if err := heir.Account(project).Afford(w.t.Context(), money.limits.PerTenant-w.before-money.spent+1); !errors.As(err, new(*budget.ExhaustedError)) {
		problems = append(problems, fmt.Sprintf("whoever takes over may spend what was spent: %v", err))
	}
	return problems
}
