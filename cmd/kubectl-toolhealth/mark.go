package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

type markOptions struct {
	*streams
	clusterFlags
	subject
	state, until, reason, class string
}

// classes are what a state that a person sets means, unless told otherwise.
var classes = map[v1alpha1.State]v1alpha1.Classification{
	v1alpha1.StateOK: v1alpha1.Working, v1alpha1.StateDegraded: v1alpha1.Intermittent, v1alpha1.StateDown: v1alpha1.TechnicallyBroken,
}

func newMark(s *streams) *cobra.Command {
	o := markOptions{streams: s}
	c := &cobra.Command{
		Use:   "mark TOOL --state STATE --reason REASON",
		Short: "Write the state of a tool, as a diagnosis would",
		Long: `Write the state of a tool into its ToolHealth's status, as a diagnosis would: it stands until something else is found. To
make it stand whatever is found, use 'pin'. Needs the verb update on toolhealths/status, which admins have.

` + clusterExitCodes,
		Example: `  kubectl toolhealth mark mcp_search --state DOWN --until 30m --reason "the provider announced it"
  kubectl toolhealth mark mcp_search --state OK --reason "tried by hand"`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.clusterFlags.bind(c, "agrajag-admin")
	o.subject.bind(c)
	stateFlag(c, &o.state)
	c.Flags().StringVar(&o.until, "until", "", "when it is expected to work again, at most 24h from now: a time, or a duration such as 2h")
	c.Flags().StringVar(&o.reason, "reason", "", "what was found, in at most 500 characters (required)")
	_ = c.MarkFlagRequired("reason")
	return c
}

func (o *markOptions) run(ctx context.Context, tool string) error {
	state, err := parseState(o.state)
	if err != nil {
		return err
	}
	until, err := parseUntil(o.until, time.Now())
	if err != nil {
		return err
	}
	if until != nil && time.Until(until.Time) > health.MaxWait {
		return fmt.Errorf("--until %s is more than %s away, for which no recovery is expected: 'pin' has a state stand longer", plain(o.until, maxCell), short(health.MaxWait))
	}
	if err := within("--reason", o.reason, maxMarkNote); err != nil {
		return err
	}
	finding := health.Finding{State: state, Classification: classes[state], Note: o.reason}
	if until != nil {
		finding.RecoveryAt = until.Time
	}
	return o.apply(ctx, tool, func(self string) health.Change {
		finding.By = self
		changes := []health.Change{health.Mark(finding)}
		if state == v1alpha1.StateOK {
			changes = append([]health.Change{health.Uncool(health.OfHealth)}, changes...)
		}
		return health.All(changes...)
	}, fmt.Sprintf("%s is marked %s", tool, state))
}

// apply writes a change of the row in the name of whoever runs the command.
func (o *markOptions) apply(ctx context.Context, tool string, change func(self string) health.Change, done string) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	self, err := cluster.self(ctx)
	if err != nil {
		return err
	}
	place, _, err := cluster.place(ctx)
	if err != nil {
		return err
	}
	key, err := o.key(place, tool)
	if err != nil {
		return err
	}
	changed := false
	if err := cluster.store(o.streams).Apply(ctx, key, func(status *v1alpha1.ToolHealthStatus, now time.Time) bool {
		changed = change(self)(status, now)
		return changed
	}); err != nil {
		return err
	}
	if !changed {
		return o.print("Nothing to change (toolhealth/%s in namespace %s)", key.Name(), key.Namespace)
	}
	return o.print("%s for scope %s (toolhealth/%s in namespace %s)", done, key.Scope, key.Name(), key.Namespace)
}

type cooldownOptions struct {
	markOptions
	signature string
	span      time.Duration
	clear     bool
}

func newCooldown(s *streams) *cobra.Command {
	o := cooldownOptions{markOptions: markOptions{streams: s}}
	c := &cobra.Command{
		Use:   "cooldown TOOL --signature SIGNATURE (--for DURATION | --clear)",
		Short: "Set or clear the cooldown of an error of a tool",
		Long: `Set or clear the cooldown of an error: while it runs, reports of that error are answered without being looked at. Needs the
verb update on toolhealths/status, which admins have. 'describe' lists signatures.

` + clusterExitCodes,
		Example: `  kubectl toolhealth cooldown mcp_search --signature http-403 --user alice --clear
  kubectl toolhealth cooldown mcp_search --signature http-5xx --for 30m`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.clusterFlags.bind(c, "agrajag-admin")
	o.subject.bind(c)
	c.Flags().StringVar(&o.signature, "signature", "", "the kind of error (required)")
	c.Flags().DurationVar(&o.span, "for", 0, "how long, at most 24h")
	c.Flags().BoolVar(&o.clear, "clear", false, "end it")
	c.Flags().StringVar(&o.class, "classification", string(v1alpha1.Intermittent), "what the error means, for those who meet the cooldown")
	_ = c.MarkFlagRequired("signature")
	_ = c.RegisterFlagCompletionFunc("signature", o.completeSignature)
	completeFlag(c, "classification", v1alpha1.TechnicallyBroken, v1alpha1.UserSpecificTechnical, v1alpha1.UserPermission, v1alpha1.UserInput, v1alpha1.Intermittent, v1alpha1.Unclear)
	return c
}

func (o *cooldownOptions) run(ctx context.Context, tool string) error {
	signature := v1alpha1.ErrorSignature(o.signature)
	if !signature.Valid() {
		return fmt.Errorf("--signature %s is none: 'describe' lists those of a tool", plain(o.signature, maxCell))
	}
	if o.clear == (o.span != 0) {
		return errors.New("say --for and how long, or --clear")
	}
	if o.clear {
		return o.apply(ctx, tool, func(string) health.Change { return health.Uncool(health.OfSignature(signature)) },
			fmt.Sprintf("%s of %s no longer cools down", plain(o.signature, maxCell), tool))
	}
	class := v1alpha1.Classification(o.class)
	if health.DefaultWait(class, 1) == 0 {
		return fmt.Errorf("--classification %s is not known, or has no cooldown", plain(o.class, maxCell))
	}
	if o.span < time.Second || o.span > health.MaxWait {
		return errors.New("--for must be from 1s to 24h")
	}
	return o.apply(ctx, tool, func(string) health.Change {
		return health.Cool(health.Trigger{Signature: signature, Class: class, Wait: o.span})
	}, fmt.Sprintf("%s of %s cools down for %s", plain(o.signature, maxCell), tool, short(o.span)))
}
