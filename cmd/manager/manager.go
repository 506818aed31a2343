package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/budget"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/controller"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/leader"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/restapi"
	"github.com/agrajag-dev/agrajag/internal/webhook"
)

// component is the manager's name in Events and leases.
const component = "agrajag-manager"

// queueLength is how many jobs may wait between the cheap controller and the diagnoses before it waits itself.
const queueLength = 1024

// newManager wires a manager. Nothing of it runs before it is started.
func newManager(config *rest.Config, o options) (manager.Manager, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Controller:             ctrlconfig.Controller{SkipNameValidation: new(true)}, // Tests run several managers in a process.
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                server.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress: o.healthAddress,
		WebhookServer:          ctrlwebhook.NewServer(ctrlwebhook.Options{Host: o.webhookHost, Port: o.webhookPort, CertDir: o.webhookCertDir}),
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	check, err := newChecker(mgr, o)
	if err != nil {
		return nil, err
	}
	addWebhooks(mgr, check)
	if err := addRESTAPI(mgr, check, o); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return nil, err
	}
	controllers, err := newControllers(mgr, check, o)
	if err != nil {
		return nil, err
	}
	return leader.New(mgr, leader.Options{
		Elect: o.leaderElect, Namespace: o.namespace, Name: component, Lease: o.lease, SetUp: controllers.add,
		Kinds: []client.Object{&v1alpha1.DiagnosisJob{}, &v1alpha1.ToolHealth{}}, // What tells of diagnoses and their verdicts.
	})
}

// newChecker builds what answers reports, on every replica.
func newChecker(mgr manager.Manager, o options) (*checker.Checker, error) {
	ctx := context.Background()
	index := mgr.GetFieldIndexer()
	if err := errors.Join(
		index.IndexField(ctx, &v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool),
		index.IndexField(ctx, &v1alpha1.ToolHealth{}, health.SessionIndex, health.IndexSession),
		index.IndexField(ctx, &v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs),
	); err != nil {
		return nil, fmt.Errorf("index jobs, rows and Tools: %w", err)
	}
	// A replica that does not lead runs no controller that would watch these. A first report is answered in time only if
	// they are in the cache already, and controllers that wait for a kind wait for no more than two minutes.
	for _, kind := range []client.Object{&corev1.Namespace{}, &v1alpha1.ToolHealth{}, &v1alpha1.DiagnosisRecipe{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			return nil, fmt.Errorf("watch what reports are answered from: %w", err)
		}
	}
	cascade := checker.NewCascade(mgr.GetClient())
	if err := cascade.Watch(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	store := health.NewStore(health.StoreOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Recorder: mgr.GetEventRecorder(component), MaxRows: o.maxRows, MaxUnknownToolRows: o.maxUnknownRows, MaxWait: o.maxWait,
	})
	return &checker.Checker{
		Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Cascade: cascade, Store: store, Clock: clock.RealClock{},
		OperatorNamespace: o.namespace, FreshnessWindow: o.freshnessWindow, MaxWait: o.maxWait, PerRowPerHour: o.perRow,
	}, nil
}

// controllers is what the controllers of every term share. What they spend is kept over terms: what was taken from a budget
// and not stored yet must not be forgotten, and what others spent meanwhile is read when the account is written.
type controllers struct {
	options
	check       *checker.Checker
	prober      *probe.Prober
	credentials probe.Credentials
	chats       controller.Chats
	budget      *budget.Keeper
	host        string
}

func newControllers(mgr manager.Manager, check *checker.Checker, o options) (*controllers, error) {
	apiServer, err := addressesOf(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	guard, err := o.guard(apiServer)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this manager: %w", err)
	}
	now := clock.RealClock{}
	// Secrets are read one by one: the manager may neither list nor watch them.
	credentials := probe.Credentials{Reader: mgr.GetAPIReader()}
	return &controllers{
		options: o, check: check, host: host, credentials: credentials,
		prober: probe.New(probe.Options{Guard: guard, Clock: now}), chats: chats(o, guard, credentials),
		budget: &budget.Keeper{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: now, Recorder: mgr.GetEventRecorder(component), Namespace: o.namespace, Limits: o.budgets,
		},
	}, nil
}

// add registers a controller for each kind, and the diagnoses, for one term. Its name in jobs is new each time.
func (s *controllers) add(mgr manager.Manager) error {
	queue := make(chan event.TypedGenericEvent[*v1alpha1.DiagnosisJob], queueLength)
	recorder := mgr.GetEventRecorder(component)
	c, now := mgr.GetClient(), clock.RealClock{}
	return errors.Join(
		(&controller.ToolReconciler{Client: c, Credentials: s.credentials, Prober: s.prober, Clock: now}).SetupWithManager(mgr),
		(&controller.ToolHealthReconciler{Client: c, Store: s.check.Store, Clock: now, OperatorNamespace: s.namespace, TTLs: health.TTLs{Session: s.sessionTTL, User: s.userRowTTL}}).SetupWithManager(mgr),
		(&controller.ErrorPatternSetReconciler{Client: c, Cascade: s.check.Cascade, Clock: now, OperatorNamespace: s.namespace}).SetupWithManager(mgr),
		(&controller.DiagnosisRecipeReconciler{Client: c, Clock: now, OperatorNamespace: s.namespace}).SetupWithManager(mgr),
		(&controller.DiagnosisJobReconciler{Client: c, Checker: s.check, Clock: now, Recorder: recorder, Queue: queue, TTL: s.jobTTL}).SetupWithManager(mgr),
		(&controller.DiagnosisReconciler{
			Client: c, Live: mgr.GetAPIReader(), Checker: s.check, Clock: now, Recorder: recorder, Queue: queue,
			Engine:  &diagnose.Engine{Prober: s.prober, Credentials: s.credentials, Clock: now},
			Chats:   s.chats,
			Budget:  s.budget,
			Holder:  s.host + "_" + string(uuid.NewUUID()),
			Workers: s.diagnosisWorkers,
		}).SetupWithManager(mgr),
	)
}

// addWebhooks registers what answers reports and judges rules. The server runs on every replica.
func addWebhooks(mgr manager.Manager, check *checker.Checker) {
	decoder := admission.NewDecoder(mgr.GetScheme())
	server := mgr.GetWebhookServer()
	server.Register(webhook.PreparePath, webhook.Serve(&webhook.Preparer{Checker: check, Decoder: decoder}))
	server.Register(webhook.AnswerPath, webhook.Serve(&webhook.Answerer{Checker: check, Client: mgr.GetClient(), Decoder: decoder}))
	server.Register(webhook.JudgePath, &admission.Webhook{Handler: &webhook.Judge{Checker: check, Decoder: decoder}, RecoverPanic: new(true)})
}

// addRESTAPI registers the REST API, and what writes later what it could not write at once. Both run on every replica.
func addRESTAPI(mgr manager.Manager, check *checker.Checker, o options) error {
	if o.apiAddress == "0" {
		return nil
	}
	now := clock.RealClock{}
	late := restapi.NewLate(now)
	api := &restapi.Server{
		Checker: check, Client: mgr.GetClient(), Clock: now, Late: late,
		Access: restapi.NewAccess(mgr.GetClient(), o.apiAudience, now),
	}
	listener := &restapi.Listener{Address: o.apiAddress, CertDir: cmp.Or(o.apiCertDir, o.webhookCertDir), Handler: api.Handler()}
	return errors.Join(mgr.Add(late), mgr.Add(listener), mgr.AddReadyzCheck("rest-api", listener.Serving))
}
