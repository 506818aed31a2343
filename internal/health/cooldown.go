package health

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// MaxWait bounds every cooldown and every recovery estimate (specification companion §1); a Store may have a
	// shorter one.
	MaxWait = 24 * time.Hour
	// growthMemory is how long an ended cooldown is kept at least, so that a repeat grows (design §3).
	growthMemory = time.Hour
)

// growth is how long an error of a class cools down, and how that grows on repeats (specification companion §1).
type growth struct {
	first  time.Duration
	factor int
	limit  time.Duration
}

var cooldownGrowth = map[v1alpha1.Classification]growth{
	v1alpha1.UserPermission:        {first: 24 * time.Hour, factor: 1, limit: MaxWait},
	v1alpha1.UserInput:             {first: 5 * time.Minute, factor: 1, limit: MaxWait},
	v1alpha1.UserSpecificTechnical: {first: 15 * time.Minute, factor: 2, limit: MaxWait},
	v1alpha1.TechnicallyBroken:     {first: 5 * time.Minute, factor: 1, limit: MaxWait},
	v1alpha1.Intermittent:          {first: 30 * time.Second, factor: 4, limit: 2 * time.Hour},
	v1alpha1.Unclear:               {first: 30 * time.Second, factor: 1, limit: MaxWait},
}

// DefaultWait returns how long an error of a class cools down the given time in a row that it is met, counted
// from 1. WORKING has no cooldown.
func DefaultWait(class v1alpha1.Classification, hits int32) time.Duration {
	g := cooldownGrowth[class]
	wait := g.first
	for i := int32(1); i < hits && g.factor > 1 && wait < g.limit; i++ {
		wait *= time.Duration(g.factor)
	}
	return min(wait, g.limit)
}

// Trigger is an error that is to cool down.
type Trigger struct {
	Signature v1alpha1.ErrorSignature
	Class     v1alpha1.Classification
	// Wait is what the rule, the answer or the diagnosis states; zero: the class's default, which grows.
	Wait time.Duration
	// Report identifies the report, so that a retry of it grows nothing.
	Report string
}

// Cool starts or extends the cooldown of an error. A deadline only moves later.
func Cool(t Trigger) Change {
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if t.Class == v1alpha1.Working {
			return false
		}
		i := slices.IndexFunc(status.Cooldowns, func(c v1alpha1.Cooldown) bool { return c.ErrorSignature == t.Signature })
		if i < 0 {
			status.Cooldowns = append(status.Cooldowns, v1alpha1.Cooldown{ErrorSignature: t.Signature})
			i = len(status.Cooldowns) - 1
		}
		c := &status.Cooldowns[i]
		if t.Report != "" && c.LastReport == t.Report {
			return false
		}
		if remembered(*c, now) {
			c.Hits++
		} else {
			c.Hits = 1
		}
		wait := t.Wait
		if wait <= 0 {
			wait = DefaultWait(t.Class, c.Hits)
		}
		if until := now.Add(min(wait, MaxWait)); until.After(c.Until.Time) {
			c.Until = metav1.NewTime(until)
		}
		c.Classification, c.LastTriggeredAt, c.LastReport = t.Class, metav1.NewTime(now), t.Report
		return true
	}
}

// Uncool ends the cooldowns that match, as if they had never been.
func Uncool(match func(v1alpha1.Cooldown) bool) Change {
	return func(status *v1alpha1.ToolHealthStatus, _ time.Time) bool {
		before := len(status.Cooldowns)
		status.Cooldowns = slices.DeleteFunc(status.Cooldowns, match)
		return len(status.Cooldowns) != before
	}
}

// OfSignature matches the cooldown of one error.
func OfSignature(signature v1alpha1.ErrorSignature) func(v1alpha1.Cooldown) bool {
	return func(c v1alpha1.Cooldown) bool { return c.ErrorSignature == signature }
}

// OfHealth matches cooldowns that say something about the tool, so that a working tool ends them. What a user may
// not do, or did wrong, a working tool does not change.
func OfHealth(c v1alpha1.Cooldown) bool {
	return c.Classification != v1alpha1.UserPermission && c.Classification != v1alpha1.UserInput
}

// ActiveCooldown returns the cooldown of an error that runs: one that ends strictly after now. Nil: none does.
func ActiveCooldown(row *v1alpha1.ToolHealth, signature v1alpha1.ErrorSignature, now time.Time) *v1alpha1.Cooldown {
	if row == nil {
		return nil
	}
	for i := range row.Status.Cooldowns {
		if c := &row.Status.Cooldowns[i]; c.ErrorSignature == signature && c.Until.After(now) {
			return c
		}
	}
	return nil
}

// remembered reports whether a cooldown runs or ended so lately that a repeat grows it.
func remembered(c v1alpha1.Cooldown, now time.Time) bool {
	return c.Hits != 0 && forgotten(c).After(now)
}

// forgotten returns when a repeat no longer grows a cooldown.
func forgotten(c v1alpha1.Cooldown) time.Time {
	lasted := c.Until.Sub(c.LastTriggeredAt.Time)
	return c.Until.Add(max(lasted, growthMemory))
}
