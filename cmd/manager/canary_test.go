package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/redact/canary"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/testenv"
)

const (
	// batch is how many canaries one report holds.
	batch = 7
	// maxSaid is how long a tool's answer may be, in bytes, of which 512 with the status are shown to the model.
	maxSaid = 330
)

// Secrets that nothing but their value tells from words.
const (
	userToken   = "correct-horse/battery-staple-of-alice"
	systemToken = "nothing-to-see-here+of-the-system"
	modelKey    = "the-key-of-the-model-is-a-sentence"
)

// TestNoCanaryIsFoundAnywhere plants a secret of every family, and the credentials that the manager uses, wherever a
// stranger may write, and looks for them wherever the manager writes.
func TestNoCanaryIsFoundAnywhere(t *testing.T) {
	for _, tc := range []struct {
		name string
		away bool
	}{
		{name: "with the webhooks up"},
		{name: "with the webhooks away when the reports are made", away: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := plant(t)
			jobs := []*v1alpha1.DiagnosisJob{}
			if tc.away {
				jobs = h.report()
				h.mustBeStored() // Or the search could find nothing.
			}
			h.start()
			if !tc.away {
				h.watch()
				jobs = h.report()
				jobs = append(jobs, h.reportClear()...)
			}
			for _, job := range jobs {
				h.closed(job)
			}
			h.refuseModel()
			h.collect()
			h.mustBeNowhere()
		})
	}
}

// hunt is one search for canaries.
type hunt struct {
	project
	canaries []canary.Canary
	model    *scripted.Server
	options  options
	logs     *logBuffer
	refused  atomic.Bool // the model's endpoint refuses the key
	said     []string    // what tools answer, in turn
	answered atomic.Int32

	mu     sync.Mutex
	places map[string]string
}

// plant makes a project whose tools show canaries, and a model that is told to probe them and says canaries itself.
func plant(t *testing.T) *hunt {
	t.Helper()
	all, err := canary.All(4)
	if err != nil {
		t.Fatal(err)
	}
	h := &hunt{project: newProject(t), canaries: all, logs: captured, places: map[string]string{}}
	h.logs.Reset()
	h.credentials()
	h.said = answersOf(all)
	for i := range h.batches() {
		h.tool(i)
	}
	h.model = scripted.New(h.steps()...)
	refusal := scripted.Step{Status: 401, Text: "no such key: " + echoes(modelKey) + all[0].Text}
	refusing := scripted.New(slices.Repeat([]scripted.Step{refusal}, 8)...)
	h.options = testOptions()
	h.options.diagnosisWorkers, h.options.models = 1, "some-model"
	h.options.modelEndpoint = serveTool(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.refused.Load() {
			refusing.ServeHTTP(w, r)
			return
		}
		h.model.ServeHTTP(w, r)
	}))
	h.options.metricsAddress = freeAddress(t)
	h.options.modelKeyFile = filepath.Join(t.TempDir(), "key")
	h.must(os.WriteFile(h.options.modelKeyFile, []byte(modelKey), 0o600))
	return h
}

// steps are those of one run after the other: each probes as both, reads the health, and decides.
func (h *hunt) steps() []scripted.Step {
	probe := scripted.Step{ToolCalls: []llm.ToolCall{
		{ID: "1", Name: llm.ToolProbeAsUser, Arguments: "{}"}, {ID: "2", Name: llm.ToolProbeAsSystem, Arguments: "{}"}, {ID: "3", Name: llm.ToolHealthRead, Arguments: "{}"},
	}}
	var steps []scripted.Step
	for range 4 { // With the webhooks away, what is reported again may be diagnosed again.
		for _, some := range h.batches() {
			steps = append(steps, probe, scripted.Step{Text: verdict(some)})
		}
	}
	return steps
}

func (h *hunt) batches() [][]canary.Canary { return slices.Collect(slices.Chunk(h.canaries, batch)) }

func (h *hunt) credentials() {
	h.credential("alice", userToken, "127.0.0.1")
	h.must(env.Admin.Create(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "system"}, Type: "tools.agrajag.dev/system-credential",
		StringData: map[string]string{"token": systemToken, "hosts": "127.0.0.1"},
	}))
}

func toolName(i int) string { return fmt.Sprintf("tool-%d", i) }

