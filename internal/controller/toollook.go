package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// lookTimeout bounds how long an MCP server is asked about a tool. What it does not say in that time a probe asks
	// again: a condition may lack it, no call is made without it.
	lookTimeout = 5 * time.Second
	// lookWorkers is how many Tools are reconciled at once: most of that time servers are waited for.
	lookWorkers = 16
)

// looks remembers what servers said, so that looking at a Tool's Secret again asks no server. It spares requests and
// decides nothing: without it, as after a restart, servers are asked again.
type looks struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]seenLook
}

type seenLook struct {
	uid        types.UID
	generation int64
	look       probe.Look
}

func (l *looks) find(tool *v1alpha1.Tool) (probe.Look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, ok := l.seen[client.ObjectKeyFromObject(tool)]
	return seen.look, ok && seen.uid == tool.UID && seen.generation == tool.Generation
}

func (l *looks) remember(tool *v1alpha1.Tool, look probe.Look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[types.NamespacedName]seenLook{}
	}
	l.seen[client.ObjectKeyFromObject(tool)] = seenLook{tool.UID, tool.Generation, look}
}

func (l *looks) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, key)
}

// ask returns what the tool's server says of it.
func (r *ToolReconciler) ask(ctx context.Context, tool *v1alpha1.Tool, target probe.Target, credential *probe.Credential) probe.Look {
	if look, ok := r.looks.find(tool); ok {
		return look
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	look := r.Prober.Look(ctx, target, probe.Identity{As: v1alpha1.ProbeAsSystem, Credential: credential})
	r.looks.remember(tool, look)
	return look
}

// withLook returns Ready and ProbeSafe as the server's word has it. A server that says nothing leaves what it said before
// of this generation.
func withLook(tool *v1alpha1.Tool, look probe.Look, ready, safe metav1.Condition) (metav1.Condition, metav1.Condition) {
	switch {
	case look.Refused == probe.RefusedUnsafe:
		safe = condition(v1alpha1.ConditionProbeSafe, false, v1alpha1.ReasonMarkedUnsafe, text.Plain(look.Reason, 1024))
	case look.Refused == probe.RefusedInput:
		ready = condition(v1alpha1.ConditionReady, false, v1alpha1.ReasonInputInvalid, text.Plain(look.Reason, 1024))
	case !look.Known:
		if before := refusedBefore(tool, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonMarkedUnsafe); before != nil {
			safe = *before
		}
		if before := refusedBefore(tool, v1alpha1.ConditionReady, v1alpha1.ReasonInputInvalid); before != nil {
			ready = *before
		}
	}
	return ready, safe
}

// refusedBefore returns a condition of the present generation if it has the reason.
func refusedBefore(tool *v1alpha1.Tool, kind, reason string) *metav1.Condition {
	before := meta.FindStatusCondition(tool.Status.Conditions, kind)
	if before == nil || before.Reason != reason || before.ObservedGeneration != tool.Generation {
		return nil
	}
	return before
}

// probed lets through jobs that have just closed after a probe was tried.
var probed = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, job := e.ObjectOld.(*v1alpha1.DiagnosisJob), e.ObjectNew.(*v1alpha1.DiagnosisJob)
		return job.Status.Phase == v1alpha1.PhaseClosed && before.Status.Phase != v1alpha1.PhaseClosed && len(job.Status.Probes) > 0
	},
}

// contradicted returns the Tool of a job whose probes went otherwise than its conditions say: what its server says has
// changed, so it is asked again.
func (r *ToolReconciler) contradicted(ctx context.Context, object client.Object) []reconcile.Request {
	job := object.(*v1alpha1.DiagnosisJob)
	tool, err := registry.Find(ctx, r.Client, job.Namespace, string(job.Spec.ToolName))
	if err != nil || tool == nil {
		return nil
	}
	refused := refusedBefore(tool, v1alpha1.ConditionProbeSafe, v1alpha1.ReasonMarkedUnsafe) != nil ||
		refusedBefore(tool, v1alpha1.ConditionReady, v1alpha1.ReasonInputInvalid) != nil
	for _, p := range job.Status.Probes {
		if refused && p.Possible || !refused && p.Refused != "" { // What else stood in the way of a probe is no word of the server's.
			key := client.ObjectKeyFromObject(tool)
			r.looks.forget(key)
			return []reconcile.Request{{NamespacedName: key}}
		}
	}
	return nil
}
