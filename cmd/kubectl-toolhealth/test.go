package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/agrajag-dev/agrajag/internal/classify"
)

// noCooldown is how a case asks for no cooldown.
const noCooldown = "none"

// testCase is a report and what the rules are to say about it.
type testCase struct {
	report
	line int
	now  time.Time
	want []want
}

// want is one thing that a case asks for.
type want struct{ name, value string }

type testOptions struct {
	*streams
	clock
	patterns []string
}

func newTest(s *streams) *cobra.Command {
	o := testOptions{streams: s}
	c := &cobra.Command{
		Use:   "test FILE... [--patterns FILE]...",
		Short: "Test rules against cases",
		Long: `Test rules against cases, like a unit test: each case is a report and what the rules are to say about it.

  cases:
  - name: an expired session inside a 200   # required
    report:                                 # as 'classify' reads it
      httpStatus: 200
      body: '{"error":"session_expired"}'
    want:                                   # at least one of these
      rule: shop-session-expired
      signature: shop-session-expired
      classification: USER_SPECIFIC_TECHNICAL
      cooldown: PT15M                       # an ISO-8601 duration, or none
      healthAction: markUnavailable
    now: 2026-06-17T08:00:00Z               # time that a wait until a moment counts from; default: --now

The rules are the bundled ones, and those of --patterns over them. A line is printed for each failed case and for each
thing it wanted, and a summary.

` + exitCodes,
		Example: `  kubectl toolhealth patterns test shop-tests.yaml --patterns shop-rules.yaml`,
		RunE:    func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	patternsFlag(c, &o.patterns)
	c.Args = filesNeeded
	o.bind(c)
	return c
}

func (o *testOptions) run(names []string) error {
	now, err := o.now()
	if err != nil {
		return err
	}
	rules, err := o.rules(o.patterns)
	if err != nil {
		return err
	}
	total, failed := 0, 0
	for _, name := range names {
		cases, err := o.cases(name, now)
		if err != nil {
			return err
		}
		for _, c := range cases {
			total++
			wrong := c.check(rules)
			if len(wrong) == 0 {
				continue
			}
			failed++
			if err := o.print("%s:%d: FAIL: %s", label(name), c.line, c.id); err != nil {
				return err
			}
			for _, w := range wrong {
				if err := o.print("    %s", w); err != nil {
					return err
				}
			}
		}
	}
	if err := o.print("%d cases: %d passed, %d failed", total, total-failed, failed); err != nil {
		return err
	}
	if failed > 0 {
		return errFindings
	}
	return nil
}

// check returns what the rules say otherwise than the case wants, each in a line.
func (c *testCase) check(rules *classify.Rules) []string {
	j := judge(rules, c.report, c.now)
	got := map[string]string{"rule": j.RuleID, "signature": string(j.Signature), "classification": string(j.Classification),
		"healthAction": string(j.HealthAction), "cooldown": j.wait()}
	if got["cooldown"] == "" {
		got["cooldown"] = noCooldown
	}
	var wrong []string
	for _, w := range c.want {
		if got[w.name] != w.value {
			wrong = append(wrong, fmt.Sprintf("%s: want %s, got %s", w.name, w.value, got[w.name]))
		}
	}
	return wrong
}

// cases reads a file of cases. Nothing in it is passed over: a misspelt wish would be one that is always granted.
func (o *testOptions) cases(name string, now time.Time) ([]testCase, error) {
	data, err := o.read(name)
	if err != nil {
		return nil, err
	}
	var all []testCase
	err = eachDocument(data, func(n *yaml.Node) error {
		if err := onlyFields(n, "cases"); err != nil {
			return err
		}
		list := valueAt(n, "cases")
		if list == nil || list.Kind != yaml.SequenceNode {
			return at(n, "must have a list of cases")
		}
		for _, item := range list.Content {
			c, err := caseIn(item, now)
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("holds no case")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label(name), err)
	}
	return all, nil
}

func caseIn(n *yaml.Node, now time.Time) (testCase, error) {
	c := testCase{line: n.Line, now: now}
	if err := onlyFields(n, "name", "report", "want", "now"); err != nil {
		return c, err
	}
	var fields struct {
		Name string
		Now  *time.Time
	}
	if err := n.Decode(&fields); err != nil {
		return c, err
	}
	if fields.Name == "" {
		return c, at(n, "has no name")
	}
	if fields.Now != nil {
		c.now = *fields.Now
	}
	if valueAt(n, "report") == nil {
		return c, at(n, "has no report")
	}
	var err error
	if c.report, err = reportIn(n); err != nil {
		return c, err
	}
	c.want, err = wantsIn(n)
	return c, err
}

func wantsIn(n *yaml.Node) ([]want, error) {
	list := valueAt(n, "want")
	if list == nil || len(list.Content) == 0 {
		return nil, at(n, "wants nothing; write want: {rule: ...}")
	}
	if err := onlyFields(list, "rule", "signature", "classification", "cooldown", "healthAction"); err != nil {
		return nil, err
	}
	var wants []want
	for i := 0; i+1 < len(list.Content); i += 2 {
		name, value := list.Content[i].Value, list.Content[i+1]
		if value.Kind != yaml.ScalarNode || value.Value == "" {
			return nil, at(value, "%s must be text", name)
		}
		w := want{name, value.Value}
		if name == "cooldown" && w.value != noCooldown {
			wait, err := classify.ParseDuration(w.value)
			if err != nil {
				return nil, at(value, "cooldown: %w; or write %s", err, noCooldown)
			}
			w.value = short(wait)
		}
		wants = append(wants, w)
	}
	return wants, nil
}

// onlyFields refuses a node that is no mapping, or has another field than these, or one twice.
func onlyFields(n *yaml.Node, names ...string) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "must be a mapping of %s", strings.Join(names, ", "))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(names, key.Value) {
			return at(key, "%q is not known here; known are %s", clip(key.Value), join(names))
		}
		if seen[key.Value] {
			return at(key, "%s stands here a second time", key.Value)
		}
		seen[key.Value] = true
	}
	return nil
}
