package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/leader"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// captured is the log of all managers of this package's tests.
var captured = &logBuffer{}

// env is the API server of this package's tests.
var env *testenv.Env

func TestMain(m *testing.M) {
	flag.Parse()
	var log io.Writer = captured
	if testing.Verbose() {
		log = io.MultiWriter(captured, os.Stderr)
	}
	logger := zap.New(zap.UseDevMode(true), zap.WriteTo(log)) // With all that --zap-log-level=debug shows.
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	os.Exit(testenv.Run(m, testenv.Options{Webhooks: true}, func(e *testenv.Env) { env = e }))
}

// testOptions are the settings of a manager in tests.
func testOptions() options {
	host, port, certDir := env.Webhook()
	return options{
		namespace: testenv.OperatorNamespace, metricsAddress: "0", healthAddress: "0",
		webhookHost: host, webhookPort: port, webhookCertDir: certDir,
		lease: leader.DefaultLease, apiAddress: "0", sessionTTL: 24 * time.Hour, userRowTTL: 24 * time.Hour,
		probeAllow: "127.0.0.0/8", freshnessWindow: 5 * time.Minute, diagnosisWorkers: 4, jobTTL: time.Hour,
		maxWait: 24 * time.Hour, maxRows: 5000, maxUnknownRows: 100, perRow: 4,
	}
}

// startManager runs a manager as its own user until stop is called or the test ends.
func startManager(t testing.TB, o options) (stop func()) {
	t.Helper()
	return startManagerWith(t, o, nil)
}

// startManagerWith runs a manager whose requests pass through wrap.
func startManagerWith(t testing.TB, o options, wrap transport.WrapperFunc) (stop func()) {
	t.Helper()
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // As in production.
	config.Wrap(wrap)
	mgr, err := newManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	eventually(t, "the webhooks to be served", func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not fill")
	}
	<-mgr.Elected()
	return stop
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

// project is a namespace of its own, with users who may report in it.
type project struct {
	t         testing.TB
	namespace string
}

// projects counts namespaces: they never go away, for want of a controller manager.
var projects atomic.Int32

// newProject creates a namespace in which the manager may read credentials.
func newProject(t testing.TB) project {
	t.Helper()
	return newProjectWith(t, true)
}

// newProjectWith creates a namespace in which the manager may read credentials, or may not.
func newProjectWith(t testing.TB, credentials bool) project {
	t.Helper()
	p := project{t: t, namespace: fmt.Sprintf("project-%d", projects.Add(1))}
	p.must(env.Namespace(t.Context(), p.namespace, ""))
	p.forget()
	if credentials {
		p.must(env.Bind(t.Context(), p.namespace, "agrajag-credential-reader", testenv.ManagerUser))
	}
	return p
}

// newProjectOf creates a namespace of a tenant, in which the manager may read credentials.
func newProjectOf(t *testing.T, tenant project) project {
	t.Helper()
	p := project{t: t, namespace: fmt.Sprintf("project-%d-of-a-tenant", projects.Add(1))}
	p.must(env.Namespace(t.Context(), p.namespace, tenant.namespace))
	p.forget()
	p.must(env.Bind(t.Context(), p.namespace, "agrajag-credential-reader", testenv.ManagerUser))
	return p
}

// forget deletes the jobs when the test ends: one that waits for its retry would ask a later test's model.
func (p project) forget() {
	p.t.Cleanup(func() {
		if err := env.Admin.DeleteAllOf(context.Background(), &v1alpha1.DiagnosisJob{}, client.InNamespace(p.namespace)); err != nil {
			p.t.Error(err)
		}
	})
}

func (p project) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// user returns a client for a user who may report in the project.
func (p project) user(name string) client.Client {
	p.t.Helper()
	config, err := env.User(name)
	p.must(err)
	p.must(env.Bind(p.t.Context(), p.namespace, "agrajag-reporter", name))
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	p.must(err)
	return c
}

// job builds a report of a tool's error.
func (p project) job(tool, user string, e v1alpha1.ToolError) *v1alpha1.DiagnosisJob {
	return &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "report-"},
		Spec:       v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), OriginatingUserID: v1alpha1.UserID(user), Error: &e},
	}
}

