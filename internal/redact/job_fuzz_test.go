package redact

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// What is clean stays as it is: the reconciler writes a job as long as Job changes it.
func FuzzJob(f *testing.F) {
	for _, seed := range []string{"", "plain", "password=hunter22", "\xff\xfeBearer abc123def456", strings.Repeat("x", 484) + " password=hunter22 and more",
		strings.Repeat("ü", 300), "secret=[redacted:123456]", "-----BEGIN PRIVATE KEY-----" + strings.Repeat("A", 600), "https://u:p4ssword@h/" + strings.Repeat("é", 251)} {
		f.Add(seed, seed, seed, "Authorization", seed)
	}
	f.Fuzz(func(t *testing.T, note, message, body, header, value string) {
		job := &v1alpha1.DiagnosisJob{}
		job.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: note, "kept": "yes"}
		job.Spec.Note = note
		job.Spec.Error = &v1alpha1.ToolError{Message: message, Body: body, Headers: map[string]v1alpha1.HeaderValue{header: v1alpha1.HeaderValue(value)}}
		if !Job(job) {
			t.Error("what was applied is still there")
		}
		once := job.DeepCopy()
		if Job(job) {
			t.Errorf("cleaned twice: %+v became %+v", once.Spec, job.Spec)
		}
		if len(job.Spec.Note) > maxNote || !utf8.ValidString(job.Spec.Note) || !utf8.ValidString(job.Spec.Error.Message) || len(job.Annotations) != 1 {
			t.Errorf("left: %+v", job)
		}
	})
}
