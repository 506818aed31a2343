package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// The webhooks as the API server sees them. One manager serves all of these tests.
func TestWebhooksServed(t *testing.T) {
	needEnv(t)
	mistaken := storeMistake(t) // While nobody judges.
	serve(t)
	for _, tc := range []struct {
		name string
		test func(*testing.T)
	}{
		{"a dry run decides and writes nothing", dryRun},
		{"of many reporters of one fault one creates the job", race},
		{"a closed job makes room for the next of its fault", replaceClosed},
		{"a name that a reporter chose is kept, and takes nobody's place", keepNames},
		{"what is too long is cut, not refused", cutExcess},
		{"invalid text does no harm", invalidText},
		{"an invalid report is refused by field", invalidField},
		{"no secret is stored", noSecretStored},
		{"kubectl shows one line", kubectl},
		{"a changed rule counts for the next report", changedRule},
		{"a set of rules is refused by field, and what was stored stays", refusedRules},
		{"of many mistakes the first are told", manyMistakes},
		{"mistakes that got in hold up nothing but the rules", mistaken},
		{"who writes rules is warned of what they do not do", warnedOfRules},
		{"warnings are few", fewWarnings},
		{"the largest set of rules is accepted", largestAccepted},
	} {
		t.Run(tc.name, tc.test)
	}
}

func dryRun(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	if got := alice.Create(t.Context(), p.job("search", 403), client.DryRunAll); reason(got) != ReasonClassified || cause(got, "Classification") != "USER_PERMISSION" {
		t.Errorf("a clear error: %v", got)
	}
	must(t, alice.Create(t.Context(), p.job("search", 503), client.DryRunAll))
	if rows, jobs := p.rows(), p.jobs(); len(rows)+len(jobs) != 0 {
		t.Errorf("%d rows and %d jobs were stored", len(rows), len(jobs))
	}
	job := p.job("search", 503)
	must(t, alice.Create(t.Context(), job))
	p.close(job)
	eventually(t, "the closed job to be seen", func() error {
		if err := alice.Create(t.Context(), p.job("search", 503), client.DryRunAll); reason(err) == ReasonCoalesced {
			return err
		}
		return nil
	})
	if jobs := p.jobs(); len(jobs) != 1 || jobs[0].UID != job.UID {
		t.Errorf("a dry run replaced the closed job: %v", jobs)
	}
}

func race(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	p.race(alice)
	first := p.jobs()[0]
	eventually(t, "later reports to join the job", func() error {
		if err := alice.Create(t.Context(), p.job("search", 503)); cause(err, "Job") != first.Name {
			return fmt.Errorf("answered: %w", err)
		}
		return nil
	})
	// Once it is closed, they race for its place.
	p.close(&first)
	eventually(t, "the closed job to be seen", func() error {
		if err := alice.Create(t.Context(), p.job("search", 503), client.DryRunAll); reason(err) == ReasonCoalesced {
			return err
		}
		return nil
	})
	p.race(alice)
	if next := p.jobs()[0]; next.Name != first.Name || next.UID == first.UID {
		t.Errorf("%s (%s) follows %s (%s)", next.Name, next.UID, first.Name, first.UID)
	}
}

// race lets many report one fault at once, of whom one is to create the only job.
func (p project) race(reporter client.Client) {
	p.t.Helper()
	results := make([]error, 16)
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() { results[i] = reporter.Create(p.t.Context(), p.job("search", 503)) })
	}
	wait.Wait()
	created := 0
	for _, err := range results {
		switch {
		case err == nil:
			created++
		case !apierrors.IsAlreadyExists(err) && reason(err) != ReasonCoalesced:
			p.t.Errorf("one of the others was told: %v", err)
		}
	}
	if jobs := p.jobs(); created != 1 || len(jobs) != 1 {
		p.t.Errorf("%d reporters created %d jobs", created, len(jobs))
	}
}

// close closes a job as a diagnosis long ago that found the tool working.
func (p project) close(job *v1alpha1.DiagnosisJob) {
	p.t.Helper()
	closedAt := metav1.NewTime(time.Now().Add(-10 * time.Minute))
	job.Status.Phase, job.Status.CloseReason, job.Status.ClosedAt, job.Status.Attempts = v1alpha1.PhaseClosed, v1alpha1.CloseDone, &closedAt, 1
	job.Status.ErrorSignature = "http-5xx"
	must(p.t, env.Admin.Status().Update(p.t.Context(), job))
}

