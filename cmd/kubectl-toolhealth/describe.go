package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

type describeOptions struct {
	*streams
	clusterFlags
	output, user, session string
}

func newDescribe(s *streams) *cobra.Command {
	o := describeOptions{streams: s}
	c := &cobra.Command{
		Use:   "describe TOOL",
		Short: "Say whether a tool can be used, why, and what happened before",
		Long: `Say whether a tool can be used by you or by --user: what is in force and why, what the user can do, which errors cool
down and for how long, what happened before as a timeline, and what the last diagnosis probed.

` + clusterExitCodes,
		Example: `  kubectl toolhealth describe mcp_search
  kubectl toolhealth describe mcp_search --user alice -n shop`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	outputFlag(c, &o.output, "text", "json", "yaml")
	o.bind(c, "agrajag-viewer")
	c.Flags().StringVar(&o.user, "user", "", "describe it as this user sees it")
	c.Flags().StringVar(&o.session, "session", "", "look at the row of this session, too")
	return c
}

// description is all that is known of a tool for somebody.
type description struct {
	standing `json:",inline"`
	Rows     []rowDescription `json:"rows,omitempty"`
	LastJob  *jobDescription  `json:"lastJob,omitempty"`
}

type rowDescription struct {
	Namespace string                        `json:"namespace"`
	Name      string                        `json:"name"`
	Scope     string                        `json:"scope"`
	ScopeID   string                        `json:"scopeId,omitempty"`
	State     string                        `json:"state,omitempty"`
	Override  *v1alpha1.HealthOverride      `json:"override,omitempty"`
	Cooldowns []v1alpha1.Cooldown           `json:"cooldowns,omitempty"`
	History   []v1alpha1.HealthHistoryEntry `json:"history,omitempty"`
}

type jobDescription struct {
	Name   string `json:"name"`
	Phase  string `json:"phase"`
	Result string `json:"result"`
	// Classification is what was found; empty: nothing yet.
	Classification string                `json:"classification,omitempty"`
	Probes         []v1alpha1.ProbeAudit `json:"probes,omitempty"`
}

func (o *describeOptions) run(ctx context.Context, tool string) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	if o.user == "" {
		if o.user, err = cluster.self(ctx); err != nil {
			return err
		}
	}
	place, _, err := cluster.place(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	d, err := o.describe(ctx, cluster, place, tool, now)
	if err != nil {
		return err
	}
	if o.output != "text" {
		return o.object(o.output, d)
	}
	return o.tell(d, now)
}

func (o *describeOptions) describe(ctx context.Context, cluster *connection, place tenancy.Place, tool string, now time.Time) (description, error) {
	var rows []*v1alpha1.ToolHealth
	var d description
	for _, key := range health.CallerKeys(place, tool, tenancy.User(o.user), o.session) {
		row := &v1alpha1.ToolHealth{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name()}, row)
		switch {
		case apierrors.IsForbidden(err) && key.Namespace != place.Project:
			o.note("The row of scope %s in namespace %s may not be read", key.Scope, key.Namespace)
			continue
		case apierrors.IsNotFound(err) || err == nil && health.KeyOf(row) != key:
			continue
		case err != nil:
			return d, fmt.Errorf("read ToolHealth of scope %s: %w", key.Scope, err)
		}
		rows = append(rows, row)
		d.Rows = append(d.Rows, rowDescription{Namespace: row.Namespace, Name: row.Name, Scope: string(key.Scope), ScopeID: key.ScopeID,
			State: string(row.Status.State), Override: row.Spec.Override, Cooldowns: row.Status.Cooldowns, History: row.Status.History})
	}
	d.standing = standingOf(tool, rows, now)
	var err error
	d.LastJob, err = lastJob(ctx, cluster, tool, tenancy.User(o.user), deciding(rows, now))
	return d, err
}

// deciding names the job, as namespace/name, that found what is in force; empty: none did.
func deciding(rows []*v1alpha1.ToolHealth, now time.Time) string {
	row := health.Effective(rows, now).Row
	if row == nil || row.Status.LastDiagnosis == nil {
		return ""
	}
	return row.Status.LastDiagnosis.Job
}

// lastJob returns the job that is said to have decided or, where it is gone, the youngest of a tool, as far as they are
// not about another user; nil: there is none.
func lastJob(ctx context.Context, cluster *connection, tool, user, decided string) (*jobDescription, error) {
	var jobs v1alpha1.DiagnosisJobList
	err := cluster.List(ctx, &jobs, client.InNamespace(cluster.project))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list DiagnosisJobs: %w", err)
	}
	jobs.Items = slices.DeleteFunc(jobs.Items, func(job v1alpha1.DiagnosisJob) bool {
		other := tenancy.User(string(job.Spec.OriginatingUserID))
		return string(job.Spec.ToolName) != tool || other != "" && other != user
	})
	if len(jobs.Items) == 0 {
		return nil, nil
	}
	at := slices.IndexFunc(jobs.Items, func(job v1alpha1.DiagnosisJob) bool { return job.Namespace+"/"+job.Name == decided })
	if at >= 0 {
		described := describeJob(&jobs.Items[at])
		return &described, nil
	}
	job := slices.MaxFunc(jobs.Items, func(a, b v1alpha1.DiagnosisJob) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	described := describeJob(&job)
	return &described, nil
}

