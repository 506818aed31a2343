package checker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/registry"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// world is a checker over objects in memory. It counts.
type world struct {
	*Checker
	t         *testing.T
	client    client.WithWatch
	clock     *clocktesting.FakeClock
	writes    []string // verb and name of each write
	lists     int      // of ErrorPatternSets
	onSetList func()   // runs before each of them
}

// maxTestRows are the rows that a namespace of the world may hold.
const maxTestRows = 5

// newWorld holds the project shop of the tenant acme, the project solo of none, and objects.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(t0)}
	for name, tenant := range map[string]string{"shop": "acme", "acme": "", "solo": "", "agrajag-system": ""} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if tenant != "" {
			namespace.Labels = map[string]string{tenancy.TenantLabel: tenant}
		}
		objects = append(objects, namespace)
	}
	wrote := func(verb string, object client.Object) {
		w.writes = append(w.writes, fmt.Sprintf("%s %T %s", verb, object, object.GetName()))
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.DiagnosisJob{}, &v1alpha1.ToolHealth{}).
		WithIndex(&v1alpha1.DiagnosisJob{}, JobToolIndex, IndexJobTool).
		WithIndex(&v1alpha1.ToolHealth{}, health.SessionIndex, health.IndexSession).
		WithIndex(&v1alpha1.Tool{}, registry.CalledAsIndex, registry.IndexCalledAs).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				wrote("create", o)
				return c.Create(ctx, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				wrote("status", o)
				return c.Status().Update(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				wrote("patch", o)
				return c.Status().Patch(ctx, o, p, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*v1alpha1.ErrorPatternSetList); ok {
					w.lists++
					if w.onSetList != nil {
						w.onSetList()
					}
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
	store := health.NewStore(health.StoreOptions{Client: w.client, Live: w.client, Clock: w.clock, Recorder: events.NewFakeRecorder(1000), MaxRows: maxTestRows})
	w.Checker = &Checker{Cache: w.client, Live: w.client, Cascade: NewCascade(w.client), Store: store, Clock: w.clock,
		OperatorNamespace: "agrajag-system", FreshnessWindow: DefaultFreshnessWindow}
	return w
}

// check answers a report of an HTTP status in a mode.
func (w *world) check(mode Mode, id string, status int32, edits ...func(*Report)) Decision {
	w.t.Helper()
	r := report(edits...)
	r.ID, r.Error.HTTPStatus = id, &status
	d, err := w.Check(w.t.Context(), r, mode)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// took returns the writes since it was asked last.
func (w *world) took() []string {
	writes := w.writes
	w.writes = nil
	return writes
}

// storedJob is alice's open job for a 503 of the tool search.
func storedJob(name string, edits ...func(*v1alpha1.DiagnosisJob)) *v1alpha1.DiagnosisJob {
	status := int32(503)
	job := jobOf(name, report(), "", edits...).job
	job.Spec = v1alpha1.DiagnosisJobSpec{ToolName: "search", Scope: v1alpha1.ScopeProject, Trigger: v1alpha1.TriggerToolCallError,
		OriginatingUserID: "alice", Error: &v1alpha1.ToolError{HTTPStatus: &status, Message: "first"}}
	return job
}

func TestWritesOfAReport(t *testing.T) {
	w := newWorld(t)
	row := tenancy.RowName(v1alpha1.ScopeUser, "alice", "search")
	for _, tc := range []struct {
		name   string
		mode   Mode
		id     string
		status int32
		user   string
		want   Outcome
		writes []string
	}{
		{name: "a dry run writes nothing", mode: DryRun, id: "r1", status: 403, user: "alice", want: Classified},
		{name: "nor does a look at the rules", mode: ClassifyOnly, id: "r1", status: 403, user: "alice", want: Classified},
		{name: "a first clear verdict costs a row and its status", mode: Decide, id: "r1", status: 403, user: "alice", want: Classified,
			writes: []string{"create *v1alpha1.ToolHealth " + row, "status *v1alpha1.ToolHealth " + row}},
		{name: "the same report again costs nothing", mode: Decide, id: "r1", status: 403, user: "alice", want: Classified},
		{name: "a report under a cooldown costs nothing", mode: Decide, id: "r2", status: 403, user: "alice", want: CoolingDown},
		{name: "an unclear report costs nothing here", mode: Decide, id: "r3", status: 503, user: "alice", want: Pending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := w.check(tc.mode, tc.id, tc.status, func(r *Report) { r.User = tc.user })
			if d.Outcome != tc.want {
				t.Errorf("outcome %s, want %s", d.Outcome, tc.want)
			}
			if diff := cmp.Diff(tc.writes, w.took()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeStoredIsAnsweredAllTheSame(t *testing.T) {
	t.Run("in a namespace that is full", func(t *testing.T) {
		w := newWorld(t)
		for i := range maxTestRows + 1 {
			d := w.check(Decide, fmt.Sprint(i), 403, func(r *Report) { r.User = fmt.Sprint("user-", i) })
			full := i == maxTestRows
			if d.Outcome != Classified || errors.Is(d.NotStored, health.ErrFull) != full || strings.Contains(d.Message, ". Not stored: the namespace holds") != full {
				t.Errorf("report %d: %s, not stored: %v, %s", i, d.Outcome, d.NotStored, d.Message)
			}
		}
		if got := len(w.took()); got != 2*maxTestRows {
			t.Errorf("%d writes, want those of %d rows", got, maxTestRows)
		}
	})
	t.Run("under a name that somebody took", func(t *testing.T) {
		squatter := rowOf(v1alpha1.ScopeProject)
		squatter.Name, squatter.Spec.ToolName = tenancy.RowName(v1alpha1.ScopeUser, "alice", "search"), "other"
		w := newWorld(t, squatter)
		if d := w.check(Decide, "r1", 403); d.Outcome != Classified || !errors.Is(d.NotStored, health.ErrIdentity) {
			t.Errorf("outcome %s, not stored: %v", d.Outcome, d.NotStored)
		}
	})
}

func TestAReportInAnUnknownNamespaceIsAnError(t *testing.T) {
	w := newWorld(t)
	if d, err := w.Check(t.Context(), report(func(r *Report) { r.Project = "gone" }), Decide); err == nil || d.Outcome != "" || len(w.took()) != 0 {
		t.Errorf("decided %q with error %v", d.Outcome, err)
	}
}

func TestALaterReportAddsItsMessageToTheJobOnce(t *testing.T) {
	w := newWorld(t, storedJob("diag-1"))
	says := func(message string) func(*Report) { return func(r *Report) { r.Error.Message = message } }
	for i, message := range []string{"first", "second", "second", "sec\nond", strings.Repeat("x", 5000), ""} {
		d := w.check(Decide, fmt.Sprint(i), 503, says(message))
		if d.Outcome != Coalesced || d.Job != "diag-1" {
			t.Fatalf("%q: %s, job %q", message, d.Outcome, d.Job)
		}
	}
	if got := len(w.took()); got != 3 {
		t.Errorf("%d writes, want one for each message that is new", got)
	}
	w.check(DryRun, "dry", 503, says("third"))
	if got := w.took(); len(got) != 0 {
		t.Errorf("a dry run wrote %v", got)
	}
	for i := range 50 {
		w.check(Decide, fmt.Sprint("more-", i), 503, says(fmt.Sprint("message ", i)))
	}
	job := &v1alpha1.DiagnosisJob{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "diag-1"}, job); err != nil {
		t.Fatal(err)
	}
	if len(job.Status.Signals) != v1alpha1.MaxSignals {
		t.Errorf("%d signals, want %d", len(job.Status.Signals), v1alpha1.MaxSignals)
	}
	for _, signal := range job.Status.Signals {
		if len(signal.Message) > 300 || !signal.At.Equal(at(0)) {
			t.Errorf("signal of %d bytes at %s", len(signal.Message), signal.At)
		}
	}
	if got := job.Status.Signals[0].Message; got != "second" {
		t.Errorf("the first signal is %q", got)
	}
}

func TestASignalThatMeetsAConflictIsDropped(t *testing.T) {
	w := newWorld(t, storedJob("diag-1"))
	stale := &v1alpha1.DiagnosisJob{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "diag-1"}, stale); err != nil {
		t.Fatal(err)
	}
	newer := stale.DeepCopy()
	newer.Status.Phase = v1alpha1.PhaseRunning
	if err := w.client.Status().Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	f := facts{now: t0, report: report(func(r *Report) { r.Error.Message = "news" }), jobs: []jobFact{{job: stale}}}
	if err := w.signal(t.Context(), Decision{Job: "diag-1"}, f); err != nil {
		t.Errorf("it is worth an error: %v", err)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(newer), newer); err != nil {
		t.Fatal(err)
	}
	if len(newer.Status.Signals) != 0 || newer.Status.Phase != v1alpha1.PhaseRunning || len(stale.Status.Signals) != 0 {
		t.Errorf("the job became %+v", newer.Status)
	}
}

func TestJobsOfTheToolAreThoseOfOthersInTheProject(t *testing.T) {
	leaving := storedJob("leaving", func(job *v1alpha1.DiagnosisJob) { job.Finalizers = []string{"x/y"}; job.DeletionTimestamp = at(0) })
	foreign := storedJob("foreign", func(job *v1alpha1.DiagnosisJob) { job.Namespace = "solo" })
	recorded := storedJob("recorded", func(job *v1alpha1.DiagnosisJob) { job.Status.ErrorSignature = "as-it-was-classified-then" })
	otherTool := storedJob("other-tool")
	otherTool.Spec.ToolName = "orders"
	mine := storedJob("mine")
	done := storedJob("done", failed)
	w := newWorld(t, leaving, foreign, recorded, otherTool, mine, done, storedJob("undecided"))
	open, err := w.OpenJobs(t.Context(), mine)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]v1alpha1.ErrorSignature{}
	for _, one := range open {
		got[one.Job.Name] = one.Key.Signature
	}
	if diff := cmp.Diff(map[string]v1alpha1.ErrorSignature{"recorded": "as-it-was-classified-then", "undecided": "http-5xx"}, got); diff != "" {
		t.Errorf("open jobs (-want +got):\n%s", diff)
	}
}

func TestTheYoungerOfTwoStoredJobsIsCoalesced(t *testing.T) {
	older, younger := storedJob("zz-older"), storedJob("aa-younger", func(job *v1alpha1.DiagnosisJob) { job.CreationTimestamp = *at(time.Second) })
	w := newWorld(t, older, younger)
	got := map[string]Outcome{}
	for _, job := range []*v1alpha1.DiagnosisJob{older, younger} {
		r := ReportOf(job)
		r.Job = job
		d, err := w.Check(t.Context(), r, Decide)
		if err != nil {
			t.Fatal(err)
		}
		got[job.Name] = d.Outcome
	}
	if diff := cmp.Diff(map[string]Outcome{"zz-older": Pending, "aa-younger": Coalesced}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneUsersCooldownNeverBlocksAnother(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		id, user string
		want     Outcome
	}{{"1", "alice", Classified}, {"2", "bob", Classified}, {"3", "alice", CoolingDown}, {"4", "bob", CoolingDown}} {
		if d := w.check(Decide, step.id, 403, func(r *Report) { r.User, r.Session = step.user, "" }); d.Outcome != step.want {
			t.Errorf("%s: %s, want %s", step.user, d.Outcome, step.want)
		}
	}
	w.clock.SetTime(t0.Add(24 * time.Hour))
	if d := w.check(Decide, "5", 403); d.Outcome != Classified {
		t.Errorf("a day later: %s", d.Outcome)
	}
}

func TestSignaturesOfWaitingJobsAreRemembered(t *testing.T) {
	old, job := classify.Bundled(), storedJob("waits")
	rules, _ := classify.Compile(old)
	status := int32(503)
	own := set("shop", "own", "http-5xx") // Takes the bundled rule's place.
	own.Spec.Patterns[0].Match.HTTPStatus, own.Spec.Patterns[0].Signature = &status, "mine"
	changed, _ := classify.Compile(old, classify.LayerOf("project", []v1alpha1.ErrorPatternSet{*own}))
	redacted := storedJob("waits", func(job *v1alpha1.DiagnosisJob) { job.Generation = 2 })
	*redacted.Spec.Error.HTTPStatus = 404
	sneaky := redacted.DeepCopy()
	sneaky.Generation = job.Generation
	sneakier := job.DeepCopy()
	sneakier.Generation = redacted.Generation
	call := classify.Call{Tool: "search"}
	moved := classify.Call{Tool: "search", EndpointHost: "search.example.com"}
	var s signatures
	for _, tc := range []struct {
		name  string
		job   *v1alpha1.DiagnosisJob
		rules *classify.Rules
		call  classify.Call
		want  v1alpha1.ErrorSignature
	}{
		{"a first look asks the rules", job, rules, call, "http-5xx"},
		{"a second does not, or this would be another", sneaky, rules, call, "http-5xx"},
		{"other rules are asked", job, changed, call, "mine"},
		{"a changed report is asked about", redacted, rules, call, "http-404"},
		{"the rules are asked again where the tool is elsewhere, or this would be the former", sneakier, rules, moved, "http-5xx"},
	} {
		if got := s.of(tc.job, tc.rules, tc.call); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	for i := range maxSignatures + 10 {
		s.of(storedJob(fmt.Sprint(i)), rules, call)
	}
	if got := len(s.known); got > maxSignatures {
		t.Errorf("%d signatures are remembered", got)
	}
}

// TestTheToolsEndpointSaysWhoseHostFailed: the same error is another one where the tool is elsewhere, for a report as
// for the jobs that wait.
func TestTheToolsEndpointSaysWhoseHostFailed(t *testing.T) {
	rules := set("shop", "hosts", "own-host", "other-host")
	rules.Spec.Patterns[0].Match.Host, rules.Spec.Patterns[0].Signature, rules.Spec.Patterns[0].Before = v1alpha1.HostEndpoint, "own-host", "answer-in-prose"
	rules.Spec.Patterns[1].Match.Host, rules.Spec.Patterns[1].Signature, rules.Spec.Patterns[1].Before = v1alpha1.HostForeign, "other-host", "answer-in-prose"
	for i := range rules.Spec.Patterns {
		rules.Spec.Patterns[i].Classification, rules.Spec.Patterns[i].Match.HTTPStatus = v1alpha1.Unclear, nil
	}
	failed := func(r *Report) { r.Error.Host = "api.example.com" }
	waits := storedJob("waits")
	waits.Spec.Error.Host = "api.example.com"
	tool := func(url v1alpha1.URL) *v1alpha1.Tool {
		return &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "search"}, Spec: v1alpha1.ToolSpec{
			Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: url}},
		}}
	}
	for _, tc := range []struct {
		name      string
		objects   []client.Object
		want      v1alpha1.ErrorSignature
		wantKnown bool
	}{
		{"a tool that nobody describes is wherever it failed", nil, "own-host", false},
		{"the tool's own host", []client.Object{tool("https://api.example.com/search")}, "own-host", true},
		{"a host that the caller named", []client.Object{tool("https://search.example.com")}, "other-host", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, append(tc.objects, rules.DeepCopy(), waits.DeepCopy())...)
			d := w.check(DryRun, "r", 503, failed)
			if d.Verdict.Signature != tc.want || d.ToolKnown != tc.wantKnown {
				t.Errorf("signature %s, tool known %t; want %s, %t", d.Verdict.Signature, d.ToolKnown, tc.want, tc.wantKnown)
			}
			if d.Outcome != Coalesced || d.Job != "waits" {
				t.Errorf("%s %s; want it to join the job that waits, whose error is the same", d.Outcome, d.Job)
			}
			others, err := w.OpenJobs(t.Context(), storedJob("later"))
			if err != nil || len(others) != 1 || others[0].Key.Signature != tc.want {
				t.Errorf("the open jobs: %+v, %v; want one of signature %s", others, err, tc.want)
			}
		})
	}
}
