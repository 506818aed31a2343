package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// env is the API server of this package's tests. needEnv starts it.
var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if env != nil {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// needEnv starts the API server for the first test that needs it; the processes of a fuzz test need none.
func needEnv(t testing.TB) {
	t.Helper()
	if env == nil {
		started, err := testenv.Start(testenv.Options{Webhooks: true})
		must(t, err)
		env = started
	}
}

// serve runs the webhooks as the manager's user, without its controllers, until the test ends.
func serve(t testing.TB) {
	t.Helper()
	needEnv(t)
	config, err := env.User(testenv.ManagerUser)
	must(t, err)
	host, port, certDir := env.Webhook()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: env.Scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, CertDir: certDir}),
	})
	must(t, err)
	must(t, mgr.GetFieldIndexer().IndexField(t.Context(), &v1alpha1.DiagnosisJob{}, checker.JobToolIndex, checker.IndexJobTool))
	must(t, mgr.GetFieldIndexer().IndexField(t.Context(), &v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs))
	cascade := checker.NewCascade(mgr.GetClient())
	must(t, cascade.Watch(t.Context(), mgr.GetCache()))
	check := &checker.Checker{
		Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Cascade: cascade, Clock: clock.RealClock{},
		Store: health.NewStore(health.StoreOptions{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder: mgr.GetEventRecorder("webhook-test")}),
		OperatorNamespace: testenv.OperatorNamespace, FreshnessWindow: checker.DefaultFreshnessWindow,
	}
	decoder := admission.NewDecoder(env.Scheme)
	mgr.GetWebhookServer().Register(PreparePath, switched(Serve(&Preparer{Checker: check, Decoder: decoder})))
	mgr.GetWebhookServer().Register(AnswerPath, switched(Serve(&Answerer{Checker: check, Client: mgr.GetClient(), Decoder: decoder})))
	mgr.GetWebhookServer().Register(JudgePath, &admission.Webhook{Handler: &Judge{Checker: check, Decoder: decoder}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
	eventually(t, "the webhooks to be served", func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not fill")
	}
	// The first report starts the caches of the kinds that nothing watches yet here.
	p := newProject(t)
	eventually(t, "a report to be answered", func() error {
		if reason(p.user("warm-up").Create(t.Context(), p.job("warm-up", 403))) != ReasonClassified {
			return errors.New("not answered at once")
		}
		return nil
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("waited in vain for %s: %v", what, err)
}

// project is a namespace of its own.
type project struct {
	t         testing.TB
	namespace string
}

// projects counts namespaces: they never go away, for want of a controller manager.
var projects atomic.Int32

func newProject(t testing.TB) project {
	t.Helper()
	p := project{t: t, namespace: fmt.Sprintf("project-%d", projects.Add(1))}
	must(t, env.Namespace(t.Context(), p.namespace, ""))
	return p
}

// user returns a client of a user who may report in the project.
func (p project) user(name string) client.Client {
	p.t.Helper()
	must(p.t, env.Bind(p.t.Context(), p.namespace, "agrajag-reporter", name))
	return clientOf(p.t, name)
}

func clientOf(t testing.TB, user string) client.Client {
	t.Helper()
	config, err := env.User(user)
	must(t, err)
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	must(t, err)
	return c
}

// job builds a report that a tool answered with an HTTP status.
func (p project) job(tool string, status int32, edits ...func(*v1alpha1.DiagnosisJob)) *v1alpha1.DiagnosisJob {
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "report-"},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Error: &v1alpha1.ToolError{HTTPStatus: &status}},
	}
	for _, edit := range edits {
		edit(job)
	}
	return job
}

// named gives a job a name of the reporter's choice.
func named(name string) func(*v1alpha1.DiagnosisJob) {
	return func(job *v1alpha1.DiagnosisJob) { job.Name, job.GenerateName = name, "" }
}

// statusOf returns what the API server answered; empty where it accepted.
func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status()
	}
	return metav1.Status{}
}

func reason(err error) metav1.StatusReason { return statusOf(err).Reason }

// cause returns one fact of a refusal.
func cause(err error, kind string) string {
	if details := statusOf(err).Details; details != nil {
		for _, c := range details.Causes {
			if string(c.Type) == kind {
				return c.Message
			}
		}
	}
	return ""
}

// jobs lists what is stored in the project.
func (p project) jobs() []v1alpha1.DiagnosisJob {
	p.t.Helper()
	var list v1alpha1.DiagnosisJobList
	must(p.t, env.Admin.List(p.t.Context(), &list, client.InNamespace(p.namespace)))
	return list.Items
}

// rows lists the health that is stored in the project.
func (p project) rows() []v1alpha1.ToolHealth {
	p.t.Helper()
	var list v1alpha1.ToolHealthList
	must(p.t, env.Admin.List(p.t.Context(), &list, client.InNamespace(p.namespace)))
	return list.Items
}