func describeJob(job *v1alpha1.DiagnosisJob) jobDescription {
	d := jobDescription{Name: job.Name, Phase: string(job.Status.Phase), Result: resultOf(job), Probes: job.Status.Probes}
	if job.Status.Diagnosis != nil {
		d.Classification = string(job.Status.Diagnosis.Classification)
	}
	return d
}

// resultOf tells how a job ended, or where it stands.
func resultOf(job *v1alpha1.DiagnosisJob) string {
	if c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionComplete); c != nil && c.Message != "" {
		return c.Message
	}
	if job.Status.Phase == v1alpha1.PhaseRunning {
		return "being diagnosed"
	}
	return "waiting"
}

// tell writes a description for people.
func (o *describeOptions) tell(d description, now time.Time) error {
	err := o.facts([][2]string{
		{"Tool", d.Tool}, {"For", o.user}, {"State", d.State + d.details()}, {"Classification", d.Classification}, {"Error", d.ErrorSignature},
		{"Pinned by", d.PinnedBy}, {"Why", d.Why}, {"Since", moment(d.Since, age(d.Since, now)+" ago")}, {d.ends(), moment(d.Until, left(d.Until, now))}, {"To do", d.UserActionHint},
	})
	if len(d.Rows) == 0 {
		err = errors.Join(err, o.print(""), o.print("Nothing is known of it here: no ToolHealth is about it."))
	}
	return errors.Join(err, o.cooldowns(d, now), o.timeline(d), o.job(d.LastJob))
}

// details say what more there is to a state.
func (s standing) details() string {
	var more []string
	if s.Pinned {
		more = append(more, "pinned")
	}
	if s.Retesting {
		more = append(more, "its recovery is due: the next call is the test")
	}
	if s.Scope != "" {
		more = append(more, "scope "+s.Scope)
	}
	if len(more) == 0 {
		return ""
	}
	return " (" + strings.Join(more, ", ") + ")"
}

// ends names what happens at the end of a state.
func (s standing) ends() string {
	if s.Pinned {
		return "Pinned until"
	}
	return "Recovery"
}

// moment is a time and how far it is away; empty: there is none.
func moment(t *time.Time, away string) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), away)
}

func (o *describeOptions) cooldowns(d description, now time.Time) error {
	var rows [][]string
	for _, row := range d.Rows {
		for _, c := range row.Cooldowns {
			ends := "ended"
			if c.Until.After(now) {
				ends = left(&c.Until.Time, now)
			}
			rows = append(rows, []string{string(c.ErrorSignature), row.Scope, string(c.Classification), ends, fmt.Sprint(c.Hits)})
		}
	}
	return o.section("Cooldowns", []string{"  SIGNATURE", "SCOPE", "CLASSIFICATION", "ENDS", "HITS"}, rows)
}

// timeline writes what happened on all rows, newest first.
func (o *describeOptions) timeline(d description) error {
	type entry struct {
		scope string
		v1alpha1.HealthHistoryEntry
	}
	var entries []entry
	for _, row := range d.Rows {
		for _, e := range row.History {
			entries = append(entries, entry{row.Scope, e})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return b.At.Compare(a.At.Time) })
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{e.At.UTC().Format(time.RFC3339), string(e.Status), e.scope, string(e.Classification), e.By, e.Note})
	}
	return o.section("History", []string{"  AT", "STATE", "SCOPE", "CLASSIFICATION", "BY", "NOTE"}, rows)
}

func (o *describeOptions) job(job *jobDescription) error {
	if job == nil {
		return nil
	}
	if err := errors.Join(o.print(""), o.print("Last job: %s (%s): %s", job.Name, job.Phase, job.Result)); err != nil {
		return err
	}
	var rows [][]string
	for _, p := range job.Probes {
		result := "works"
		switch {
		case !p.Possible:
			result = "not possible"
		case !p.Success:
			result = "fails"
		}
		status := ""
		if p.StatusCode != nil {
			status = fmt.Sprint(*p.StatusCode)
		}
		rows = append(rows, []string{string(p.As), result, status, string(p.ErrorSignature), fmt.Sprintf("%d ms", p.DurationMs), p.Response})
	}
	return o.section("Probes", []string{"  AS", "RESULT", "STATUS", "SIGNATURE", "TOOK", "ANSWER"}, rows)
}

// section writes a table under a title, if it has rows.
func (o *describeOptions) section(title string, head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		row[0] = "  " + strings.TrimSpace(row[0])
	}
	return errors.Join(o.print(""), o.print("%s:", title), o.table(head, rows))
}
