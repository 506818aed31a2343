package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Told tells what a caller's rows say about a tool.
func Told(tool string, rows []*v1alpha1.ToolHealth, now time.Time) rest.Health {
	view := Effective(rows, now)
	h := rest.Health{ToolName: tool, State: string(view.State), Retesting: view.Retesting, Overridden: view.Overridden, Text: view.Suffix()}
	if at := view.RecoveryAt(); at != nil {
		h.ExpectedRecoveryAt = &at.Time
		h.RetryAfterSeconds = Seconds(at.Sub(now))
	}
	if row := view.Row; row != nil {
		h.Scope = string(row.Spec.Scope)
		h.LastCheckedAt = timeOf(row.Status.LastCheckedAt)
		if !view.Overridden { // Since when it is pinned is not known.
			h.Since = timeOf(row.Status.Since)
		}
		switch last := row.Status.LastDiagnosis; {
		case view.Overridden:
			h.Note = text.Plain(row.Spec.Override.Reason, 200)
		case last != nil:
			h.Classification, h.Note, h.UserActionHint = string(last.Classification), last.Note, last.UserActionHint
		}
	}
	for _, row := range rows {
		if row == nil {
			continue
		}
		for _, c := range row.Status.Cooldowns {
			if c.Until.After(now) {
				h.Cooldowns = append(h.Cooldowns, rest.Cooldown{Signature: string(c.ErrorSignature), Scope: string(row.Spec.Scope),
					Classification: string(c.Classification), RetryAfterSeconds: Seconds(c.Until.Sub(now))})
			}
		}
	}
	return h
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// Seconds rounds a wait up: who comes back that much later is not too early.
func Seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}