// answersOf puts the canaries into answers of which all is shown.
func answersOf(all []canary.Canary) []string {
	answers := []string{""}
	for _, c := range all {
		if last := len(answers) - 1; len(answers[last])+len(c.Text) < maxSaid {
			answers[last] += c.Text + "\n\n"
		} else {
			answers = append(answers, c.Text+"\n\n")
		}
	}
	return answers
}

// say returns what a tool says next: one form of the credential that it was sent, and canaries.
func (h *hunt) say(r *http.Request) string {
	n := int(h.answered.Add(1)) - 1
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	forms := strings.Split(strings.Trim(echoes(token), "\n"), "\n")
	return forms[n/2%len(forms)] + "\n" + h.said[n%len(h.said)]
}

// tool creates a Tool, by turns for an HTTP API and for an MCP server, that answers with canaries and credentials.
func (h *hunt) tool(i int) {
	endpoint := &v1alpha1.ToolEndpoint{}
	if i%2 == 0 {
		endpoint.HTTP = &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(serveTool(h.t, h.httpAPI()) + "/v1/search")}
	} else {
		endpoint.MCP = &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(serveTool(h.t, h.mcpServer(i%4 == 1))), Tool: "search"}
	}
	h.must(env.Admin.Create(h.t.Context(), &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: toolName(i)},
		Spec: v1alpha1.ToolSpec{
			Endpoint: endpoint, Safety: v1alpha1.SafetySafeProbe,
			Credentials: &v1alpha1.ToolCredentials{System: &v1alpha1.SecretName{Name: "system"}},
			Probe:       &v1alpha1.ToolProbe{Input: &apiextensionsv1.JSON{Raw: []byte(`{"q":"tea"}`)}},
		},
	}))
}

func (h *hunt) httpAPI() http.Handler {
	api := sampletools.NewHTTPAPI()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := h.say(r)
		api.Fail(sampletools.Answer{Status: 500, Body: said, Headers: map[string]string{
			"X-Echo": strings.Join(strings.Fields(said), " "), "X-Sent": r.Header.Get("Authorization"), "Set-Cookie": "sid=" + h.canaries[0].Secret,
		}})
		api.ServeHTTP(w, r)
	})
}

// mcpServer answers calls of its tool with an error of the tool, or of the protocol.
func (h *hunt) mcpServer(protocol bool) http.Handler {
	server := sampletools.NewMCPServer()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			said := h.say(r)
			if server.FailTool(said); protocol {
				server.FailRPC(-32050, said)
			}
		}
		server.ServeHTTP(w, r)
	})
}

// textsOf returns the canaries as a text of many lines, each divided by something that does not show.
func textsOf(some []canary.Canary) string {
	var b strings.Builder
	for i, c := range some {
		b.WriteString(strings.ReplaceAll(c.Text, c.Secret, divided(c.Secret, i)) + "\n\n")
	}
	return b.String()
}

// divided puts into a secret what we drop before anybody reads it.
func divided(secret string, i int) string {
	dividers := []string{"\x1b[0m", "\u200b", "\x01", "\x1b]0;title\x07", "\ufe0f", "\u2065", "\ufffd", "\U000e0041"}
	middle := len(secret) / 2
	for !utf8.RuneStart(secret[middle]) {
		middle--
	}
	return secret[:middle] + dividers[i%len(dividers)] + secret[middle:]
}

// echoes returns a credential in the forms in which servers show what they were sent.
func echoes(secret string) string {
	quoted, _ := json.Marshal(secret)
	return strings.Join([]string{
		"", secret, divided(secret, 0), divided(secret, 1), divided(secret, 6), url.QueryEscape(secret), url.PathEscape(secret), string(quoted), strings.ReplaceAll(secret, "/", `\/`),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("alice:" + secret)), base64.StdEncoding.EncodeToString([]byte("x:" + secret)), "",
	}, "\n")
}

// verdict is what the model says: a model may make up secrets, too.
func verdict(some []canary.Canary) string {
	note, _ := json.Marshal(some[0].Text)
	hint, _ := json.Marshal(some[len(some)-1].Text)
	return fmt.Sprintf("```json\n{\"classification\":\"TECHNICALLY_BROKEN\",\"scope\":\"PROJECT\",\"humanNote\":%s,\"userActionHint\":%s}\n```", note, hint)
}

