package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/restapi"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// within bounds a request: whatever ends by it hung.
const within = 20 * time.Second

// buildManager builds the manager's own binary.
func buildManager(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/manager")
	build.Dir = testenv.Path()
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, output)
	}
	return binary
}

// startProcess runs the manager as a process of its own, bound to the generated roles, until the test ends or it is
// killed, and waits until it is ready.
func startProcess(t *testing.T, binary string, o options) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, log := filepath.Join(dir, "kubeconfig"), &bytes.Buffer{}
	if err := env.KubeConfig(testenv.ManagerUser, testenv.OperatorNamespace, kubeconfig); err != nil {
		t.Fatal(err)
	}
	ready := freeAddress(t)
	manager := exec.Command(binary, "--kubeconfig", kubeconfig, "--namespace", o.namespace, //nolint:noctx // The test kills it.
		"--webhook-host", o.webhookHost, "--webhook-port", fmt.Sprint(o.webhookPort), "--webhook-cert-dir", o.webhookCertDir,
		"--api-bind-address", o.apiAddress, "--api-cert-dir", o.apiCertDir, "--metrics-bind-address", "0", "--health-probe-bind-address", ready,
		"--model", o.models, "--model-endpoint", o.modelEndpoint, "--max-unknown-tool-rows", fmt.Sprint(o.maxRows), "--probe-allow", o.probeAllow)
	manager.Stdout, manager.Stderr = log, log
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = manager.Process.Signal(syscall.SIGTERM) // It may be dead.
		_ = manager.Wait()
		if t.Failed() {
			t.Logf("process %d said:\n%s", manager.Process.Pid, log)
		}
	})
	eventually(t, "the process to be ready", func() error { return get("http://" + ready + "/readyz") })
	return manager
}

// leaseHolder tells which manager leads.
func leaseHolder(t *testing.T) (string, error) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := env.Admin.Get(t.Context(), k8sclient.ObjectKey{Namespace: testenv.OperatorNamespace, Name: component}, lease)
	if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		err = errors.New("nobody leads")
	}
	if err != nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// report tells of a tool that cannot be reached, which a rule decides and writes to its row.
func report(tool string) rest.Report {
	return rest.Report{ToolName: tool, Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}}
}

// reporting is a way to report an error.
type reporting func(context.Context, rest.Report) (rest.Verdict, error)