func replaceClosed(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	former := p.job("search", 503)
	must(t, alice.Create(t.Context(), former))
	p.close(former)
	var next *v1alpha1.DiagnosisJob
	eventually(t, "the closed job to be replaced", func() error {
		next = p.job("search", 503)
		return alice.Create(t.Context(), next)
	})
	if next.Name != former.Name || next.UID == former.UID || next.Status.Phase != v1alpha1.PhaseInit {
		t.Errorf("%s (%s) follows %s (%s)", next.Name, next.UID, former.Name, former.UID)
	}
	if jobs := p.jobs(); len(jobs) != 1 {
		t.Errorf("%d jobs are stored", len(jobs))
	}
}

func keepNames(t *testing.T) {
	p := newProject(t)
	alice, carol := p.user("alice"), p.user("carol")
	mine := p.job("search", 503, named("mine"))
	must(t, alice.Create(t.Context(), mine))
	if mine.Name != "mine" {
		t.Errorf("the job is named %s", mine.Name)
	}
	p.close(mine)
	thief := func() *v1alpha1.DiagnosisJob { return p.job("orders", 503, named("mine")) }
	if err := carol.Create(t.Context(), thief()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a job of the same name: %v", err)
	}
	time.Sleep(200 * time.Millisecond) // The cache knows by now that it is closed.
	if err := carol.Create(t.Context(), thief()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a job of the same name, once that is closed: %v", err)
	}
	if jobs := p.jobs(); len(jobs) != 1 || jobs[0].UID != mine.UID {
		t.Errorf("carol, who may delete nothing, had alice's job deleted: %v", jobs)
	}
}

func cutExcess(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	many := func(n int, value string) (headers map[string]v1alpha1.HeaderValue, types []v1alpha1.MatchText) {
		headers = map[string]v1alpha1.HeaderValue{}
		for i := range n {
			headers[fmt.Sprintf("x-%03d", i)], types = v1alpha1.HeaderValue(value), append(types, "java.io.IOException")
		}
		return headers, types
	}
	for _, tc := range []struct {
		field string
		edit  func(*v1alpha1.DiagnosisJobSpec)
		size  func(v1alpha1.DiagnosisJobSpec) int
		most  int
	}{
		{"body", func(s *v1alpha1.DiagnosisJobSpec) { s.Error.Body = strings.Repeat("ü", 512<<10) },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Error.Body) }, v1alpha1.MaxErrorBody},
		{"message", func(s *v1alpha1.DiagnosisJobSpec) { s.Error.Message = strings.Repeat("m", 10<<10) },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Error.Message) }, v1alpha1.MaxErrorMessage},
		{"headers", func(s *v1alpha1.DiagnosisJobSpec) { s.Error.Headers, _ = many(100, "short") },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Error.Headers) }, v1alpha1.MaxErrorHeaders},
		{"header", func(s *v1alpha1.DiagnosisJobSpec) { s.Error.Headers, _ = many(1, strings.Repeat("h", 3000)) },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Error.Headers["x-000"]) }, v1alpha1.MaxHeaderValue},
		{"types", func(s *v1alpha1.DiagnosisJobSpec) { _, s.Error.ExceptionTypes = many(100, "") },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Error.ExceptionTypes) }, v1alpha1.MaxExceptionTypes},
		{"note", func(s *v1alpha1.DiagnosisJobSpec) { s.Note = strings.Repeat("n", 600) },
			func(s v1alpha1.DiagnosisJobSpec) int { return len(s.Note) }, 500},
	} {
		job := p.job(tc.field, 503, func(job *v1alpha1.DiagnosisJob) { tc.edit(&job.Spec) })
		must(t, alice.Create(t.Context(), job))
		if got := tc.size(job.Spec); got > tc.most || got < tc.most-10 {
			t.Errorf("%s: %d are stored, want at most %d and not many fewer", tc.field, got, tc.most)
		}
	}
}

