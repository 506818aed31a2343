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
