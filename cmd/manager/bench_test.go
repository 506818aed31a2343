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

// What the benchmark of clear verdicts does: a minute of reports, ten a second, beside as many diagnoses as the model hangs in.
const (
	hangingRuns   = 100
	clearReports  = 600
	clearInterval = 100 * time.Millisecond
)

// While a hundred diagnoses run and their model says nothing for a minute, clear verdicts reach ToolHealth as fast as when
// nothing else happens: those of the webhook, and those of the reconciler where the webhook is away. The figures are
// milliseconds from the report to the row's state, as a user who watches sees it.
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

// clearVerdicts returns how long a minute's clear verdicts took, in order of length, before and while the diagnoses hang.
func clearVerdicts(b *testing.B, away bool) (idle, loaded []time.Duration) {
	b.Helper()
	o := testOptions()
	o.maxUnknownRows, o.diagnosisWorkers = 5000, hangingRuns
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
	alice, states := p.user("alice"), p.watchStates()
	p.timeReports(alice, states, "warm", 50)
	idle = p.timeReports(alice, states, "idle", clearReports)
	jobs := p.hang(alice, model)
	begin := time.Now()
	loaded = p.timeReports(alice, states, "loaded", clearReports)
	hung := time.Since(begin)
	if running := p.count(v1alpha1.PhaseRunning); running != hangingRuns || hung < clearReports*clearInterval {
		b.Fatalf("%d diagnoses hung for %s", running, hung)
	}
	close(release)
	for _, job := range jobs {
		if d := p.closed(job).Status.Diagnosis; d == nil { // Else its run ended before, and did not hang.
			b.Fatalf("job %s was not diagnosed", job.Name)
		}
	}
	return idle, loaded
}

// hang reports unclear errors of as many tools as diagnoses may run, and waits until the model is asked about each.
func (p project) hang(c client.Client, model *scripted.Server) (jobs []*v1alpha1.DiagnosisJob) {
	p.t.Helper()
	for i := range hangingRuns {
		job := p.job(fmt.Sprintf("hanging-%d", i), "", status(500))
		p.must(c.Create(p.t.Context(), job))
		jobs = append(jobs, job)
	}
	eventually(p.t, "all diagnoses to hang", func() error {
		if asked, running := len(model.Requests()), p.count(v1alpha1.PhaseRunning); asked != hangingRuns || running != hangingRuns {
			return fmt.Errorf("%d run, and the model was asked %d times", running, asked)
		}
		return nil
	})
	return jobs
}

// count returns how many jobs of the project are in a phase.
func (p project) count(phase v1alpha1.Phase) int {
	p.t.Helper()
	var list v1alpha1.DiagnosisJobList
	p.must(env.Admin.List(p.t.Context(), &list, client.InNamespace(p.namespace)))
	return len(slices.DeleteFunc(list.Items, func(job v1alpha1.DiagnosisJob) bool { return job.Status.Phase != phase }))
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

// timeReports reports clear errors at a steady rate, whether or not the earlier ones were seen, and returns how long each
// took to be seen, in order of length.
func (p project) timeReports(c client.Client, states <-chan string, prefix string, n int) []time.Duration {
	p.t.Helper()
	begun := make(map[string]time.Time, n) // by tool; taken out when it is seen
	var took []time.Duration
	next, group := time.NewTicker(clearInterval), sync.WaitGroup{}
	defer next.Stop()
	defer group.Wait()
	patience := time.After(time.Duration(n)*clearInterval + 30*time.Second)
	for sent := 0; len(took) < n; {
		select {
		case at := <-next.C:
			if sent == n {
				continue
			}
			job := p.job(fmt.Sprintf("%s-%d", prefix, sent), "", refusedConnection)
			begun[string(job.Spec.ToolName)] = at                 // A slow client counts, too.
			group.Go(func() { _ = c.Create(p.t.Context(), job) }) // Refused with the verdict, where the webhook is there.
			sent++
		case tool := <-states:
			if at, waiting := begun[tool]; waiting {
				took = append(took, time.Since(at))
				delete(begun, tool)
			}
		case <-patience:
			p.t.Fatalf("%d verdicts of %d were not seen", n-len(took), n)
		}
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
