package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/restapi"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

// The size of the storm: reports, keys of each kind, and reports of one request.
const (
	stormReports = 100_000
	stormKeys    = 50
	stormBatch   = 2 * stormKeys
)

var stormTool = regexp.MustCompile(`(clear|unknown)-\d\d\b`)

// perKey counts writes by the tool that they are about, Events and leases apart.
type perKey struct {
	mu   sync.Mutex
	seen map[string][]string
}

func (k *perKey) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/leases") || r.Body == nil {
			return next.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if tool := stormTool.FindString(r.URL.Path + string(body)); tool != "" {
			k.mu.Lock()
			k.seen[tool] = append(k.seen[tool], r.Method+" "+kindOf(r.URL.Path))
			k.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// served gives a manager a REST API of its own, and returns a client of it for a runtime of the project.
func served(t *testing.T, o *options) func(p project) *client.Client {
	t.Helper()
	o.apiAddress, o.apiAudience, o.apiCertDir = freeAddress(t), restapi.DefaultAudience, t.TempDir()
	if err := testenv.ServingCert(o.apiCertDir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return func(p project) *client.Client {
		t.Helper()
		token, err := env.Token(t.Context(), p.namespace, "runtime", restapi.DefaultAudience)
		p.must(err)
		user := testenv.AccountUser(p.namespace, "runtime")
		for role, verb := range map[string]string{"agrajag-reporter": "create", "agrajag-runtime": "report-for-others"} {
			p.must(env.Bind(t.Context(), p.namespace, role, user))
			p.allowed(user, verb)
		}
		c, err := client.New(client.Options{URL: "https://" + o.apiAddress, Project: p.namespace, CAFile: filepath.Join(o.apiCertDir, "ca.crt"),
			Token: func() (string, error) { return token, nil }})
		p.must(err)
		eventually(t, "the REST API", func() error { _, err := c.Health(t.Context(), "warm-up", client.Caller{}); return err })
		return c
	}
}

// heapInUse returns the memory that is in use, in MiB.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// The figures are those of design §4: a storm of the same errors costs what its first reports cost.
func TestAStormCostsWhatItsFirstReportsCost(t *testing.T) {
	model := scripted.New(slices.Repeat([]scripted.Step{{Text: works}}, 4*stormKeys)...)
	o := testOptions()
	o.models, o.modelEndpoint, o.diagnosisWorkers, o.maxUnknownRows = "some-model", serveTool(t, model), 16, 2*stormBatch
	connect := served(t, &o)
	counted := &perKey{seen: map[string][]string{}}
	startManagerWith(t, o, counted.wrap)
	p := newProject(t)
	runtimeClient := connect(p)
	var batch []rest.Report
	for i := range stormKeys {
		batch = append(batch,
			rest.Report{ToolName: fmt.Sprintf("clear-%02d", i), Error: &rest.ToolError{ExceptionTypes: []string{"java.net.ConnectException"}}},
			rest.Report{ToolName: fmt.Sprintf("unknown-%02d", i), Error: &rest.ToolError{HTTPStatus: 500, Body: "something is wrong"}})
	}

	before, began := heapInUse(), time.Now()
	var left, answered atomic.Int64
	left.Store(stormReports / stormBatch)
	outcomes := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				verdicts, err := runtimeClient.ReportAll(t.Context(), batch)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, v := range verdicts {
					outcomes[v.Outcome]++
				}
				mu.Unlock()
				answered.Add(int64(len(verdicts)))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	p.allClosed()
	if answered.Load() != stormReports {
		t.Errorf("%d reports were answered", answered.Load())
	}
	if runs := len(model.Requests()); runs > stormKeys {
		t.Errorf("%d model runs for %d keys", runs, stormKeys)
	}
	most := map[string]int{}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	for tool, writes := range counted.seen {
		kind, _, _ := strings.Cut(tool, "-")
		most[kind] = max(most[kind], len(writes))
		if limit := map[string]int{"clear": 2, "unknown": 5}[kind]; len(writes) > limit {
			t.Errorf("%s cost %d writes, want at most %d: %v", tool, len(writes), limit, writes)
		}
	}
	if len(counted.seen) != 2*stormKeys {
		t.Errorf("writes about %d tools", len(counted.seen))
	}
	t.Logf("%d reports in %s: %v; at most %v writes a key, %d model runs; heap %.1f MiB before, %.1f MiB after",
		stormReports, took.Round(time.Millisecond), outcomes, most, len(model.Requests()), before, heapInUse())
}
