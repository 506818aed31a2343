package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
)

type pinOptions struct {
	*streams
	clusterFlags
	subject
	state, until, reason string
}

func newPin(s *streams) *cobra.Command {
	o := pinOptions{streams: s}
	c := &cobra.Command{
		Use:   "pin TOOL --state STATE --reason REASON",
		Short: "Pin the state of a tool, whatever is reported of it",
		Long: `Pin the state of a tool (spec.override of its ToolHealth), whatever is reported of it: to silence it, or because you know
better. It ends at --until, or with 'unpin'. Reports are still answered and kept. The API server keeps who pinned it
(spec.override.by), which 'describe' and an Event tell.

` + clusterExitCodes,
		Example: `  kubectl toolhealth pin mcp_search --state DOWN --until 2h --reason "moving to another host"
  kubectl toolhealth pin mcp_search --state OK --user alice --until 2026-12-01T08:00:00Z --reason "token renewed"`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.clusterFlags.bind(c, "agrajag-editor")
	o.subject.bind(c)
	stateFlag(c, &o.state)
	c.Flags().StringVar(&o.until, "until", "", "when the pin ends: a time such as 2026-12-01T08:00:00Z, or from now, such as 2h (default: never by itself)")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for those who meet it, in at most 200 characters (required)")
	_ = c.MarkFlagRequired("reason")
	return c
}

// stateFlag adds the required --state.
func stateFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "state", "", "OK, DEGRADED or DOWN (required)")
	_ = c.MarkFlagRequired("state")
	completeFlag(c, "state", v1alpha1.StateOK, v1alpha1.StateDegraded, v1alpha1.StateDown)
}

// parseState reads a state.
func parseState(value string) (v1alpha1.State, error) {
	switch state := v1alpha1.State(strings.ToUpper(value)); state {
	case v1alpha1.StateOK, v1alpha1.StateDegraded, v1alpha1.StateDown:
		return state, nil
	default:
		return "", fmt.Errorf("--state %s is not known; use OK, DEGRADED, DOWN", plain(value, maxCell))
	}
}

// parseUntil reads a time, or how long it is until then; nil: never.
func parseUntil(value string, now time.Time) (*metav1.Time, error) {
	if value == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		span, spanErr := time.ParseDuration(value)
		if spanErr != nil {
			return nil, fmt.Errorf("--until %s is neither a time such as 2026-12-01T08:00:00Z nor a duration such as 2h", plain(value, maxCell))
		}
		at = now.Add(span)
	}
	if !at.After(now) {
		return nil, fmt.Errorf("--until %s lies in the past", plain(value, maxCell))
	}
	return &metav1.Time{Time: at.UTC().Truncate(time.Second)}, nil
}

func (o *pinOptions) run(ctx context.Context, tool string) error {
	state, err := parseState(o.state)
	if err != nil {
		return err
	}
	until, err := parseUntil(o.until, time.Now())
	if err != nil {
		return err
	}
	if err := within("--reason", o.reason, maxPinReason); err != nil {
		return err
	}
	override := &v1alpha1.HealthOverride{State: state, Until: until, Reason: o.reason}
	key, err := o.set(ctx, tool, override)
	if err != nil {
		return err
	}
	ends := "until it is unpinned"
	if until != nil {
		ends = "until " + until.UTC().Format(time.RFC3339)
	}
	return o.print("%s is pinned to %s for scope %s %s (toolhealth/%s in namespace %s)", tool, state, key.Scope, ends, key.Name(), key.Namespace)
}

// set writes the override of a row, which it creates if it is not there; nil takes it away.
func (o *pinOptions) set(ctx context.Context, tool string, override *v1alpha1.HealthOverride) (health.Key, error) {
	cluster, err := o.connect()
	if err != nil {
		return health.Key{}, err
	}
	place, _, err := cluster.place(ctx)
	if err != nil {
		return health.Key{}, err
	}
	key, err := o.key(place, tool)
	if err != nil {
		return key, err
	}
	row := &v1alpha1.ToolHealth{}
	err = cluster.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name()}, row)
	switch {
	case apierrors.IsNotFound(err) && override == nil:
		return key, fmt.Errorf("nothing is pinned: there is no ToolHealth of %s for scope %s", plain(tool, maxCell), key.Scope)
	case apierrors.IsNotFound(err):
		row = &v1alpha1.ToolHealth{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name()},
			Spec: v1alpha1.ToolHealthSpec{ToolName: v1alpha1.ToolName(tool), Scope: key.Scope, ScopeID: key.ScopeID, Override: override}}
		return key, cluster.Create(ctx, row)
	case err != nil:
		return key, err
	case health.KeyOf(row) != key:
		return key, fmt.Errorf("toolhealth/%s in namespace %s is about something else: delete it", row.Name, row.Namespace)
	case override == nil && row.Spec.Override == nil:
		return key, errors.New("nothing is pinned there")
	}
	before := row.DeepCopy()
	row.Spec.Override = override
	return key, cluster.Patch(ctx, row, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func newUnpin(s *streams) *cobra.Command {
	o := pinOptions{streams: s}
	c := &cobra.Command{
		Use:   "unpin TOOL",
		Short: "End the pin of a tool's state",
		Long: `End the pin of a tool's state: what is reported counts again.

` + clusterExitCodes,
		Example: `  kubectl toolhealth unpin mcp_search`,
		Args:    oneTool,
		RunE: func(c *cobra.Command, args []string) error {
			key, err := o.set(c.Context(), args[0], nil)
			if err != nil {
				return err
			}
			return o.print("%s is no longer pinned for scope %s", args[0], key.Scope)
		},
	}
	o.clusterFlags.bind(c, "agrajag-editor")
	o.subject.bind(c)
	return c
}