// plainly reports without the Go client, over a connection of its own each time: no pool hides what a new one meets.
func plainly(p project, o options) reporting {
	p.t.Helper()
	token, err := env.Token(p.t.Context(), p.namespace, "runtime", restapi.DefaultAudience)
	p.must(err)
	ca, err := os.ReadFile(filepath.Join(o.apiCertDir, "ca.crt"))
	p.must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	return func(ctx context.Context, r rest.Report) (v rest.Verdict, err error) {
		body, err := json.Marshal(r)
		if err != nil {
			return v, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+o.apiAddress+"/v1/projects/"+p.namespace+"/errors", bytes.NewReader(body))
		if err != nil {
			return v, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := c.Do(request)
		if err != nil {
			return v, err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return v, fmt.Errorf("answered %s", response.Status)
		}
		return v, json.NewDecoder(response.Body).Decode(&v)
	}
}

// load is what callers report, each of them one fault after the other, and what becomes of it.
type load struct {
	t     *testing.T
	group sync.WaitGroup
	// answered counts the verdicts.
	answered, faults atomic.Int32
	// killed is set when one replica is.
	killed atomic.Bool
	mu     sync.Mutex
	// untold are the faults that nobody promised to store: who reported them was told so, or met a connection that ended.
	untold []string
	cut    int
}

// from adds callers who report until stop is closed, or for ever to one that dies: their last request meets its end.
func (l *load) from(report reporting, stop <-chan struct{}, mortal bool) {
	for range 4 {
		l.group.Go(func() {
			for !isClosed(stop) && l.one(report, mortal) {
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// one reports a fault and tells whether there was an answer.
func (l *load) one(send reporting, mortal bool) bool {
	ctx, cancel := context.WithTimeout(l.t.Context(), within)
	defer cancel()
	tool := fmt.Sprintf("faulty-%d", l.faults.Add(1))
	v, err := send(ctx, report(tool))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		l.t.Errorf("%s: the request hung: %v", tool, err)
	case err == nil && v.Outcome != "Classified":
		l.t.Errorf("%s is answered %+v", tool, v)
	case err == nil:
		l.answered.Add(1)
	case !mortal || !l.killed.Load():
		l.t.Errorf("%s is not answered by a replica that lives: %v", tool, err)
	default:
		l.cut++
	}
	if err != nil || mortal && !v.Stored {
		l.untold = append(l.untold, tool)
	}
	return err == nil
}

// past waits until so many more reports are answered.
func (l *load) past(more int32) {
	l.t.Helper()
	goal := l.answered.Load() + more
	eventually(l.t, "more verdicts", func() error {
		if n := l.answered.Load(); n < goal {
			return fmt.Errorf("%d of %d", n, goal)
		}
		return nil
	})
}

// Two processes of the manager are under load when the one that leads is killed: it says no good-bye to its callers, its
// lease or the job that it runs.
func TestAReplicaIsKilledUnderLoad(t *testing.T) {
	var asked atomic.Int32
	model := scripted.NewFunc(func(scripted.Request) scripted.Step {
		if asked.Add(1) == 1 {
			return scripted.Step{Delay: 10 * time.Minute} // Unless its client dies before.
		}
		return scripted.Step{Text: works}
	})
	first := testOptions()
	first.models, first.modelEndpoint = "some-model", serveTool(t, model)
	second := first
	first.webhookPort = freePort(t) // The API server asks the one that lives, as a Service would have it.
	toFirst, toSecond := served(t, &first), served(t, &second)
	p := newProject(t)
	binary := buildManager(t)
	leading := startProcess(t, binary, first)
	var leader string
	eventually(t, "the first to lead", func() (err error) { leader, err = leaseHolder(t); return err })
	startProcess(t, binary, second)
	doomed, living := toFirst(p), toSecond(p)

	unclear := rest.Report{ToolName: "unclear", Error: &rest.ToolError{HTTPStatus: 500}}
	v, err := doomed.Report(t.Context(), unclear)
	if err != nil || v.Outcome != "Pending" || v.Job == "" {
		t.Fatalf("an unclear error: %+v, %v", v, err)
	}
	job := &v1alpha1.DiagnosisJob{}
	job.Namespace, job.Name = p.namespace, v.Job
	eventually(t, "the leader to run the job", func() error {
		if err := env.Admin.Get(t.Context(), k8sclient.ObjectKeyFromObject(job), job); err != nil || job.Status.Phase != v1alpha1.PhaseRunning || asked.Load() != 1 {
			return fmt.Errorf("phase %s, model asked %d times: %w", job.Status.Phase, asked.Load(), err)
		}
		return nil
	})

	l, stop := &load{t: t}, make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); l.group.Wait() })
	defer end()
	l.group.Go(func() { // A request that waits when the end comes.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := doomed.Recheck(ctx, "unclear", client.Caller{}, time.Minute); err == nil || ctx.Err() != nil {
			t.Errorf("a recheck that the killed replica was to wait for: %v", err)
		}
	})
	for _, to := range []reporting{doomed.Report, plainly(p, first)} {
		l.from(to, nil, true)
	}
	for _, to := range []reporting{living.Report, plainly(p, second)} {
		l.from(to, stop, false)
	}
	l.past(100)
	l.killed.Store(true)
	p.must(leading.Process.Kill())
	l.past(100)
	end()
	if l.cut != 8 {
		t.Errorf("%d of 8 callers saw the killed replica's end", l.cut)
	}
	t.Logf("%d faults, %d answered, %d told again to the one that lives", l.faults.Load(), l.answered.Load(), len(l.untold))

	for _, tool := range l.untold { // As their callers do, one after the other.
		if v, err := living.Report(t.Context(), report(tool)); err != nil || v.Outcome != "Classified" && v.Outcome != "CoolingDown" {
			t.Errorf("%s told again: %+v, %v", tool, v, err)
		}
	}
	eventually(t, "the lease to move", func() error {
		if now, err := leaseHolder(t); err != nil || now == leader {
			return fmt.Errorf("%q leads: %w", now, err)
		}
		return nil
	})
	holder := job.Status.Holder
	if job = p.closed(job); job.Status.Attempts != 2 || job.Status.CloseReason != v1alpha1.CloseDone || job.Status.Holder == holder || asked.Load() != 2 {
		t.Errorf("the model was asked %d times, and the job ended as %+v", asked.Load(), job.Status)
	}
	p.eachFaultOnce(int(l.faults.Load()))
}

// eachFaultOnce waits until every fault has its row, which must have met it once.
func (p project) eachFaultOnce(faults int) {
	p.t.Helper()
	var rows v1alpha1.ToolHealthList
	eventually(p.t, "every fault to have a row", func() error {
		p.must(env.Admin.List(p.t.Context(), &rows, k8sclient.InNamespace(p.namespace)))
		down := 0
		for _, row := range rows.Items {
			if row.Status.State == v1alpha1.StateDown {
				down++
			}
		}
		if down != faults {
			return fmt.Errorf("%d rows for %d faults", down, faults)
		}
		return nil
	})
	for _, row := range rows.Items {
		if s := row.Status; row.Spec.ToolName != "unclear" && (len(s.Cooldowns) != 1 || s.Cooldowns[0].Hits != 1 || len(s.History) != 1) {
			p.t.Errorf("%s was met otherwise than once: %+v", row.Name, s)
		}
	}
}
