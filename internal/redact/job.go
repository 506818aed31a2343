package redact

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// maxNote bounds a report's note, in bytes; the schema counts characters.
const maxNote = 500

// Job takes secrets and excess out of a job's report, in place, and reports whether anything changed. The
// annotation in which kubectl keeps what was applied would hold all of it again. What names something (labels, the tool,
// user and session) stays: under another name it would be something else.
func Job(job *v1alpha1.DiagnosisJob) bool {
	_, changed := job.Annotations[corev1.LastAppliedConfigAnnotation]
	delete(job.Annotations, corev1.LastAppliedConfigAnnotation)
	for key, value := range job.Annotations {
		if clean := Text(value); clean != value {
			job.Annotations[key], changed = clean, true
		}
	}
	if process := Text(job.Spec.OriginatingProcessID); process != job.Spec.OriginatingProcessID {
		job.Spec.OriginatingProcessID, changed = process, true
	}
	if note := Cut(job.Spec.Note, maxNote); note != job.Spec.Note {
		job.Spec.Note, changed = note, true
	}
	if job.Spec.Error != nil {
		changed = Error(job.Spec.Error) || changed
	}
	return changed
}
