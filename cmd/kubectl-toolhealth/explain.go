package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/internal/classify"
)

type explainOptions struct {
	input
	id string
}

func newExplain(s *streams) *cobra.Command {
	o := explainOptions{input: input{streams: s}}
	c := &cobra.Command{
		Use:   "explain -f REPORT [--id ID] [--patterns FILE]...",
		Short: "Show which rules were tried on a report, and why each failed",
		Long: `Show which rules were tried on a report, in order, and why each failed: its first selector that did not hold, and
what the report says instead. The last one matched, and decides.

The file has the formats that 'classify' reads.

` + exitCodes,
		Example: `  # Why is this report classified as it is?
  kubectl toolhealth patterns explain -f shop-reports.yaml --id signed-out --patterns shop-rules.yaml`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	c.Flags().StringVar(&o.id, "id", "", "explain only the reports with this id")
	o.bind(c)
	return c
}

func (o *explainOptions) run() error {
	rules, reports, now, err := o.gather()
	if err != nil {
		return err
	}
	explained := 0
	for _, r := range reports {
		if o.id != "" && r.id != o.id {
			continue
		}
		if explained > 0 {
			if err := o.print(""); err != nil {
				return err
			}
		}
		explained++
		if err := o.explain(rules, r, now); err != nil {
			return err
		}
	}
	if explained == 0 && o.id != "" {
		return fmt.Errorf("%s holds no report with the id %s", label(o.file), clip(o.id))
	}
	return nil
}

func (o *explainOptions) explain(rules *classify.Rules, r report, now time.Time) error {
	if err := o.print("Report %s", clip(r.id)); err != nil {
		return err
	}
	var rows [][]string
	note := ""
	for i, step := range rules.Explain(r.call, r.err, now) {
		result := step.Failed
		if step.Matched {
			result, note = "MATCHED", step.Entry.Pattern.Note
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), step.Entry.Layer, string(step.Entry.Pattern.ID), result})
	}
	if err := o.table([]string{"#", "LAYER", "RULE", "RESULT"}, rows); err != nil {
		return err
	}
	j := judge(rules, r, now)
	wait := j.wait()
	if wait == "" {
		wait = "none"
	}
	if err := o.print("Verdict: %s by rule %s, signature %s, cooldown %s, healthAction %s", j.Classification, j.RuleID, j.Signature,
		wait, j.HealthAction); err != nil {
		return err
	}
	for _, note := range []string{j.waitNote, note} {
		if note == "" {
			continue
		}
		if err := o.print("Note: %s", note); err != nil {
			return err
		}
	}
	return nil
}
