package survival

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/controller"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// verb is what kind of call may be disturbed.
type verb string

const (
	cached verb = "cached read"
	live   verb = "live read"
	ledger verb = "read of the account"
	write  verb = "write"
	model  verb = "model call"
)

// kind is how a call is disturbed.
type kind string

const (
	crashBefore   kind = "crash before"
	crashAfter    kind = "crash after"
	conflict      kind = "conflict"
	timeoutEffect kind = "timeout with effect"
	timeoutNone   kind = "timeout without effect"
	stale         kind = "stale read"
	lagging       kind = "lagging cache"
	supplanted    kind = "another leader meanwhile"
)

// kinds are those that can happen to a call.
func kinds(v verb) []kind {
	switch v {
	case cached:
		return []kind{crashBefore, timeoutNone, stale, lagging}
	case live:
		return []kind{crashBefore, timeoutNone, supplanted}
	case ledger:
		return []kind{crashBefore, timeoutNone, stale, supplanted}
	case model:
		return []kind{crashBefore, crashAfter, supplanted}
	default:
		return []kind{crashBefore, crashAfter, conflict, timeoutEffect, timeoutNone, supplanted}
	}
}

// lagReads is for how many calls a lagging cache shows nothing of what was written since the beginning: longer than
// one diagnosis.
const lagReads = 40

// call is one call of a process to the outside.
type call struct {
	verb verb
	what string
}

// disturb says what happens at a call; "": nothing.
type disturb func(at int, v verb) kind

// fault is what happens at one call.
type fault struct {
	at   int
	kind kind
}

// once disturbs one call.
func (f fault) once(at int, _ verb) kind {
	if at == f.at {
		return f.kind
	}
	return ""
}

var errLost = errors.New("the connection was lost")

// process is one life of a manager: its reconcilers with all that they keep in memory.
type process struct {
	world     *world
	ctx       context.Context
	die       context.CancelFunc
	jobs      *controller.DiagnosisJobReconciler
	diagnoses *controller.DiagnosisReconciler
	queue     chan event.TypedGenericEvent[*v1alpha1.DiagnosisJob]
	// before is what was booked when it began, spent what it has spent; in tokens.
	before, spent int64
}

// start begins a process that knows nothing but what the API server does.
func (w *world) start() *process {
	p := &process{world: w, queue: make(chan event.TypedGenericEvent[*v1alpha1.DiagnosisJob], 16)}
	p.ctx, p.die = context.WithCancel(w.t.Context())
	w.processes++
	p.before = w.booked()
	c, reader := p.client(), p.reader()
	recorder, now := &events.FakeRecorder{}, &w.clock
	cascade := w.suite.cascade
	if w.freshRules {
		cascade = checker.NewCascade(c)
	}
	check := &checker.Checker{
		Cache: c, Live: reader, Cascade: cascade, Clock: now, OperatorNamespace: testenv.OperatorNamespace, FreshnessWindow: w.freshness,
		Store: health.NewStore(health.StoreOptions{Client: c, Live: reader, Clock: now, Recorder: recorder}),
	}
	credentials := probe.Credentials{Reader: reader}
	p.jobs = &controller.DiagnosisJobReconciler{Client: c, Checker: check, Clock: now, Recorder: recorder, Queue: p.queue, TTL: time.Hour}
	p.diagnoses = &controller.DiagnosisReconciler{
		Client: c, Live: reader, Checker: check, Clock: now, Recorder: recorder, Queue: p.queue, Holder: fmt.Sprintf("process-%d", w.processes), Workers: 1,
		Budget: &budget.Keeper{Client: c, Live: reader, Clock: now, Recorder: recorder, Namespace: w.money.purse, Limits: w.money.limits},
		Engine: &diagnose.Engine{Prober: w.suite.prober, Credentials: credentials, Clock: now},
		Chats:  func(context.Context, *diagnose.AI) (llm.Chat, error) { return chat{p, w.chat}, nil },
	}
	return p
}