// post sends bytes as a report of alice's, and returns the answer's status and body.
func post(t *testing.T, namespace string, body []byte) (int, string) {
	t.Helper()
	config, err := env.User("alice")
	must(t, err)
	c, err := rest.HTTPClientFor(config)
	must(t, err)
	server, _, err := rest.DefaultServerUrlFor(config)
	must(t, err)
	url := server.JoinPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, "namespaces", namespace, "diagnosisjobs")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url.String(), bytes.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(answer)
}

func invalidText(t *testing.T) {
	p := newProject(t)
	p.user("alice")
	for i, message := range []string{"\xff\xfe\xc3(", `\ud800 alone`, `\u0000\u001b[31m\u202e`, "\xed\xa0\x80"} {
		body := fmt.Sprintf(`{"apiVersion":"tools.agrajag.dev/v1alpha1","kind":"DiagnosisJob","metadata":{"generateName":"r-"},"spec":{"toolName":"tool-%d","note":"%s","error":{"httpStatus":503,"message":"%s","body":"%s"}}}`, i, message, message, message)
		if code, answer := post(t, p.namespace, []byte(body)); code != http.StatusCreated {
			t.Errorf("%q: %d %s", message, code, answer)
		}
	}
	for _, job := range p.jobs() {
		if spec := job.Spec; !utf8.ValidString(spec.Error.Message + spec.Error.Body + spec.Note) {
			t.Errorf("stored: %q", spec.Error.Message)
		}
	}
}

func invalidField(t *testing.T) {
	p := newProject(t)
	p.user("alice")
	for field, spec := range map[string]string{
		"spec.error.httpStatus": `{"toolName":"search","error":{"httpStatus":"503"}}`, "spec.error": `{"toolName":"search","error":[]}`,
		"spec.toolName": `{"error":{"httpStatus":503}}`, "spec.scope": `{"toolName":"search","scope":"PLANET","error":{"httpStatus":503}}`, "spec": `"what"`,
	} {
		code, answer := post(t, p.namespace, []byte(`{"apiVersion":"tools.agrajag.dev/v1alpha1","kind":"DiagnosisJob","metadata":{"generateName":"r-"},"spec":`+spec+`}`))
		if code != http.StatusUnprocessableEntity || !strings.Contains(answer, `"field":"`+field+`"`) || strings.Contains(answer, "webhook") {
			t.Errorf("%s: %d %s", field, code, answer)
		}
	}
	code, answer := post(t, p.namespace, []byte(`{"apiVersion":"tools.agrajag.dev/v1alpha1","kind":"DiagnosisJob","metadata":{"generateName":"r-"}}`))
	if code != http.StatusUnprocessableEntity || !strings.Contains(answer, "spec: Required value") {
		t.Errorf("no spec: %d %s", code, answer)
	}
}

func noSecretStored(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	leak := func(status int32, message string) func(*v1alpha1.DiagnosisJob) {
		return func(job *v1alpha1.DiagnosisJob) {
			job.Spec.Note = "secret=" + canary
			job.Spec.Error = &v1alpha1.ToolError{
				HTTPStatus: &status, Body: `{"access_token":"` + canary + `"}`, Message: message + " Bearer " + canary + ", https://u:" + canary + "@h/",
				Headers: map[string]v1alpha1.HeaderValue{"Authorization": "Bearer " + canary, "Set-Cookie": "s=" + canary, "x-api-key": canary},
			}
			applied, err := json.Marshal(job)
			must(t, err)
			job.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(applied)}
		}
	}
	told := func(err error) {
		if data, _ := json.Marshal(statusOf(err)); err != nil && (strings.Contains(err.Error(), canary) || bytes.Contains(data, []byte(canary))) {
			t.Errorf("the reporter is told a secret: %v", err)
		}
	}
	must(t, alice.Create(t.Context(), p.job("search", 503, leak(503, "first"))))
	eventually(t, "a signal to be stored", func() error {
		err := alice.Create(t.Context(), p.job("search", 503, leak(503, "second")))
		told(err)
		if jobs := p.jobs(); len(jobs[0].Status.Signals) == 0 {
			return fmt.Errorf("none on %s; the report: %w", jobs[0].Name, err)
		}
		return nil
	})
	for range 2 {
		told(alice.Create(t.Context(), p.job("orders", 403, leak(403, "no"))))
	}
	down := p.job("mail", 0, leak(0, "refused"), func(job *v1alpha1.DiagnosisJob) {
		job.Spec.Error.HTTPStatus, job.Spec.Error.ExceptionTypes = nil, []v1alpha1.MatchText{"ECONNREFUSED"}
	})
	told(alice.Create(t.Context(), down))
	stored := 0
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("DiagnosisJobList"), v1alpha1.GroupVersion.WithKind("ToolHealthList"), {Group: "events.k8s.io", Version: "v1", Kind: "EventList"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		must(t, env.Admin.List(t.Context(), list, client.InNamespace(p.namespace)))
		data, err := json.Marshal(list)
		must(t, err)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds a secret: %s", kind.Kind, data)
		}
		stored += len(list.Items)
	}
	if stored < 3 {
		t.Errorf("only %d objects are stored: the test looks at nothing", stored)
	}
}

