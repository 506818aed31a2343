package redact

import (
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestANoteCutInsideAPlaceholderStaysAsItIs(t *testing.T) {
	for _, secret := range []string{"password=[hunter22hunter22", "Bearer abc123def456", "secret=hunter22"} {
		for fill := maxNote - 40; fill < maxNote; fill++ {
			job := &v1alpha1.DiagnosisJob{Spec: v1alpha1.DiagnosisJobSpec{Note: strings.Repeat("x", fill) + " " + secret + " and more words"}}
			Job(job)
			once := job.Spec.Note
			if Job(job) || strings.Contains(once, "hunter22") || len(once) > maxNote {
				t.Errorf("after %d characters: %q became %q", fill, once[fill:], job.Spec.Note[fill:])
			}
		}
	}
}

func TestABodyOfWhichOnlyPartWasReadSaysSo(t *testing.T) {
	body := "Bearer " + strings.Repeat("Ab3dEf7h", 2500) + " " + strings.Repeat("plain words ", 4000)
	e := &v1alpha1.ToolError{Body: body}
	Error(e)
	if len(e.Body) >= v1alpha1.MaxErrorBody || !strings.HasSuffix(e.Body, "…") || strings.Contains(e.Body, "Ab3dEf7h") {
		t.Errorf("%d bytes, beginning %q, ending %q", len(e.Body), e.Body[:40], e.Body[max(0, len(e.Body)-20):])
	}
}
