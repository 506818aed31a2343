package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// refusedConnection is an error that a rule decides and writes to the tool's row.
var refusedConnection = v1alpha1.ToolError{ExceptionTypes: []v1alpha1.MatchText{"java.net.ConnectException"}}

// While a hundred diagnoses hang, clear verdicts reach ToolHealth as fast as when nothing else happens: those of the
// webhook, and those of the reconciler where the webhook is away. The figures are milliseconds from the report to the
// row's state.
func BenchmarkClearVerdictWhileDiagnosesHang(b *testing.B) {
	for _, away := range []bool{false, true} {
		b.Run(map[bool]string{false: "webhook", true: "reconciler"}[away], func(b *testing.B) {
			for b.Loop() {
				idle, loaded := clearVerdicts(b, away)
				for name, percent := range map[string]int{"p50": 50, "p99": 99} {
					b.ReportMetric(ms(percentile(idle, percent)), "idle-"+name+"-ms")
					b.ReportMetric(ms(percentile(loaded, percent)), "hanging-"+name+"-ms")
					b.ReportMetric(float64(percentile(loaded, percent))/float64(percentile(idle, percent)), name+"-ratio")
				}
			}
		})
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// clearVerdicts returns how long 300 clear verdicts took, in order of length, before and while a hundred diagnoses hang.
func clearVerdicts(b *testing.B, away bool) (idle, loaded []time.Duration) {
	b.Helper()
	const reports, hanging = 300, 100
	o := testOptions()
	o.maxUnknownRows, o.diagnosisWorkers = 5000, 64
	release := make(chan struct{})
	model := scripted.NewFunc(func(scripted.Request) scripted.Step {
		<-release
		return scripted.Step{Text: works}
	})
	o.models, o.modelEndpoint = "some-model", serveTool(b, model)
	if away { // The API server does not find it.
		o.webhookPort = freePort(b)
	}
	defer startManager(b, o)()
	p := newProject(b)
	alice := p.user("alice")
	states := p.watchStates()
	p.timeReports(alice, states, "warm", 50)
	idle = p.timeReports(alice, states, "idle", reports)
	var jobs []*v1alpha1.DiagnosisJob
	for i := range hanging {
		job := p.job(fmt.Sprintf("hanging-%d", i), "", status(500))
		p.must(alice.Create(b.Context(), job))
		jobs = append(jobs, job)
	}
	eventually(b, "the workers to hang", func() error {
		if n := len(model.Requests()); n < o.diagnosisWorkers {
			return fmt.Errorf("%d of %d", n, o.diagnosisWorkers)
		}
		return nil
	})
	loaded = p.timeReports(alice, states, "loaded", reports)
	close(release)
	for _, job := range jobs {
		p.closed(job)
	}
	return idle, loaded
}

// watchStates tells of the project's rows whose state is written.
func (p project) watchStates() <-chan string {
	p.t.Helper()
	config, err := env.User("alice")
	p.must(err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	p.must(err)
	p.must(env.Bind(p.t.Context(), p.namespace, "agrajag-viewer", "alice"))
	var watched watch.Interface
	eventually(p.t, "alice to be allowed to watch", func() (err error) {
		watched, err = c.Watch(p.t.Context(), &v1alpha1.ToolHealthList{}, client.InNamespace(p.namespace))
		return err
	})
	p.t.Cleanup(watched.Stop)
	states := make(chan string, 1024)
	go func() {
		for event := range watched.ResultChan() {
			if row, ok := event.Object.(*v1alpha1.ToolHealth); ok && row.Status.State != "" {
				states <- string(row.Spec.ToolName)
			}
		}
	}()
	return states
}

// timeReports reports clear errors one after the other and returns how long each took to be seen, in order of length.
func (p project) timeReports(c client.Client, states <-chan string, prefix string, n int) []time.Duration {
	p.t.Helper()
	var took []time.Duration
	for i := range n {
		tool := fmt.Sprintf("%s-%d", prefix, i)
		begin := time.Now()
		_ = c.Create(p.t.Context(), p.job(tool, "", refusedConnection)) // Refused with the verdict, where the webhook is there.
		for seen := ""; seen != tool; {
			select {
			case seen = <-states:
			case <-time.After(30 * time.Second):
				p.t.Fatalf("the verdict on %s was not seen", tool)
			}
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took
}

// Diagnoses with a model that answers at once, from the report to the closed job, with one probe each; and as many bare
// writes as they cost (design §4): five for each.
func BenchmarkDiagnoses(b *testing.B) {
	const jobs, parallel = 200, 8
	model := scripted.NewFunc(func(r scripted.Request) scripted.Step {
		if r.Turn() == 0 {
			return scripted.Step{ToolCalls: []llm.ToolCall{{ID: "1", Name: llm.ToolProbeAsSystem, Arguments: "{}"}}}
		}
		return scripted.Step{Text: `{"classification":"TECHNICALLY_BROKEN","scope":"PROJECT","humanNote":"it is down"}`}
	})
	o := testOptions()
	o.models, o.modelEndpoint, o.diagnosisWorkers = "some-model", serveTool(b, model), parallel
	api := sampletools.NewHTTPAPI()
	api.Fail(sampletools.Answer{Status: 503})
	url := serveTool(b, api) + "/v1/search?q=towel"
	for b.Loop() {
		stop := startManager(b, o)
		p := newProject(b)
		for i := range jobs {
			p.httpTool(fmt.Sprintf("tool-%d", i), url)
		}
		alice := p.user("alice")
		diagnosed := p.timeDiagnoses(alice, jobs, parallel)
		stop() // It would look at what is written next.
		bare := newProject(b).timeBareWrites(jobs, parallel, p.row(v1alpha1.ScopeProject, p.namespace, "tool-0"))
		b.ReportMetric(jobs/diagnosed.Seconds(), "diagnoses/s")
		b.ReportMetric(5*jobs/diagnosed.Seconds(), "their-writes/s")
		b.ReportMetric(5*jobs/bare.Seconds(), "bare-writes/s")
		b.ReportMetric(diagnosed.Seconds()/bare.Seconds(), "ratio")
	}
}

// each does something n times, some of them at once, and returns how long that took.
func each(n, parallel int, do func(i int)) time.Duration {
	begin := time.Now()
	var group sync.WaitGroup
	for worker := range parallel {
		group.Go(func() {
			for i := worker; i < n; i += parallel {
				do(i)
			}
		})
	}
	group.Wait()
	return time.Since(begin)
}

func (p project) timeDiagnoses(c client.Client, n, parallel int) time.Duration {
	p.t.Helper()
	jobs := make([]*v1alpha1.DiagnosisJob, n)
	begin := time.Now()
	each(n, parallel, func(i int) {
		jobs[i] = p.job(fmt.Sprintf("tool-%d", i), "", status(503))
		if err := c.Create(p.t.Context(), jobs[i]); err != nil {
			p.t.Errorf("report %d: %v", i, err)
		}
	})
	var list v1alpha1.DiagnosisJobList
	eventually(p.t, "all jobs to be diagnosed", func() error {
		p.must(env.Admin.List(p.t.Context(), &list, client.InNamespace(p.namespace)))
		open := slices.DeleteFunc(list.Items, func(job v1alpha1.DiagnosisJob) bool { return job.Status.Phase == v1alpha1.PhaseClosed })
		if len(open) > 0 {
			return fmt.Errorf("%d are open", len(open))
		}
		return nil
	})
	took := time.Since(begin)
	for _, job := range jobs {
		if job = p.closed(job); job.Status.Diagnosis == nil || job.Status.Diagnosis.Classification != v1alpha1.TechnicallyBroken {
			p.t.Fatalf("a job ended as %+v", job.Status)
		}
	}
	return took
}

// timeBareWrites makes as many writes as n first diagnoses cost, of objects of their size: a row and four statuses each.
func (p project) timeBareWrites(n, parallel int, like *v1alpha1.ToolHealth) time.Duration {
	p.t.Helper()
	return each(n, parallel, func(i int) {
		row := &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprintf("bare-%d", i)}, Spec: like.Spec}
		err := env.Admin.Create(p.t.Context(), row)
		for range 4 {
			before := row.Status.History
			row.Status = *like.Status.DeepCopy()
			row.Status.History = slices.Concat(before, like.Status.History) // So that each write changes something.
			err = errors.Join(err, env.Admin.Status().Update(p.t.Context(), row))
		}
		if err != nil {
			p.t.Errorf("bare write %d: %v", i, err)
		}
	})
}
