package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
	"github.com/agrajag-dev/agrajag/internal/health"
)

// judgement is what the rules say about one report.
type judgement struct {
	ID             string                  `json:"id"`
	RuleID         string                  `json:"ruleId"`
	Signature      v1alpha1.ErrorSignature `json:"signature"`
	Classification v1alpha1.Classification `json:"classification"`
	// CooldownSeconds is at least 1; nil where the error does not cool down by a rule.
	CooldownSeconds *float64              `json:"cooldownSeconds"`
	HealthAction    v1alpha1.HealthAction `json:"healthAction"`
	// waitNote says what was asked for where the cooldown was cut to the longest one.
	waitNote string
}

// cooldown is how long an error cools down the first time: what the answer states, else what the rule does, else the
// default of the class. An unclear error has no default here: the diagnosis it waits for is its cooldown.
func cooldown(v classify.Verdict) (time.Duration, bool) {
	switch {
	case v.Class == v1alpha1.Working:
		return 0, false
	case v.Wait > 0:
		return v.Wait, true
	case v.Class == v1alpha1.Unclear:
		return 0, false
	}
	return health.DefaultWait(v.Class, 1), true
}

func judge(rules *classify.Rules, r report, now time.Time) judgement {
	v := rules.Classify(r.call, &r.err, now)
	j := judgement{ID: r.id, RuleID: v.RuleID, Signature: v.Signature, Classification: v.Class, HealthAction: v.Action,
		waitNote: v.WaitNote}
	if wait, ok := cooldown(v); ok {
		seconds := math.Round(wait.Seconds()*1000) / 1000
		j.CooldownSeconds = &seconds
	}
	return j
}

// wait is the cooldown in words; empty where there is none.
func (j judgement) wait() string {
	if j.CooldownSeconds == nil {
		return ""
	}
	return short(time.Duration(*j.CooldownSeconds * float64(time.Second)))
}

// clock is the flag --now.
type clock struct{ text string }

func (c *clock) bind(command *cobra.Command) {
	command.Flags().StringVar(&c.text, "now", "",
		"time that absolute waits count from where a report states none, as 2026-06-17T08:00:00Z (default: the current time)")
}

func (c *clock) now() (time.Time, error) {
	if c.text == "" {
		return time.Now(), nil
	}
	now, err := time.Parse(time.RFC3339, c.text)
	if err != nil {
		return now, fmt.Errorf("--now %s is no time; write for example 2026-06-17T08:00:00Z", clip(c.text))
	}
	return now, nil
}

// input is what classify and explain work on: reports, and the rules over the bundled ones.
type input struct {
	*streams
	clock
	file     string
	patterns []string
}

// bind declares the flags of the input, and has the command ask for reports.
func (in *input) bind(c *cobra.Command) {
	c.Flags().StringVarP(&in.file, "filename", "f", "", "file of reports; - is the standard input")
	patternsFlag(c, &in.patterns)
	c.Args = morePatterns(&in.patterns)
	in.clock.bind(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		if in.file == "" {
			return errNoReports
		}
		return nil
	}
}

// gather reads the rules and the reports, and tells the time that waits until a moment count from.
func (in *input) gather() (*classify.Rules, []report, time.Time, error) {
	now, err := in.now()
	if err != nil {
		return nil, nil, now, err
	}
	rules, err := in.rules(in.patterns)
	if err != nil {
		return nil, nil, now, err
	}
	reports, err := in.reports(in.file)
	return rules, reports, now, err
}

type classifyOptions struct {
	input
	output string
}

func newClassify(s *streams) *cobra.Command {
	o := classifyOptions{input: input{streams: s}}
	c := &cobra.Command{
		Use:   "classify -f REPORTS [--patterns FILE]...",
		Short: "Show what the rules say about reports",
		Long: `Show what the rules say about reports: which rule matches, the signature, the classification, how long the error
cools down the first time, and what is written into the tool's health at once.

A report has the fields of a DiagnosisJob's spec.error: httpStatus, headers, body, message, exceptionTypes (or
exceptionType, one or a list), errorCode, host and date; besides these id, toolName, and endpointHost, the host of the
tool's own endpoint. Other fields are not looked at. A file holds a list of reports, one report, manifests of
DiagnosisJobs, or the cases of a test file.

A wait until a moment counts from the report's date, else from its Date header, else from --now. An UNCLEAR report has
a cooldown only where the answer or the rule states one.

` + exitCodes,
		Example: `  # The verdicts of the bundled rules
  kubectl toolhealth patterns classify -f shop-reports.yaml

  # The same with rules of your own
  kubectl toolhealth patterns classify -f shop-reports.yaml --patterns shop-rules.yaml

  # For a program
  kubectl toolhealth patterns classify -f shop-reports.yaml -o json`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.bind(c)
	outputFlag(c, &o.output, "table", "json", "yaml") // After bind: it adds to what the command asks for.
	return c
}

func (o *classifyOptions) run() error {
	rules, reports, now, err := o.gather()
	if err != nil {
		return err
	}
	judgements := make([]judgement, len(reports))
	for i, r := range reports {
		judgements[i] = judge(rules, r, now)
	}
	if o.output != "table" {
		return o.object(o.output, judgements)
	}
	var rows [][]string
	for _, j := range judgements {
		rows = append(rows, []string{j.ID, j.RuleID, string(j.Signature), string(j.Classification), j.wait(), string(j.HealthAction)})
	}
	return o.table([]string{"ID", "RULE", "SIGNATURE", "CLASSIFICATION", "COOLDOWN", "HEALTHACTION"}, rows)
}

var errNoReports = errors.New("name the file of reports with -f; -f - is the standard input")
