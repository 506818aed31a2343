package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const exitCodes = `Exit codes: 0 fine; 1 findings or failed cases; 2 wrong usage or an input that cannot be read.`

// clusterExitCodes are those of the commands that ask a cluster.
const clusterExitCodes = `Exit codes: 0 done; 2 wrong usage, or the cluster refuses or cannot be asked.`

// newRoot makes the whole command.
func newRoot(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-toolhealth",
		Short: "Work with the health of tools and the rules behind it",
		Long: `Work with the health of tools and the rules behind it.

To have kubectl's own completion complete it, put an executable file kubectl_complete-toolhealth beside the plugin:

    #!/bin/sh
    exec kubectl-toolhealth __complete "$@"

` + exitCodes,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl toolhealth"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(newList(s), newDescribe(s), newRecheck(s), newReport(s), newPin(s), newUnpin(s), newMark(s), newCooldown(s), newPatterns(s))
	return root
}

func newPatterns(s *streams) *cobra.Command {
	patterns := &cobra.Command{
		Use:     "patterns",
		Aliases: []string{"pattern"},
		Short:   "Check, test and try the rules that classify errors",
		Long: `Check, test and try the rules that classify errors: error-patterns.yaml files and ErrorPatternSet manifests.

Only 'effective' asks a cluster. The other commands need nothing but their files, as in a GitOps pipeline. A file
named - is the standard input.

` + exitCodes,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	patterns.AddCommand(newLint(s), newTest(s), newClassify(s), newExplain(s), newEffective(s))
	return patterns
}

// filesNeeded refuses a command without files.
func filesNeeded(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name at least one file, or - for the standard input; see '%s --help'", c.CommandPath())
	}
	return nil
}

// outputFlag adds -o with its formats, of which the first is the default.
func outputFlag(c *cobra.Command, into *string, formats ...string) {
	c.Flags().StringVarP(into, "output", "o", formats[0], "format of the output: "+join(formats))
	completeFlag(c, "output", formats...)
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, format := range formats {
			if *into == format {
				if check != nil {
					return check(c, args)
				}
				return nil
			}
		}
		return fmt.Errorf("-o %s is not known; use %s", plain(*into, maxCell), join(formats))
	}
}

// patternsFlag adds --patterns.
func patternsFlag(c *cobra.Command, into *[]string) {
	c.Flags().StringArrayVar(into, "patterns", nil,
		"file of rules over the bundled ones; repeat it for more, each a level over those before")
}

// morePatterns takes arguments, which follow the value of --patterns as people write it, for more files.
func morePatterns(into *[]string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 && len(*into) == 0 {
			return fmt.Errorf("unexpected argument %s: files are named by -f and --patterns", plain(args[0], maxCell))
		}
		*into = append(*into, args...)
		return nil
	}
}
