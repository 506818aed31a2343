package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// completeFlag has a shell complete a flag by fixed values.
func completeFlag[T ~string](c *cobra.Command, flag string, values ...T) {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = string(value)
	}
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeTool offers the tools of the project: those that are described and those that have a row.
func (c *clusterFlags) completeTool(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var tools v1alpha1.ToolList
	cluster, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := map[string]bool{}
	if cluster.List(command.Context(), &tools, client.InNamespace(cluster.project)) == nil {
		for i := range tools.Items {
			names[tools.Items[i].CalledAs()] = true
		}
	}
	var rows v1alpha1.ToolHealthList
	if cluster.List(command.Context(), &rows, client.InNamespace(cluster.project)) == nil {
		for _, row := range rows.Items {
			names[string(row.Spec.ToolName)] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}

// completeSignature offers the errors of a tool that cool down.
func (c *clusterFlags) completeSignature(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var rows v1alpha1.ToolHealthList
	cluster, err := c.connect()
	if err != nil || len(args) == 0 || cluster.List(command.Context(), &rows, client.InNamespace(cluster.project)) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := map[string]bool{}
	for _, row := range rows.Items {
		for _, cooldown := range row.Status.Cooldowns {
			if string(row.Spec.ToolName) == args[0] {
				names[string(cooldown.ErrorSignature)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}
