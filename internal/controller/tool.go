package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// credentialEvery is how often a Tool's Secret is looked at again: Secrets may be read, but not watched.
	credentialEvery = 5 * time.Minute
	// missingEvery is how often it is where it cannot be used yet: somebody may be waiting for it.
	missingEvery = 30 * time.Second
)

// ToolReconciler says whether a Tool's configuration can be used, and asks an MCP server about that. Whether the tool
// works is not its business.
type ToolReconciler struct {
	Client      client.Client
	Credentials probe.Credentials
	Prober      *probe.Prober
	Clock       clock.PassiveClock

	looks looks
}

// Reconcile writes a Tool's conditions.
func (r *ToolReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tool := &v1alpha1.Tool{}
	if err := r.Client.Get(ctx, req.NamespacedName, tool); err != nil {
		r.looks.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	oldest, err := registry.Find(ctx, r.Client, tool.Namespace, tool.CalledAs())
	if err != nil {
		return ctrl.Result{}, err
	}
	ready, safe, err := r.judge(ctx, tool, oldest)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := tool.Status.DeepCopy()
	tool.Status.ObservedGeneration = tool.Generation
	setConditions(&tool.Status.Conditions, tool.Generation, r.Clock.Now(), ready, safe)
	if err := writeStatus(ctx, r.Client, tool, before, &tool.Status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: nextLook(tool, ready)}, nil
}

// nextLook returns when a Tool's Secret is to be looked at again; zero: it names none.
func nextLook(tool *v1alpha1.Tool, ready metav1.Condition) time.Duration {
	switch {
	case tool.Spec.Credentials == nil || tool.Spec.Credentials.System == nil:
		return 0
	case ready.Status == metav1.ConditionTrue:
		return credentialEvery
	default:
		return missingEvery
	}
}

// judge returns Ready and ProbeSafe. Oldest is the Tool that counts of those with this one's name.
func (r *ToolReconciler) judge(ctx context.Context, tool, oldest *v1alpha1.Tool) (ready, safe metav1.Condition, err error) {
	target, targetErr := probe.TargetOf(tool)
	safe = probeSafe(tool, targetErr)
	if oldest != nil && registry.Older(oldest, tool) {
		return notReady(v1alpha1.ReasonDuplicateToolName, fmt.Sprintf("Tool %s is older and has the same toolName, so this one is ignored: give it another toolName or delete it", oldest.Name)), safe, nil
	}
	if errors.Is(targetErr, probe.ErrInput) {
		return notReady(v1alpha1.ReasonInputInvalid, targetErr.Error()), safe, nil
	}
	ready = condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonConfigured, "The configuration can be used")
	if targetErr != nil {
		return ready, safe, nil
	}
	credential, err := r.credential(ctx, tool, target)
	switch {
	case errors.Is(err, probe.ErrCredentialNotFound):
		return notReady(v1alpha1.ReasonCredentialNotFound, err.Error()), safe, nil
	case errors.Is(err, probe.ErrCredentialNotReadable):
		return notReady(v1alpha1.ReasonCredentialNotReadable, err.Error()), safe, nil
	case errors.Is(err, probe.ErrCredentialNotAllowed):
		return notReady(v1alpha1.ReasonCredentialNotAllowed, err.Error()), safe, nil
	case err != nil:
		return ready, safe, err
	}
	ready, safe = withLook(tool, r.ask(ctx, tool, target, credential), ready, safe)
	return ready, safe, nil
}

func notReady(reason, message string) metav1.Condition {
	return condition(v1alpha1.ConditionReady, false, reason, text.Plain(message, 1024))
}

// credential returns the system credential if the Tool names one, and says whether it can be used for the tool.
func (r *ToolReconciler) credential(ctx context.Context, tool *v1alpha1.Tool, target probe.Target) (*probe.Credential, error) {
	if tool.Spec.Credentials == nil || tool.Spec.Credentials.System == nil {
		return nil, nil
	}
	credential, err := r.Credentials.System(ctx, tool.Namespace, tool.Spec.Credentials.System.Name)
	if err != nil {
		return nil, err
	}
	return credential, credential.Check(target)
}

// probeSafe says whether a probe has something that it may call. Err is why the Tool has no target, nil if it has one.
func probeSafe(tool *v1alpha1.Tool, err error) metav1.Condition {
	switch {
	case errors.Is(err, probe.ErrDisabled):
		return condition(v1alpha1.ConditionProbeSafe, false, v1alpha1.ReasonDiagnosisDisabled, err.Error())
	case errors.Is(err, probe.ErrNoEndpoint):
		return condition(v1alpha1.ConditionProbeSafe, false, v1alpha1.ReasonNoEndpoint, text.Plain(err.Error(), 1024))
	case err != nil && !errors.Is(err, probe.ErrInput):
		return condition(v1alpha1.ConditionProbeSafe, false, v1alpha1.ReasonWriteOnly, text.Plain(err.Error(), 1024))
	case tool.Spec.Probe != nil && tool.Spec.Probe.ReadOnlyCall != nil:
		return condition(v1alpha1.ConditionProbeSafe, true, v1alpha1.ReasonReadOnlyCall, "Probes make the declared read-only call")
	default:
		return condition(v1alpha1.ConditionProbeSafe, true, v1alpha1.ReasonSafeProbe, "Probes call the tool itself, which is declared safe")
	}
}

// SetupWithManager registers the controller. A Tool that changes its name, or goes, may make its namesakes count; a
// diagnosis may find that a server has changed its mind.
func (r *ToolReconciler) SetupWithManager(mgr ctrl.Manager) error {
	namesakes := func(ctx context.Context, changed client.Object) []reconcile.Request {
		var siblings v1alpha1.ToolList
		if err := r.Client.List(ctx, &siblings, client.InNamespace(changed.GetNamespace())); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range siblings.Items {
			if other := &siblings.Items[i]; other.Name != changed.GetName() && other.CalledAs() == changed.(*v1alpha1.Tool).CalledAs() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
			}
		}
		return requests
	}
	options := cheap()
	options.MaxConcurrentReconciles = lookWorkers
	return ctrl.NewControllerManagedBy(mgr).Named("tool").For(&v1alpha1.Tool{}).
		Watches(&v1alpha1.Tool{}, handler.EnqueueRequestsFromMapFunc(namesakes)).
		Watches(&v1alpha1.DiagnosisJob{}, handler.EnqueueRequestsFromMapFunc(r.contradicted), builder.WithPredicates(probed)).
		WithOptions(options).Complete(r)
}
