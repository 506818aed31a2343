package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/leader"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
)

// outageFor is how long a process is away at least. `go test ./cmd/manager -run OutlivesAnOutage -args -outage 60s` takes longer.
var outageFor = flag.Duration("outage", 2*leader.MinLease, "how long kube-apiserver and etcd are away")

// slowOnce is a model that thinks for ever when it is first asked, and answers at once after that.
type slowOnce struct {
	*scripted.Server
	letGo atomic.Int32 // how many conversations ended without an answer
}

func newSlowOnce() *slowOnce {
	var asked atomic.Int32
	return &slowOnce{Server: scripted.NewFunc(func(scripted.Request) scripted.Step {
		if asked.Add(1) == 1 {
			return scripted.Step{Delay: 10 * time.Minute}
		}
		return scripted.Step{Text: works}
	})}
}

func (m *slowOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Server.ServeHTTP(w, r)
	if r.Context().Err() != nil {
		m.letGo.Add(1)
	}
}

// askedAbout returns how often the model was asked about a tool.
func (m *slowOnce) askedAbout(tool string) (n int) {
	for _, r := range m.Requests() {
		if strings.Contains(r.Body, tool) {
			n++
		}
	}
	return n
}

// running waits until the first diagnosis, of a job, has asked the model, and returns who holds the job.
func (m *slowOnce) running(t *testing.T, job *v1alpha1.DiagnosisJob) (holder string) {
	t.Helper()
	eventually(t, "the model to be asked", func() error {
		if n := len(m.Requests()); n != 1 {
			return fmt.Errorf("%d requests", n)
		}
		return env.Admin.Get(t.Context(), k8sclient.ObjectKeyFromObject(job), job)
	})
	return job.Status.Holder
}

// letsGo waits until that conversation is let go.
func (m *slowOnce) letsGo(t *testing.T) {
	t.Helper()
	eventually(t, "the conversation to be let go", func() error {
		if n := m.letGo.Load(); n != 1 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
}

// steadily has several callers report an error that is under cooldown until stop is called, and counts the answers.
func steadily(t *testing.T, tell func(rest.Report) (rest.Verdict, error), known rest.Report) (answered *atomic.Int32, stop func()) {
	t.Helper()
	answered = &atomic.Int32{}
	var group sync.WaitGroup
	over := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for !isClosed(over) {
				if v, err := tell(known); err != nil || v.Outcome != "CoolingDown" {
					t.Errorf("a report under cooldown is answered %+v, %v", v, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	return answered, sync.OnceFunc(func() { close(over); group.Wait() })
}

// unclear tells of an error that no rule decides.
func unclear(tool string) rest.Report {
	return rest.Report{ToolName: tool, Error: &rest.ToolError{HTTPStatus: 500}}
}

// The API server, or etcd below it, is away for longer than the lease lasts. The one process that there is answers on,
// lets its diagnosis go, and when it can it writes what it has promised and leads again.
func TestTheLeaderOutlivesAnOutage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found in /proc")
	}
	for _, program := range []string{"kube-apiserver", "etcd"} {
		t.Run(program, func(t *testing.T) { outliveAnOutage(t, program) })
	}
}

func outliveAnOutage(t *testing.T, program string) {
	model, o := newSlowOnce(), testOptions()
	o.models, o.modelEndpoint, o.healthAddress, o.lease = "some-model", serveTool(t, model), freeAddress(t), leader.MinLease
	connect := served(t, &o)
	mgr, _ := startReplica(t, o, nil)
	<-mgr.Elected()
	p := newProject(t)
	connect(p)
	send := plainly(p, o)
	tell := func(r rest.Report) (rest.Verdict, error) {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return send(ctx, r)
	}
	known := rest.Report{ToolName: "calendar", OriginatingUserID: "alice", Error: &rest.ToolError{HTTPStatus: 403}}
	_, err := tell(known)
	p.must(err)
	v, err := tell(unclear("chess"))
	p.must(err)
	job := &v1alpha1.DiagnosisJob{}
	job.Namespace, job.Name = p.namespace, v.Job
	holder := model.running(t, job)
	answered, stop := steadily(t, tell, known)
	defer stop()

	resume, err := env.Pause(program)
	p.must(err)
	resume = sync.OnceValue(resume)
	defer func() { _ = resume() }() // The test may end before.
	began := time.Now()
	model.letsGo(t)
	time.Sleep(time.Until(began.Add(*outageFor)))
	before := answered.Load()
	eventually(t, "verdicts", func() error {
		if n := answered.Load() - before; n < 100 {
			return fmt.Errorf("%d under cooldown", n)
		}
		return nil
	})
	p.must(get("http://" + o.healthAddress + "/readyz"))
	for _, r := range []rest.Report{report("mail"), unclear("draughts")} {
		if v, err := tell(r); err != nil || v.Stored || !strings.Contains(v.StoreError, "as soon as") {
			t.Errorf("%s is answered %+v, %v", r.ToolName, v, err)
		}
	}
	p.must(resume())
	t.Logf("away for %s, %d verdicts under cooldown", time.Since(began).Round(time.Millisecond), answered.Load())

	if job = p.closed(job); job.Status.Holder == holder || job.Status.Attempts != 2 || job.Status.CloseReason != v1alpha1.CloseDone {
		t.Errorf("the job that was let go, first held by %s, ended as %+v", holder, job.Status)
	}
	if v, err := tell(unclear("go")); err != nil || v.Outcome != "Pending" {
		t.Errorf("an unclear error after the outage is answered %+v, %v", v, err)
	}
	p.caughtUp()
	stop()
	for tool, want := range map[string]int{"chess": 2, "draughts": 1, "- Tool: \\\"go": 1} {
		if n := model.askedAbout(tool); n != want {
			t.Errorf("the model was asked about %s %d times, not %d", tool, n, want)
		}
	}
}

// caughtUp waits until what was reported during an outage is written, once, and diagnosed, as is what came after.
func (p project) caughtUp() {
	p.t.Helper()
	eventually(p.t, "the row of a fault that was reported during the outage", func() error {
		row := p.row(v1alpha1.ScopeProject, p.namespace, "mail")
		if row == nil || row.Status.State != v1alpha1.StateDown || row.Status.Cooldowns[0].Hits != 1 || len(row.Status.History) != 1 {
			return fmt.Errorf("it is %+v", row)
		}
		return nil
	})
	eventually(p.t, "three diagnoses", func() error {
		var jobs v1alpha1.DiagnosisJobList
		p.must(env.Admin.List(p.t.Context(), &jobs, k8sclient.InNamespace(p.namespace)))
		if len(jobs.Items) != 3 {
			return fmt.Errorf("there are %d jobs", len(jobs.Items))
		}
		var open []error
		for i := range jobs.Items {
			if job := &jobs.Items[i]; complete(job).Reason != v1alpha1.ReasonDiagnosed {
				open = append(open, fmt.Errorf("%s: %+v", job.Name, job.Status))
			}
		}
		return errors.Join(open...)
	})
}
