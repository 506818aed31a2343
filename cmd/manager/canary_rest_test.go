package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/client"
	"github.com/agrajag-dev/agrajag/internal/redact/canary"
	"github.com/agrajag-dev/agrajag/internal/restapi"
)

// TestNoCanaryIsFoundAnywhereAfterREST plants the same secrets through the REST API, in reports and in requests that it
// refuses, and looks for them in its answers, too.
func TestNoCanaryIsFoundAnywhereAfterREST(t *testing.T) {
	h := plant(t)
	r := newRESTHunt(t, h)
	h.start()
	r.clientOf(h.project) // Which waits until the API is served and the runtime may report.
	h.watch()
	for _, job := range r.report() {
		h.closed(job)
	}
	r.reportAgain()
	r.tellEvents()
	r.askWrongly()
	r.ask()
	h.refuseModel()
	h.collect()
	h.mustBeNowhere("a REST answer", "a REST problem")
}

// restHunt is an agent runtime that keeps all that the REST API answers.
type restHunt struct {
	*hunt
	clientOf    func(project) *client.Client
	caller      *http.Client
	base, token string
	sent        int
}

func newRESTHunt(t *testing.T, h *hunt) *restHunt {
	t.Helper()
	clientOf := served(t, &h.options)
	pem, err := os.ReadFile(filepath.Join(h.options.apiCertDir, "ca.crt"))
	h.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	h.t.Cleanup(transport.CloseIdleConnections)
	token, err := env.Token(h.t.Context(), h.namespace, "runtime", restapi.DefaultAudience)
	h.must(err)
	return &restHunt{hunt: h, clientOf: clientOf, caller: &http.Client{Transport: transport}, token: token,
		base: "https://" + h.options.apiAddress + "/v1/projects/" + h.namespace}
}

// send sends a request, keeps what is answered, and returns it.
func (r *restHunt) send(method, path string, body any) []byte {
	r.t.Helper()
	data, ok := body.([]byte)
	if !ok {
		var err error
		data, err = json.Marshal(body)
		r.must(err)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, bytes.NewReader(data))
	r.must(err)
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	r.sent++
	request.Header.Set("Idempotency-Key", fmt.Sprint(r.canaries[0].Secret, r.sent))
	response, err := r.caller.Do(request)
	r.must(err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	r.must(err)
	place := "a REST answer"
	if response.StatusCode >= http.StatusBadRequest {
		place = "a REST problem"
	}
	r.add(place, fmt.Sprint(response.Header, string(answer)))
	return answer
}

// rest is a report with canaries wherever one is free.
func (r *restHunt) rest(i int, status int32, some []canary.Canary) rest.Report {
	job := r.job(i, status, some)
	e := &rest.ToolError{HTTPStatus: status, Headers: map[string]string{}, Body: job.Spec.Error.Body, Message: job.Spec.Error.Message,
		ErrorCode: job.Spec.Error.ErrorCode, Host: job.Spec.Error.Host}
	for name, value := range job.Spec.Error.Headers {
		e.Headers[name] = string(value)
	}
	for _, kind := range job.Spec.Error.ExceptionTypes {
		e.ExceptionTypes = append(e.ExceptionTypes, string(kind))
	}
	return rest.Report{ToolName: toolName(i), OriginatingUserID: "alice", OriginatingProcessID: job.Spec.OriginatingProcessID, Note: job.Spec.Note, Error: e}
}

// report makes reports of every tool, one by one and again with other words, and returns the jobs that look at them.
func (r *restHunt) report() (jobs []*v1alpha1.DiagnosisJob) {
	r.t.Helper()
	for i, some := range r.batches() {
		report := r.rest(i, 500, some)
		var verdict rest.Verdict
		r.must(json.Unmarshal(r.send(http.MethodPost, "/errors", report), &verdict))
		if verdict.Job == "" || !verdict.Stored {
			r.t.Errorf("verdict %+v", verdict)
			continue
		}
		jobs = append(jobs, &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: verdict.Job}})
		report.Error.Message = "once more: " + report.Error.Message
		r.send(http.MethodPost, "/errors", report)
	}
	return jobs
}

// reportAgain makes lists of reports that are answered from cooldowns or by rules; what the tool said is told then.
func (r *restHunt) reportAgain() {
	r.t.Helper()
	reflected := 0
	for range 2 {
		for i, some := range r.batches() {
			answer := r.send(http.MethodPost, "/errors", []rest.Report{r.rest(i, 500, some), r.rest(i, 403, some), r.rest(i, 429, some)})
			reflected += bytes.Count(answer, []byte("The tool said: "))
		}
	}
	if reflected < len(r.batches()) {
		r.t.Errorf("what a tool said was told %d times", reflected)
	}
}

// tellEvents tells of connections, with canaries in the note.
func (r *restHunt) tellEvents() {
	r.t.Helper()
	for i, c := range r.canaries {
		tool := fmt.Sprintf("mcp_%d", i%batch)
		r.send(http.MethodPost, "/events", rest.Event{Type: rest.ConnectionClosed, ToolNames: []string{tool}, Note: c.Text})
		r.send(http.MethodPost, "/events", rest.Event{Type: rest.ConnectionReopened, ToolNames: []string{tool}, Note: c.Text})
	}
}

// askWrongly puts canaries where a value is wrong, which a problem might quote.
func (r *restHunt) askWrongly() {
	r.t.Helper()
	for _, c := range r.canaries {
		said, query := c.Text, url.QueryEscape(c.Text)
		quoted, _ := json.Marshal(said)
		for _, body := range []any{
			[]byte(said), []byte(fmt.Sprintf(`{%s:1}`, quoted)), []byte(fmt.Sprintf(`{"toolName":"x","error":{"date":%s}}`, quoted)),
			[]byte(fmt.Sprintf(`{"toolName":"x","error":{"httpStatus":%s}}`, quoted)),
			rest.Report{ToolName: "x", Scope: said, Error: &rest.ToolError{HTTPStatus: 500}},
			rest.Report{ToolName: "x", Locale: said, Error: &rest.ToolError{HTTPStatus: 500}},
			rest.Report{ToolName: "x\n" + said, Error: &rest.ToolError{HTTPStatus: 500}},
		} {
			r.send(http.MethodPost, "/errors", body)
		}
		r.send(http.MethodPost, "/events", rest.Event{Type: said, ToolNames: []string{"x"}})
		r.send(http.MethodPost, "/successes", rest.Success{ToolName: toolName(0), ErrorSignature: said})
		r.send(http.MethodPost, "/tools/x/recheck?wait="+query, nil)
		r.send(http.MethodPost, "/tools/x/recheck?scope="+query, nil)
		r.send(http.MethodGet, "/tools?"+query+"="+query, nil)
	}
}

// ask reads all that the API shows.
func (r *restHunt) ask() {
	r.t.Helper()
	r.send(http.MethodGet, "/tools?user=alice", nil)
	for i := range r.batches() {
		r.send(http.MethodGet, "/tools/"+toolName(i)+"/health?user=alice", nil)
		r.send(http.MethodPost, "/tools/"+toolName(i)+"/recheck?user=alice&wait=30s", nil)
		r.send(http.MethodPost, "/successes", rest.Success{ToolName: toolName(i), OriginatingUserID: "alice"})
	}
}