// failure is a report with canaries wherever a report is free.
func failure(status int32, some []canary.Canary) v1alpha1.ToolError {
	e := v1alpha1.ToolError{HTTPStatus: &status, Body: textsOf(some), Headers: map[string]v1alpha1.HeaderValue{}}
	for i, c := range some {
		if len(e.Message)+len(c.Text) < v1alpha1.MaxErrorMessage {
			e.Message += c.Text + "\n\n"
		}
		e.Headers[fmt.Sprintf("X-Said-%d", i)] = v1alpha1.HeaderValue(c.Text)
		e.Headers[fmt.Sprintf("X-%d-Token", i)] = v1alpha1.HeaderValue(c.Secret)
		if len(c.Text) <= 256 {
			e.ExceptionTypes = append(e.ExceptionTypes, v1alpha1.MatchText(c.Text))
		}
		if len(c.Text) <= 128 {
			e.ErrorCode, e.Host = c.Text, c.Text
		}
	}
	e.Headers["Authorization"], e.Headers["Set-Cookie"] = v1alpha1.HeaderValue("Bearer "+some[0].Secret), v1alpha1.HeaderValue("sid="+some[0].Secret)
	return e
}

// job is a report as kubectl makes it.
func (h *hunt) job(i int, status int32, some []canary.Canary) *v1alpha1.DiagnosisJob {
	job := h.project.job(toolName(i), "alice", failure(status, some))
	job.GenerateName, job.Name = "", fmt.Sprintf("report-%d-%d", status, i)
	for _, c := range some {
		if len(c.Text) <= 256 {
			job.Spec.Note, job.Spec.OriginatingProcessID = c.Text, c.Text
		}
	}
	job.Annotations = map[string]string{"example.com/said": textsOf(some)}
	applied, _ := json.Marshal(job)
	job.Annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	return job
}

// report makes the reports, and most of them once more with other words, which become signals.
func (h *hunt) report() []*v1alpha1.DiagnosisJob {
	h.t.Helper()
	alice := h.user("alice")
	var jobs []*v1alpha1.DiagnosisJob
	for i, some := range h.batches() {
		job := h.job(i, 500, some)
		h.must(alice.Create(h.t.Context(), job))
		jobs = append(jobs, job)
		again := h.job(i, 500, some)
		again.Name += "-again"
		again.Spec.Error.Message = "once more: " + again.Spec.Error.Message
		if err := alice.Create(h.t.Context(), again); err != nil {
			h.add("the answer to a report", err)
		} else {
			jobs = append(jobs, again)
		}
	}
	return jobs
}

