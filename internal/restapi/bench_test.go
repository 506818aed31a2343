package restapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// BenchmarkReportUnderCooldown measures a report of 1 KiB that meets a cooldown, over HTTPS with keep-alive and
// authorisation, against a bare handler that decodes and encodes the same JSON. The two take turns, and ratio is ours in
// requests per second over theirs; the goal is 0.8.
func BenchmarkReportUnderCooldown(b *testing.B) {
	p := newWorld(b).project("")
	token := p.runtime()
	report := status("search", 403, forUser("alice"), func(r *rest.Report) {
		r.Error.Headers = map[string]string{"Content-Type": "application/json", "Date": "Sat, 23 May 2026 15:00:00 GMT"}
		r.Error.Body = `{"message":"` + strings.Repeat("Resource not accessible by this token. ", 20) + `"}`
	})
	body, err := json.Marshal(report)
	must(b, err)
	verdict := p.report(token, report)
	eventually(b, "the cooldown", func() bool { verdict = p.report(token, report); return verdict.Outcome == "CoolingDown" })

	ours := httptest.NewTLSServer(p.server.Handler())
	defer ours.Close()
	bare := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in rest.Report
		if json.NewDecoder(r.Body).Decode(&in) != nil || in.ToolName != "search" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(verdict)
	}))
	defer bare.Close()
	post := func(s *httptest.Server, path string) {
		r, err := http.NewRequest(http.MethodPost, s.URL+path, bytes.NewReader(body))
		must(b, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := s.Client().Do(r)
		must(b, err)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			b.Fatal(response.Status)
		}
	}
	path := "/v1/projects/" + p.name + "/errors"
	const batch, clients = 200, 8
	spent := map[*httptest.Server]time.Duration{}
	turn := func(s *httptest.Server) {
		began := time.Now()
		var left atomic.Int64
		left.Store(batch)
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					post(s, path)
				}
			})
		}
		wg.Wait()
		spent[s] += time.Since(began)
	}
	turn(ours) // Connections are opened before it counts.
	turn(bare)
	clear(spent)
	b.ReportAllocs()
	for b.Loop() {
		turn(bare)
		turn(ours)
	}
	b.ReportMetric(float64(spent[bare])/float64(spent[ours]), "ratio")
	b.ReportMetric(float64(b.N*batch)/spent[ours].Seconds(), "ours/s")
	b.ReportMetric(float64(b.N*batch)/spent[bare].Seconds(), "bare/s")
	b.ReportMetric(float64(len(body)), "bytes")
}