func kubectl(t *testing.T) {
	p := newProject(t)
	p.user("alice")
	home := t.TempDir()
	config := filepath.Join(home, "kubeconfig")
	must(t, env.KubeConfig("alice", "default", config))
	create := func(tool string, status int) (string, bool) {
		command := exec.CommandContext(t.Context(), filepath.Join(env.Assets, "kubectl"), "--kubeconfig", config, "-n", p.namespace, "create", "-f", "-")
		command.Env = []string{"HOME=" + home}
		command.Stdin = strings.NewReader(fmt.Sprintf(`{apiVersion: tools.agrajag.dev/v1alpha1, kind: DiagnosisJob, metadata: {generateName: report-}, spec: {toolName: %s, originatingUserId: alice, error: {httpStatus: %d, message: "no"}}}`, tool, status))
		output, err := command.CombinedOutput()
		return string(output), err == nil
	}
	for _, tc := range []struct {
		name    string
		tool    string
		status  int
		created bool
		want    string
	}{
		{"a clear error", "search", 403, false, `^Error from server \(ToolErrorClassified\): error when creating "STDIN": admission webhook "answer\.reports\.tools\.agrajag\.dev" denied the request: USER_PERMISSION: the user may not do this with search: do not retry until access is granted \(rule http-403; the same answer for 24h\)\n$`},
		{"the same again", "search", 403, false, `^Error from server \(ToolErrorClassified\): .* USER_PERMISSION: .* \(rule http-403; http-403 cools down for another (24h|23h59m\d+s)\)\. The tool said: HTTP 403 no\n$`},
		{"an unclear error", "orders", 503, true, `^Warning: Diagnosis pending: the error of orders is unclear \(rule http-5xx, signature http-5xx\): do not call it again for 30s; see ToolHealth for what is found\ndiagnosisjob\.tools\.agrajag\.dev/diag-orders-[0-9a-f]{16} created\n$`},
	} {
		output, created := create(tc.tool, tc.status)
		if created != tc.created || !regexp.MustCompile(tc.want).MatchString(output) {
			t.Errorf("%s:\n%s", tc.name, output)
		}
	}
	eventually(t, "a report to join the job", func() error {
		output, _ := create("orders", 503)
		if want := `^Error from server \(ToolErrorCoalesced\): .* Diagnosis pending as job diag-orders-[0-9a-f]{16}: do not call orders again before it ends; it usually takes less than 30s\n$`; !regexp.MustCompile(want).MatchString(output) {
			return fmt.Errorf("kubectl said: %s", output)
		}
		return nil
	})
}

func changedRule(t *testing.T) {
	p := newProject(t)
	alice := p.user("alice")
	must(t, alice.Create(t.Context(), p.job("search", 404)))
	status := int32(404)
	must(t, env.Admin.Create(t.Context(), &v1alpha1.ErrorPatternSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "own"},
		Spec: v1alpha1.ErrorPatternSetSpec{Patterns: []v1alpha1.ErrorPattern{{
			ID: "http-404-endpoint", Match: v1alpha1.ErrorMatch{HTTPStatus: &status}, Signature: "gone", Classification: v1alpha1.UserInput, Cooldown: "PT2M",
		}}},
	}))
	eventually(t, "the rule to count", func() error {
		if err := alice.Create(t.Context(), p.job("orders", 404), client.DryRunAll); cause(err, "ErrorSignature") != "gone" || cause(err, "RetryAfterSeconds") != "120" {
			return fmt.Errorf("answered: %w", err)
		}
		return nil
	})
}