// step lets the process look at each job once, as its two controllers would. Errors are met by looking again. It returns
// when the first of the jobs that want to be looked at later is due; zero: none does.
func (p *process) step(keys []client.ObjectKey) (later time.Duration) {
	look := func(r reconcile.Reconciler, key client.ObjectKey) {
		result, err := r.Reconcile(p.ctx, ctrl.Request{NamespacedName: key})
		p.world.met(err)
		if after := result.RequeueAfter; after > 0 && (later == 0 || after < later) {
			later = after
		}
	}
	for _, key := range keys {
		look(p.jobs, key)
		for len(p.queue) > 0 {
			look(p.diagnoses, client.ObjectKeyFromObject((<-p.queue).Object))
		}
	}
	return later
}

// outside makes a call to the outside, unless something happens to it.
func (p *process) outside(v verb, what string, object client.Object, do func(n int) error) error {
	w := p.world
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	now := len(w.calls)
	w.calls = append(w.calls, call{v, what})
	seen := len(w.written)
	if now < w.lagUntil && v == cached {
		seen = w.seeded
	}
	if w.disturb == nil {
		return do(seen)
	}
	happens := w.disturb(now, v)
	if happens != "" {
		w.disturbed++
	}
	switch happens {
	case crashBefore:
		p.die()
		return p.ctx.Err()
	case crashAfter:
		w.met(do(seen))
		p.die()
		return p.ctx.Err()
	case timeoutEffect:
		w.met(do(seen))
		return errLost
	case timeoutNone:
		return apierrors.NewTimeoutError("injected", 0)
	case conflict:
		w.interfere(object)
	case supplanted:
		_, writesRow := object.(*v1alpha1.ToolHealth)
		w.overtaken = w.overtaken || writesRow
		rest := w.disturb
		w.disturb = nil
		w.run(w.start())
		w.disturb = rest
	case stale:
		seen = max(seen-1, 0)
		if v == ledger {
			seen = w.written.beforeLast(&corev1.ConfigMap{})
		}
	case lagging:
		if w.lagUntil == 0 { // Only once: a cache that never catches up is another fault.
			w.lagUntil, seen = now+lagReads, w.seeded
		}
	}
	return do(seen)
}

// client is what the process has for a manager's client: reads come from the cache, writes go to the API server.
func (p *process) client() client.Client {
	from := reader{all: &p.world.written, read: func(_ context.Context, what string, from func(int) error) error {
		return p.outside(cached, what, nil, from)
	}}
	wrote := func(what string, object client.Object, do func() error) error {
		return p.outside(write, fmt.Sprintf("%s %T", what, object), object, func(int) error {
			err := do()
			if err == nil {
				p.world.written.add(object)
			}
			return err
		})
	}
	return interceptor.NewClient(p.world.suite.manager, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
			return from.get(ctx, key, out)
		},
		List: func(ctx context.Context, _ client.WithWatch, out client.ObjectList, opts ...client.ListOption) error {
			return from.list(ctx, out, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return wrote("create", object, func() error { return c.Create(ctx, object, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			return wrote("update", object, func() error { return c.Update(ctx, object, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			return wrote("update "+sub, object, func() error { return c.SubResource(sub).Update(ctx, object, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return wrote("patch "+sub, object, func() error { return c.SubResource(sub).Patch(ctx, object, patch, opts...) })
		},
	})
}

// reader is what the process has for a manager's uncached reader.
func (p *process) reader() client.Reader {
	return interceptor.NewClient(p.world.suite.manager, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
			if _, ok := out.(*corev1.ConfigMap); ok {
				return p.outside(ledger, fmt.Sprintf("get %T", out), nil, func(n int) error {
					if n < len(p.world.written) { // As it was before.
						return p.world.written.get(n, key, out)
					}
					return c.Get(ctx, key, out, opts...)
				})
			}
			return p.outside(live, fmt.Sprintf("get %T", out), nil, func(int) error { return c.Get(ctx, key, out, opts...) })
		},
	})
}

// chat makes asking the model a call to the outside.
type chat struct {
	p *process
	llm.Chat
}

func (c chat) Complete(ctx context.Context, r llm.Request) (answer llm.Response, err error) {
	err = c.p.outside(model, "complete", nil, func(int) error {
		c.p.world.money.asksFor(c.p)
		answer, err = c.Chat.Complete(ctx, r)
		return err
	})
	return answer, err
}

// ahead is a clock that is some seconds ahead of the API server's, so that what happens now happened after a job was
// created: creation times are whole seconds. It can be put forward.
type ahead struct{ by time.Duration }

func (a *ahead) Now() time.Time                  { return time.Now().Add(5*time.Second + a.by) }
func (a *ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }
