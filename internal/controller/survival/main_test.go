// Package survival disturbs every call that a diagnosis makes to the API server, one after the other, in every way in
// which such a call can go wrong, and checks that nothing is lost, paid for twice or written twice. The reconcilers are
// those of the manager, in its role, against a real API server; only what drives them is in step, so that each run makes
// the same calls.
package survival

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

const (
	// project is the namespace of all worlds. They have tools of their own, and see nothing of each other.
	project = "survival"
	token   = "token-of-alice"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, testenv.Options{}, func(e *testenv.Env) { env = e }))
}

// suite is what all worlds share.
type suite struct {
	manager client.WithWatch
	prober  *probe.Prober
	// cascade holds the rules, compiled once.
	cascade *checker.Cascade
	shared  versions
	// purses are namespaces in which no world keeps an account.
	purses chan string
}

// theSuite sets up the project once: alice has a credential there that the manager may read.
var theSuite = sync.OnceValues(func() (*suite, error) {
	ctx := context.Background()
	config, err := env.User(testenv.ManagerUser)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // As the manager's own.
	manager, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		return nil, err
	}
	loopback, err := probe.ParsePrefixes([]string{"127.0.0.0/8"})
	if err != nil {
		return nil, err
	}
	s := &suite{manager: manager, prober: probe.New(probe.Options{Guard: probe.Guard{Allow: loopback}, Clock: clock.RealClock{}})}
	namespace := &corev1.Namespace{}
	err = errors.Join(
		env.Namespace(ctx, project, ""),
		env.Bind(ctx, project, "agrajag-credential-reader", testenv.ManagerUser),
		env.Admin.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "agrajag-user-" + tenancy.Hash12("alice")},
			Type:       probe.SecretTypeUser, StringData: map[string]string{"token": token, "hosts": "127.0.0.1"},
		}),
		env.Admin.Get(ctx, client.ObjectKey{Name: project}, namespace),
	)
	s.shared.add(namespace)
	s.cascade = checker.NewCascade(manager)
	if err == nil {
		s.purses, err = newPurses(ctx)
	}
	return s, err
})

// scenario is a story that is told once for each fault.
type scenario struct {
	name string
	// tool tells the tool how to answer.
	tool func(*sampletools.HTTPAPI)
	// each, if not nil, tells it so anew before each answer.
	each func(*sampletools.HTTPAPI)
	// rows are there before; their tool and project are filled in.
	rows []*v1alpha1.ToolHealth
	// jobs are the reports.
	jobs []v1alpha1.DiagnosisJobSpec
	// script are the model's answers, by turn of a conversation.
	script []scripted.Step
	// anew, if not nil, are its answers in a conversation that is begun anew: it changes its mind.
	anew []scripted.Step
	// failures is how many of the model's first answers are 503.
	failures int
	// want are the rows after all, as text (see world.rows).
	want []string
	// either are the rows of which one is there after all, where want is nil.
	either []string
	// wantClosed is what each job is closed as.
	wantClosed []string
	// freshRules has each process compile the rules anew, and only the calls for that disturbed.
	freshRules bool
	// before is what was spent of the budgets already, in tokens.
	before int64
}

// world is one telling of a scenario.
type world struct {
	t          *testing.T
	suite      *suite
	tool       string
	keys       []client.ObjectKey
	written    versions
	seeded     int // how much of it was there before
	calls      []call
	disturb    disturb
	lagUntil   int
	processes  int
	clock      ahead
	freshRules bool
	freshness  time.Duration
	chat       llm.Chat
	model      *scripted.Server
	api        *sampletools.HTTPAPI
	errors     []error // that reconcilers returned
	disturbed  int     // calls
	overtaken  bool    // another manager ran the job while this one wrote its row
	before     int64   // what was spent already
	money      accounts
	stop       []func()
}

// worlds counts them: each has a tool of its own name.
var worlds atomic.Int32