// reportClear makes reports that are answered at once, most of them: a 403 that speaks of other hosts is unclear.
func (h *hunt) reportClear() (jobs []*v1alpha1.DiagnosisJob) {
	h.t.Helper()
	alice := h.user("alice")
	for i, some := range h.batches() {
		job := h.job(i, 403, some)
		var status apierrors.APIStatus
		if err := alice.Create(h.t.Context(), job); errors.As(err, &status) {
			h.add("the answer to a clear report", status.Status())
		} else {
			h.must(err)
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// refuseModel makes a report more, of which the model's endpoint refuses the key and shows it.
func (h *hunt) refuseModel() {
	h.t.Helper()
	h.refused.Store(true)
	job := h.project.job("unknown-tool", "alice", status(500))
	h.must(h.user("alice").Create(h.t.Context(), job))
	job = h.closed(job)
	if status, err := json.Marshal(job.Status); err != nil || !bytes.Contains(status, []byte("no such key")) {
		h.t.Errorf("the refusal of the key is not told: %+v", job.Status)
	}
}

func (h *hunt) start() { startManager(h.t, h.options) }

// kinds are those that the manager writes.
var kinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("DiagnosisJobList"), v1alpha1.GroupVersion.WithKind("ToolHealthList"),
	v1alpha1.GroupVersion.WithKind("ToolList"), v1alpha1.GroupVersion.WithKind("DiagnosisRecipeList"),
	v1alpha1.GroupVersion.WithKind("ErrorPatternSetList"), {Group: "events.k8s.io", Version: "v1", Kind: "EventList"},
}

// watch remembers every state that jobs and health have in the meantime.
func (h *hunt) watch() {
	h.t.Helper()
	config, err := env.User(testenv.ManagerUser)
	h.must(err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	h.must(err)
	for _, kind := range kinds[:2] {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		watch, err := c.Watch(context.Background(), list, client.InNamespace(h.namespace))
		h.must(err)
		h.t.Cleanup(watch.Stop)
		go func() {
			for event := range watch.ResultChan() {
				h.add("a state of "+kind.Kind, event.Object)
			}
		}()
	}
}

// add remembers what stands in a place.
func (h *hunt) add(place string, what any) {
	var b bytes.Buffer
	switch what := what.(type) {
	case string:
		b.WriteString(what)
	case error:
		b.WriteString(what.Error())
	default:
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(what); err != nil {
			h.t.Error(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places[fmt.Sprintf("%s, %d", place, len(h.places))] = b.String()
}

// collect reads all that the manager wrote.
func (h *hunt) collect() {
	h.t.Helper()
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		h.must(env.Admin.List(h.t.Context(), list))
		for _, item := range list.Items {
			if ns := item.GetNamespace(); ns == h.namespace || ns == testenv.OperatorNamespace {
				h.add(item.GetKind(), item.Object)
			}
		}
	}
	for _, request := range h.model.Requests() {
		h.add("a request to the model", request.Body)
	}
	h.add("the log", h.logs.String())
	response, err := http.Get("http://" + h.options.metricsAddress + "/metrics")
	h.must(err)
	defer func() { _ = response.Body.Close() }()
	metrics, err := io.ReadAll(response.Body)
	h.must(err)
	if !bytes.Contains(metrics, []byte("controller_runtime_reconcile_total")) {
		h.t.Errorf("no metrics: %s", metrics)
	}
	h.add("the metrics", string(metrics))
}

// shown are the forms in which a secret would give itself away.
func shown(secret string) []string {
	quoted, _ := json.Marshal(secret)
	return []string{
		secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

// found returns where secrets stand, by family.
func (h *hunt) found() map[string][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	secrets := map[string]string{"the user's token": userToken, "the system's token": systemToken, "the model's key": modelKey}
	for _, c := range h.canaries {
		secrets[c.Family] = c.Secret
	}
	found := map[string][]string{}
	for place, text := range h.places {
		for family, secret := range secrets {
			if slices.ContainsFunc(shown(secret), func(form string) bool { return strings.Contains(text, form) }) {
				found[family] = append(found[family], place)
			}
		}
	}
	return found
}

// mustBeStored fails the test unless every canary is found in the jobs: without webhooks they are stored as they come.
func (h *hunt) mustBeStored() {
	h.t.Helper()
	jobs := &v1alpha1.DiagnosisJobList{}
	h.must(env.Admin.List(h.t.Context(), jobs, client.InNamespace(h.namespace)))
	h.add("jobs", jobs)
	if found := h.found(); len(found) != len(h.canaries) {
		h.t.Fatalf("of %d canaries, %d are in the jobs as they were reported", len(h.canaries), len(found))
	}
	h.places = map[string]string{}
}

// mustBeNowhere fails the test for each canary that is found, and for each kind of place, more of them with some, that was
// not searched.
func (h *hunt) mustBeNowhere(more ...string) {
	h.t.Helper()
	for family, places := range h.found() {
		h.t.Errorf("%s is found in %d places: %.300q", family, len(places), places)
	}
	if given := int(h.answered.Load()); given < len(h.said) {
		h.t.Errorf("of %d answers, tools gave %d", len(h.said), given)
	}
	counts := map[string]int{}
	marks := 0
	for place, text := range h.places {
		kind, _, _ := strings.Cut(place, ",")
		counts[kind]++
		marks += strings.Count(text, "[redacted")
	}
	for _, kind := range append(more, "DiagnosisJob", "ToolHealth", "Event", "a request to the model", "the log", "the metrics") {
		if counts[kind] == 0 {
			h.t.Errorf("%s was not searched", kind)
		}
	}
	h.t.Logf("%d canaries and 3 credentials, %d placeholders in %d places: %v", len(h.canaries), marks, len(h.places), counts)
}

// logBuffer remembers the log. It is safe for concurrent use.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write remembers a line.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// Reset forgets all.
func (b *logBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffer.Reset()
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
