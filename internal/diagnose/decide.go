package diagnose

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

const (
	// unclearRecovery is when to look again after a diagnosis that decided nothing (specification §5.2, companion §1).
	unclearRecovery = 15 * time.Minute
	// intermittentRecovery is the short estimate of companion §1 where the verdict gives none.
	intermittentRecovery = 2 * time.Minute
)

// Decide says what follows from a run: the verdict within its limits, and the changes that specification §5.2 step 5
// derives from it. It depends on nothing but its arguments.
func Decide(in Input, out Outcome, now time.Time) Applied {
	if out.Err != nil {
		return Applied{}
	}
	v := rail(in, out, now)
	changes := newChanges(v)
	changes.state()
	changes.cooldowns()
	return Applied{Diagnosis: v.diagnosis(), Rows: changes.list()}
}

// diagnosis returns the verdict as the job's status holds it.
func (v *verdict) diagnosis() v1alpha1.Diagnosis {
	d := v1alpha1.Diagnosis{
		Classification: v.class, Scope: v.scope, HumanNote: v.note(), UserActionHint: v.hint,
	}
	if !v.recovery.IsZero() {
		d.ExpectedRecoveryAt = &metav1.Time{Time: v.recovery}
	}
	for _, a := range v.adjustments {
		d.CooldownAdjustments = append(d.CooldownAdjustments, a.CooldownAdjustment)
	}
	return d
}

// state returns the state that a verdict writes; "" if none.
func (v *verdict) state() v1alpha1.State {
	switch v.class {
	case v1alpha1.TechnicallyBroken, v1alpha1.UserSpecificTechnical:
		return v1alpha1.StateDown
	case v1alpha1.Intermittent:
		return v1alpha1.StateDegraded
	case v1alpha1.Working:
		return v1alpha1.StateOK
	case v1alpha1.Unclear:
		if v.in.Signature == v1alpha1.SignatureRecheck && !v.evidence.failed {
			// Nobody reported an error and no probe met one: a question alone must not degrade a tool.
			return ""
		}
		return v1alpha1.StateDegraded
	default:
		return ""
	}
}

// changes collects the changes of each row, so that a row is written once.
type changes struct {
	v      *verdict
	report string
	keys   []health.Key
	byKey  map[health.Key]*rowChanges
}

// rowChanges are the changes of one row. Cooldowns come before the finding: each of them checks by itself whether
// the report was applied already.
type rowChanges struct {
	triggers  []health.Trigger
	finding   *health.Finding
	keepsDown bool // the finding has nothing to set against a DOWN
}

func newChanges(v *verdict) *changes {
	return &changes{v: v, report: string(v.in.Job.UID), byKey: make(map[health.Key]*rowChanges)}
}

func (c *changes) row(key health.Key) *rowChanges {
	if c.byKey[key] == nil {
		c.byKey[key] = &rowChanges{}
		c.keys = append(c.keys, key)
	}
	return c.byKey[key]
}

// state adds the finding to the verdict's row.
func (c *changes) state() {
	state := c.v.state()
	if state == "" || !c.v.hasRow || c.v.noState {
		return
	}
	job, row := c.v.in.Job, c.row(c.v.key)
	row.keepsDown = c.v.keepsDown()
	row.finding = &health.Finding{
		State: state, Classification: c.v.class, Signature: c.v.in.Signature, Note: c.v.note(), UserActionHint: c.v.hint,
		By: health.ByEngine(job.Name), Job: job.Namespace + "/" + job.Name, Report: c.report, RecoveryAt: c.v.recovery,
	}
}

// cooldowns adds the cooldown of the reported error, and those that the verdict adjusts. What is adjusted is stated:
// it counts in the place of the default. An unclear error has none: the job itself is its cooldown (design §4).
func (c *changes) cooldowns() {
	v := c.v
	if v.class == v1alpha1.Working {
		return
	}
	for _, a := range v.adjustments {
		c.cool(a.key, health.Trigger{Signature: a.ErrorSignature, Class: v.class, Wait: a.wait, Report: c.report})
	}
	if v.class == v1alpha1.Unclear || !v.hasRow || v.in.Signature == v1alpha1.SignatureRecheck {
		return
	}
	wait := time.Duration(0)
	if v.class == v1alpha1.TechnicallyBroken && !v.recovery.IsZero() {
		wait = v.recovery.Sub(v.now)
	}
	c.cool(v.key, health.Trigger{Signature: v.in.Signature, Class: v.class, Wait: wait, Report: c.report})
}

// cool adds a cooldown unless the row has one of that signature already.
func (c *changes) cool(key health.Key, t health.Trigger) {
	row := c.row(key)
	for _, have := range row.triggers {
		if have.Signature == t.Signature {
			return
		}
	}
	row.triggers = append(row.triggers, t)
}

// list returns one change for each row.
func (c *changes) list() []RowChange {
	var list []RowChange
	for _, key := range c.keys {
		list = append(list, RowChange{Key: key, Change: c.byKey[key].change(c.v.in.Signature)})
	}
	return list
}

// change composes the changes of a row.
func (r *rowChanges) change(signature v1alpha1.ErrorSignature) health.Change {
	var all []health.Change
	for _, t := range r.triggers {
		all = append(all, health.Cool(t))
	}
	if r.finding == nil {
		return health.All(all...)
	}
	if r.finding.State == v1alpha1.StateOK {
		all = append(all, endCooldowns(signature, r.finding.Report))
	}
	if r.keepsDown {
		return health.All(append(all, markUnlessDown(*r.finding))...)
	}
	return health.All(append(all, health.Mark(*r.finding))...)
}

// markUnlessDown writes a finding, and leaves the state of a row that is DOWN as it is, with its estimate. It looks at
// the row when it is written: while the diagnosis ran, the tool may have failed or recovered.
func markUnlessDown(f health.Finding) health.Change {
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if holdsDown(*status, now) {
			f.State, f.RecoveryAt = v1alpha1.StateDown, noTime
			if status.ExpectedRecoveryAt != nil {
				f.RecoveryAt = status.ExpectedRecoveryAt.Time
			}
		}
		return health.Mark(f)(status, now)
	}
}

// endCooldowns ends what a working tool disproves, once for each report: applied again it would end what came later.
func endCooldowns(signature v1alpha1.ErrorSignature, report string) health.Change {
	uncool := health.Uncool(func(c v1alpha1.Cooldown) bool { return health.OfSignature(signature)(c) || health.OfHealth(c) })
	return func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		if status.LastDiagnosis != nil && report != "" && status.LastDiagnosis.Report == report {
			return false
		}
		return uncool(status, now)
	}
}