// newWorld sets a scenario up.
func newWorld(t *testing.T, s scenario, d disturb) (*world, error) {
	suite, err := theSuite()
	if err != nil {
		return nil, err
	}
	w := &world{t: t, suite: suite, tool: fmt.Sprintf("tool-%d", worlds.Add(1)), disturb: d, freshRules: s.freshRules, freshness: 5 * time.Minute, before: s.before}
	w.written = append(w.written, suite.shared...)
	if err := w.open(s.before); err != nil {
		return nil, err
	}
	w.api = sampletools.NewHTTPAPI(token)
	s.tool(w.api)
	var asked, begun atomic.Int32
	w.model = scripted.NewFunc(func(r scripted.Request) scripted.Step {
		if int(asked.Add(1)) <= s.failures {
			return scripted.Step{Status: http.StatusServiceUnavailable, Text: "overloaded"}
		}
		script := s.script
		if r.Turn() == 0 {
			begun.Add(1)
		}
		if s.anew != nil && begun.Load() > 1 {
			script = s.anew
		}
		step := script[min(r.Turn(), len(script)-1)]
		w.asked(step.Usage)
		return step
	})
	url, err := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if s.each != nil {
			s.each(w.api)
		}
		w.api.ServeHTTP(rw, r)
	}))
	if err != nil {
		return nil, err
	}
	models, err := w.serve(w.model)
	if err != nil {
		return nil, err
	}
	w.chat = llm.NewOpenAI(llm.OpenAIOptions{Endpoint: models, Models: []string{"some-model"}})
	return w, w.seed(s, url+"/v1/search?q=towel")
}

func (w *world) serve(handler http.Handler) (string, error) {
	url, stop, err := sampletools.Serve("127.0.0.1:0", handler)
	if err == nil {
		w.stop = append(w.stop, stop)
	}
	return url, err
}

// close frees what a world holds.
func (w *world) close() {
	for _, stop := range w.stop {
		stop()
	}
}

// seed creates what is there before.
func (w *world) seed(s scenario, url string) error {
	ctx := w.t.Context()
	tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: w.tool}, Spec: v1alpha1.ToolSpec{
		Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(url)}}, Safety: v1alpha1.SafetySafeProbe}}
	if err := env.Admin.Create(ctx, tool); err != nil {
		return err
	}
	w.written.add(tool)
	for _, template := range s.rows {
		row := template.DeepCopy()
		row.Namespace, row.Name = project, tenancy.RowName(row.Spec.Scope, row.Spec.ScopeID, w.tool)
		row.Spec.ToolName = v1alpha1.ToolName(w.tool)
		status := row.Status
		if err := env.Admin.Create(ctx, row); err != nil {
			return err
		}
		row.Status = status
		if err := env.Admin.Status().Update(ctx, row); err != nil {
			return err
		}
		w.written.add(row)
	}
	for i, spec := range s.jobs {
		if err := w.report(fmt.Sprintf("%s-%d", w.tool, i), spec); err != nil {
			return err
		}
	}
	w.seeded = len(w.written)
	return nil
}

// report creates a job.
func (w *world) report(name string, spec v1alpha1.DiagnosisJobSpec) error {
	job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name}, Spec: *spec.DeepCopy()}
	job.Spec.ToolName = v1alpha1.ToolName(w.tool)
	if err := env.Admin.Create(w.t.Context(), job); err != nil {
		return err
	}
	w.written.add(job)
	w.keys = append(w.keys, client.ObjectKeyFromObject(job))
	return nil
}

// met notes an error that a reconciler returned: it is tried again.
func (w *world) met(err error) {
	if err != nil {
		w.errors = append(w.errors, err)
	}
}

// interfere lets somebody else change the object that is about to be written, or create it first.
func (w *world) interfere(object client.Object) {
	other := object.DeepCopyObject().(client.Object)
	if other.GetResourceVersion() == "" {
		w.must(env.Admin.Create(w.t.Context(), other))
	} else {
		w.must(env.Admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), other))
		other.SetAnnotations(map[string]string{"example.com/touched": "by somebody"})
		w.must(env.Admin.Update(w.t.Context(), other))
	}
	w.written.add(other)
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Errorf("%s: %v", w.tool, err)
	}
}

// rounds bounds how often jobs are looked at. A lagging cache takes up to half of lagReads: a read and a write that is
// refused.
const rounds = 60

// run lets a process, and those that come after it should it die, work until all jobs are closed.
func (w *world) run(p *process) {
	for range rounds {
		if p.ctx.Err() != nil {
			p = w.start()
		}
		before := len(w.errors)
		later := p.step(w.keys)
		if w.allClosed() {
			break
		}
		if len(w.errors) == before {
			w.clock.by += later // Nothing is left to be done until then.
		}
	}
	p.die()
}

// allClosed asks the API server.
func (w *world) allClosed() bool {
	for _, key := range w.keys {
		if w.job(key).Status.Phase != v1alpha1.PhaseClosed {
			return false
		}
	}
	return true
}

func (w *world) job(key client.ObjectKey) *v1alpha1.DiagnosisJob {
	job := &v1alpha1.DiagnosisJob{}
	w.must(env.Admin.Get(w.t.Context(), key, job))
	return job
}