// answer reports an error and returns how it was refused.
func (p project) answer(c client.Client, job *v1alpha1.DiagnosisJob) metav1.Status {
	p.t.Helper()
	err := c.Create(p.t.Context(), job)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		p.t.Fatalf("the report was not refused: %v", err)
	}
	return status.Status()
}

// cause returns one fact of a refusal.
func cause(status metav1.Status, kind string) string {
	if status.Details != nil {
		for _, c := range status.Details.Causes {
			if string(c.Type) == kind {
				return c.Message
			}
		}
	}
	return ""
}

// row returns a row, or nil if there is none.
func (p project) row(scope v1alpha1.Scope, id, tool string) *v1alpha1.ToolHealth {
	p.t.Helper()
	row := &v1alpha1.ToolHealth{}
	err := env.Admin.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: tenancy.RowName(scope, id, tool)}, row)
	if apierrors.IsNotFound(err) {
		return nil
	}
	p.must(err)
	return row
}

// closed waits until a job is closed and returns it.
func (p project) closed(job *v1alpha1.DiagnosisJob) *v1alpha1.DiagnosisJob {
	p.t.Helper()
	now := &v1alpha1.DiagnosisJob{}
	eventually(p.t, "job "+job.Name+" to close", func() error {
		if err := env.Admin.Get(p.t.Context(), client.ObjectKeyFromObject(job), now); err != nil {
			return err
		}
		if now.Status.Phase != v1alpha1.PhaseClosed {
			return fmt.Errorf("phase %s", now.Status.Phase)
		}
		return nil
	})
	return now
}

// rule creates an ErrorPatternSet with one rule that says USER_INPUT.
func (p project) rule(id, cooldown string, match v1alpha1.ErrorMatch) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &v1alpha1.ErrorPatternSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: id},
		Spec: v1alpha1.ErrorPatternSetSpec{Patterns: []v1alpha1.ErrorPattern{{
			ID: v1alpha1.PatternID(id), Match: match, Signature: v1alpha1.ErrorSignature(id), Classification: v1alpha1.UserInput, Cooldown: cooldown,
		}}},
	}))
	eventually(p.t, "rule "+id+" to be in force", func() error {
		set := &v1alpha1.ErrorPatternSet{}
		err := env.Admin.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: id}, set)
		if err == nil && !meta.IsStatusConditionTrue(set.Status.Conditions, "Accepted") {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
}

// httpTool creates a Tool for an HTTP API.
func (p project) httpTool(name, url string) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Spec: v1alpha1.ToolSpec{
			Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(url)}},
			Safety:   v1alpha1.SafetySafeProbe,
		},
	}))
}

// mcpTool creates a Tool for a tool of an MCP server.
func (p project) mcpTool(name, url, tool string) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: strings.ReplaceAll(name, "_", "-")},
		Spec: v1alpha1.ToolSpec{
			ToolName: v1alpha1.ToolName(name),
			Endpoint: &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(url), Tool: v1alpha1.ToolName(tool)}},
			Safety:   v1alpha1.SafetySafeProbe,
			Probe:    &v1alpha1.ToolProbe{Input: &apiextensionsv1.JSON{Raw: []byte(`{"q":"tea"}`)}},
		},
	}))
}

// credential creates the Secret with which a user's tools are probed.
func (p project) credential(user, token, hosts string) {
	p.t.Helper()
	p.must(env.Admin.Create(p.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "agrajag-user-" + tenancy.Hash12(user)},
		Type:       "tools.agrajag.dev/user-credential",
		StringData: map[string]string{"token": token, "hosts": hosts},
	}))
}

// serveTool runs a sample tool until the test ends.
func serveTool(t testing.TB, tool http.Handler) string {
	t.Helper()
	url, stop, err := sampletools.Serve("127.0.0.1:0", tool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

// status builds an error with a status alone.
func status(code int32) v1alpha1.ToolError { return v1alpha1.ToolError{HTTPStatus: &code} }
