package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/classify"
)

type effectiveOptions struct {
	*streams
	clusterFlags
	output string
}

func newEffective(s *streams) *cobra.Command {
	o := effectiveOptions{streams: s}
	c := &cobra.Command{
		Use:   "effective -n NAMESPACE",
		Short: "Show the rules that a cluster uses for a namespace",
		Long: `Show the rules that a cluster uses for a project's namespace, in the order in which they are tried, each with the
level and the ErrorPatternSet it came from: the bundled rules, then the operator's sets, the tenant's and the project's
over them. Entries that are not in force are told on the standard error.

It reads the namespace and the ErrorPatternSets of the three namespaces.

` + exitCodes,
		Example: `  kubectl toolhealth patterns effective -n shop`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	outputFlag(c, &o.output, "table", "json", "yaml")
	o.bind(c, "agrajag-viewer")
	return c
}

// inForce is a rule in force, as it is shown.
type inForce struct {
	Layer string `json:"layer"`
	// Set is the namespace and name of the ErrorPatternSet; empty for a bundled rule.
	Set     string                `json:"set,omitempty"`
	Path    string                `json:"path"`
	Pattern v1alpha1.ErrorPattern `json:"pattern"`
}

func (o *effectiveOptions) run(ctx context.Context) error {
	rules, problems, err := o.fromCluster(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		o.note("warning: %s", p)
	}
	entries := rules.Entries()
	if o.output != "table" {
		list := make([]inForce, len(entries))
		for i, e := range entries {
			list[i] = inForce{e.Layer, e.Set, e.Path, e.Pattern}
		}
		return o.object(o.output, list)
	}
	var rows [][]string
	for i, e := range entries {
		p := &e.Pattern
		rows = append(rows, []string{strconv.Itoa(i + 1), e.Layer, e.Set, string(p.ID), string(p.Signature), string(p.Classification),
			p.Cooldown, string(p.HealthAction)})
	}
	return o.table([]string{"#", "LAYER", "SET", "RULE", "SIGNATURE", "CLASSIFICATION", "COOLDOWN", "HEALTHACTION"}, rows)
}

// fromCluster compiles the rules of the namespace exactly as the checker does.
func (o *effectiveOptions) fromCluster(ctx context.Context) (*classify.Rules, []classify.Problem, error) {
	reached, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	place, told, err := reached.place(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !told {
		o.note("warning: namespace %s may not be read, so that a tenant's sets are missing", place.Project)
	}
	layers, err := checker.Layers(ctx, reached, place, nil)
	if err != nil {
		return nil, nil, err
	}
	rules, problems := classify.Compile(layers...)
	return rules, problems, nil
}
