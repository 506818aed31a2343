package webhook

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

// questionAbout is what the API server asks about an object.
func questionAbout(t testing.TB, object any) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"request": map[string]any{"uid": "u", "object": object}})
	must(t, err)
	return data
}

// bodyRead is the body of a reported error as the webhooks read it.
func bodyRead(t testing.TB, question []byte) string {
	t.Helper()
	req, err := read(question)
	must(t, err)
	job, err := reportIn(req, nil)
	must(t, err)
	return job.Spec.Error.Body
}

func TestOfALongBodyNoMoreIsReadThanIsLookedAt(t *testing.T) {
	for name, piece := range map[string]string{
		"plain text":           "the upstream did not answer ",
		"lines of JSON":        `{"level":"error","detail":"the upstream did not answer in time"}` + "\n",
		"nothing but escapes":  "\"\\\n\x01",
		"characters in pairs":  "\U0001F600 and some words after it ",
		"words of other lands": "не удалось подключиться ",
	} {
		for _, length := range []int{0, 1, redact.ReadOfBody - 1, redact.ReadOfBody, redact.ReadOfBody + 1, 1 << 20} {
			body := strings.Repeat(piece, length/len(piece)+1)[:length]
			body = strings.ToValidUTF8(body, "")
			got := bodyRead(t, questionAbout(t, map[string]any{"spec": map[string]any{"error": map[string]any{"body": body, "httpStatus": 503}}}))
			if !strings.HasPrefix(body, got) || len(got) < min(len(body), redact.ReadOfBody+1) {
				t.Errorf("%s, %d bytes: %d bytes are read, which are not its beginning", name, len(body), len(got))
			}
			job := func(body string) *v1alpha1.DiagnosisJob {
				return &v1alpha1.DiagnosisJob{Spec: v1alpha1.DiagnosisJobSpec{Error: &v1alpha1.ToolError{Body: body}}}
			}
			all, read := job(body), job(got)
			redact.Job(all)
			redact.Job(read)
			if diff := cmp.Diff(all, read); diff != "" {
				t.Errorf("%s, %d bytes: (-all is read +no more than is looked at)\n%s", name, length, diff)
			}
		}
	}
	if got := bodyRead(t, questionAbout(t, map[string]any{"spec": map[string]any{"error": map[string]any{"body": strings.Repeat("x", 1<<20)}}})); len(got) > 2*redact.ReadOfBody {
		t.Errorf("%d bytes of a megabyte are read", len(got))
	}
}

func TestAReportIsReadAsItIsWritten(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0.2).NumElements(0, 3).MaxDepth(12)
	for range 200 {
		want := &v1alpha1.DiagnosisJob{}
		fill.Fill(&want.Spec)
		fill.Fill(&want.Labels)
		fill.Fill(&want.Annotations)
		want.Name = "mine"
		data := questionAbout(t, want)
		var plainly struct {
			Request struct{ Object v1alpha1.DiagnosisJob }
		}
		must(t, json.Unmarshal(data, &plainly))
		req, err := read(data)
		must(t, err)
		if diff := cmp.Diff(&plainly.Request.Object, req.Object.Object); diff != "" {
			t.Fatalf("(-encoding/json +webhook)\n%s", diff)
		}
	}
}

// What cannot be read is told by its place: a value may be a secret that looks like a word.
func TestWhatIsNotReadIsNotRepeated(t *testing.T) {
	for object, want := range map[string]string{
		`{"spec":{"error":{"date":"correcthorse9"}}}`:                                "/request/object/spec/error/date holds no v1.Time",
		`{"spec":{"error":{"httpStatus":"correcthorse9"}}}`:                          "/request/object/spec/error/httpStatus holds no int32",
		`{"spec":{"error":{"headers":{"ghp_` + strings.Repeat("a1B2", 9) + `":5}}}}`: "/request/object/spec/error/headers/[redacted",
		`{"spec":{"error":{"body":correcthorse9}}}`:                                  "no JSON from byte ",
	} {
		_, err := read([]byte(`{"request":{"uid":"req-1","object":` + object + `}}`))
		if err == nil {
			t.Fatalf("%s is read", object)
		}
		if got := unreadable(err); !strings.HasPrefix(got, want) || strings.Contains(got, "horse9") || strings.Contains(got, "a1B2") {
			t.Errorf("of %s is said %q, want %q", object, got, want)
		}
	}
	if got := unreadable(errors.New("correcthorse9")); strings.Contains(got, "horse9") {
		t.Errorf("another error: %q", got)
	}
}

func TestBodiesThatAreNoTextAreLeftToTheSchema(t *testing.T) {
	for _, body := range []string{`7`, `{}`, `[]`, `true`} {
		if req, err := read([]byte(`{"request":{"uid":"u","object":{"spec":{"error":{"body":` + body + `}}}}}`)); err == nil || req.UID != "u" {
			t.Errorf("%s is read as a text: %v", body, err)
		}
	}
	for question, want := range map[string]string{
		`{"request":{"uid":"u","object":{"spec":{"error":{"body":null}}}}}`:               "",
		`{"request":{"uid":"u","object":{"spec":{"error":{"body":"a\ud83db"}}}}}`:         "a\ufffdb",
		`{"request":{"uid":"u","object":{"spec":{"error":{"body":"x","note":"other"}}}}}`: "x",
	} {
		if got := bodyRead(t, []byte(question)); got != want {
			t.Errorf("of %s it reads %q", question, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(strings.Repeat(`a\"b`, 20000))
	f.Add(strings.Repeat(`\ud83d\ude00`, 9000))
	f.Add(strings.Repeat("x", chunk-3) + `\\\"` + strings.Repeat("y", 3*redact.ReadOfBody))
	f.Fuzz(func(t *testing.T, inside string) {
		question := []byte(`{"request":{"uid":"u","object":{"spec":{"error":{"body":"` + inside + `"}}}}}`)
		var plainly struct {
			Request struct{ Object v1alpha1.DiagnosisJob }
		}
		req, err := read(question)
		if json.Unmarshal(question, &plainly) != nil || plainly.Request.Object.Spec.Error == nil || err != nil {
			return
		}
		job, _ := reportIn(req, nil)
		want := plainly.Request.Object.Spec.Error.Body
		if got := job.Spec.Error.Body; !strings.HasPrefix(want, got) || len(got) < min(len(want), redact.ReadOfBody) {
			t.Errorf("%d bytes are read, %d were to be", len(got), len(want))
		}
	})
}
