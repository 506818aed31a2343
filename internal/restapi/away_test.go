package restapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// outageFor is how long a process is away. `go test ./internal/restapi -run ProcessIsAway -args -outage 60s` takes longer.
var outageFor = flag.Duration("outage", 5*time.Second, "how long kube-apiserver and etcd are away")

// load sends reports from several clients until it is ended, and keeps what was answered.
type load struct {
	mu       sync.Mutex
	verdicts []rest.Verdict
	problems []string
	slowest  time.Duration
	ended    atomic.Bool
	group    sync.WaitGroup
}

func (l *load) start(p project, token string, clients int, report func(i int) rest.Report) {
	var next atomic.Int64
	caller := &http.Client{Timeout: time.Minute}
	for range clients {
		l.group.Go(func() {
			for !l.ended.Load() {
				began := time.Now()
				v, err := post(caller, p, token, report(int(next.Add(1))))
				l.mu.Lock()
				l.slowest = max(l.slowest, time.Since(began))
				if err != nil {
					l.problems = append(l.problems, err.Error())
				} else {
					l.verdicts = append(l.verdicts, v)
				}
				l.mu.Unlock()
			}
		})
	}
}

// post reports as project.report does, from any goroutine.
func post(caller *http.Client, p project, token string, report rest.Report) (v rest.Verdict, err error) {
	body, err := json.Marshal(report)
	if err != nil {
		return v, err
	}
	r, err := http.NewRequest(http.MethodPost, p.url+"/v1/projects/"+p.name+"/errors", bytes.NewReader(body))
	if err != nil {
		return v, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := caller.Do(r)
	if err != nil {
		return v, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, &v)
	}
	return v, err
}

// answered returns how many verdicts came so far, and how many of them are not stored.
func (l *load) answered() (all, notStored int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.verdicts {
		if !v.Stored {
			notStored++
		}
	}
	return len(l.verdicts), notStored
}

// The processes themselves are stopped, under load: connections stay and nothing is answered.
func TestVerdictsGoOnWhileAProcessIsAway(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found in /proc")
	}
	for _, program := range []string{"kube-apiserver", "etcd"} {
		t.Run(program, func(t *testing.T) {
			p := newWorld(t).project("")
			token := p.runtime()
			known := status("warm-up", 403, forUser("alice"))
			p.report(token, known)
			const faults = 20
			l := &load{}
			resume, err := env.Pause(program)
			must(t, err)
			resumed := false
			defer func() {
				if !resumed {
					_ = resume()
				}
			}()
			l.start(p, token, 8, func(i int) rest.Report {
				if i%4 == 0 { // The others need no write.
					return rest.Report{ToolName: fmt.Sprint("tool-", i/4%faults), Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
				}
				return known
			})
			began := time.Now()
			time.Sleep(*outageFor)
			eventually(t, "verdicts, and some that are told to be stored later", func() bool {
				all, notStored := l.answered()
				return all > 2000 && notStored > 4*faults
			})
			away := time.Since(began)
			must(t, resume())
			resumed = true
			l.ended.Store(true)
			l.group.Wait()
			if len(l.problems) > 0 {
				t.Errorf("%d reports were not answered, the first: %s", len(l.problems), l.problems[0])
			}
			eventually(t, "what was reported to be written", func() bool {
				for i := range faults {
					if p.health(token, fmt.Sprint("tool-", i), "").State != "DOWN" {
						return false
					}
				}
				return true
			})
			var rows v1alpha1.ToolHealthList
			must(t, env.Admin.List(t.Context(), &rows, client.InNamespace(p.name)))
			for _, row := range rows.Items {
				if row.Spec.Scope == v1alpha1.ScopeProject && len(row.Status.History) != 1 {
					t.Errorf("%s was written %d times", row.Name, len(row.Status.History))
				}
			}
			all, notStored := l.answered()
			t.Logf("away for %s: %d verdicts, %d of them told to be stored later, the slowest after %s", away.Round(time.Millisecond), all, notStored, l.slowest.Round(time.Millisecond))
		})
	}
}
