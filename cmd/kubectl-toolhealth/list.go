package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// colors are the values of --color.
var colors = []string{"auto", "always", "never"}

type listOptions struct {
	*streams
	clusterFlags
	output, user, session, color string
	watch                        bool
}

func newList(s *streams) *cobra.Command {
	o := listOptions{streams: s}
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tools of a project and whether you can use them",
		Long: `List the tools of a project and whether you can use them: what is in force for you, why, until when, and what you can
do about it. With --user it is that user's inbox: only the tools for which there is something to do.

It reads the Tools and ToolHealths of the project and, where you may, those of its tenant and of everybody.

` + clusterExitCodes,
		Example: `  kubectl toolhealth list
  kubectl toolhealth list -n shop --watch
  kubectl toolhealth list --user alice
  kubectl toolhealth list -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	outputFlag(c, &o.output, "table", "json", "yaml")
	o.bind(c, "agrajag-viewer")
	c.Flags().StringVar(&o.user, "user", "", "show what this user can do about tools in trouble")
	c.Flags().StringVar(&o.session, "session", "", "look at the rows of this session, too")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show the list again whenever it changes, until interrupted")
	c.Flags().StringVar(&o.color, "color", "auto", "colour states: auto (on a terminal), always or never")
	completeFlag(c, "color", colors...)
	return c
}

// standing is what is in force for somebody of a tool.
type standing struct {
	Tool           string     `json:"tool"`
	State          string     `json:"state"`
	Scope          string     `json:"scope,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	Until          *time.Time `json:"until,omitempty"`
	Classification string     `json:"classification,omitempty"`
	ErrorSignature string     `json:"errorSignature,omitempty"`
	Why            string     `json:"why,omitempty"`
	UserActionHint string     `json:"userActionHint,omitempty"`
	Retesting      bool       `json:"retesting,omitempty"`
	Pinned         bool       `json:"pinned,omitempty"`
	PinnedBy       string     `json:"pinnedBy,omitempty"`
	// ActiveCooldowns is how many errors cool down.
	ActiveCooldowns int `json:"activeCooldowns,omitempty"`
}

func (o *listOptions) run(ctx context.Context) error {
	if !slices.Contains(colors, o.color) {
		return fmt.Errorf("--color %s is not known; use %s", plain(o.color, maxCell), join(colors))
	}
	o.unbounded = o.watch
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	user := o.user
	if user == "" {
		if user, err = cluster.self(ctx); err != nil {
			return err
		}
	}
	place, _, err := cluster.place(ctx)
	if err != nil {
		return err
	}
	list, hidden, err := o.standings(ctx, cluster, place, user)
	if err != nil {
		return err
	}
	for _, namespace := range hidden {
		o.note("The rows of namespace %s may not be read: what concerns more than this project may be missing", namespace)
	}
	if err := o.show(list); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, cluster, place, user, list)
}

const (
	// settle is how long a burst of changes is awaited, pass how often the list is made anew without any: times pass.
	settle = 200 * time.Millisecond
	pass   = 10 * time.Second
)

// follow shows the list again whenever it says something else, until ctx ends.
func (o *listOptions) follow(ctx context.Context, cluster *connection, place tenancy.Place, user string, shown []standing) error {
	for {
		watch, err := cluster.Watch(ctx, &v1alpha1.ToolHealthList{}, client.InNamespace(place.Project))
		switch {
		case ctx.Err() != nil:
			return nil // Interrupted, as a watch ends.
		case err != nil:
			return fmt.Errorf("watch ToolHealths: %w", err)
		}
		shown, err = o.until(ctx, watch.ResultChan(), cluster, place, user, shown)
		watch.Stop()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// until shows the list again whenever it says something else, until the watch ends: the API server ends each after a
// while. It returns what was shown last.
func (o *listOptions) until(ctx context.Context, changes <-chan watch.Event, cluster *connection, place tenancy.Place, user string, shown []standing) ([]standing, error) {
	for open := true; open; {
		if err := o.flush(); err != nil {
			return shown, err
		}
		select {
		case <-ctx.Done():
			return shown, nil
		case _, open = <-changes:
			drain(changes, settle)
		case <-time.After(pass):
		}
		list, _, err := o.standings(ctx, cluster, place, user)
		switch {
		case ctx.Err() != nil:
			return shown, nil
		case err != nil:
			return shown, err
		case reflect.DeepEqual(list, shown):
			continue
		}
		shown = list
		if err := errors.Join(o.print(""), o.show(list)); err != nil {
			return shown, err
		}
	}
	return shown, nil
}

// drain reads a channel until it is quiet for a while. One that is closed is: nobody asks for the next watch at once.
func drain[T any](from <-chan T, quiet time.Duration) {
	for {
		select {
		case _, open := <-from:
			if !open {
				from = nil
			}
		case <-time.After(quiet):
			return
		}
	}
}

// standings returns what is in force for a user of every tool of the project.
func (o *listOptions) standings(ctx context.Context, cluster *connection, place tenancy.Place, user string) ([]standing, []string, error) {
	rows, hidden, err := cluster.rows(ctx, place)
	if err != nil {
		return nil, nil, err
	}
	var tools v1alpha1.ToolList
	if err := cluster.List(ctx, &tools, client.InNamespace(place.Project)); err != nil {
		return nil, nil, fmt.Errorf("list Tools: %w", err)
	}
	byKey := make(map[health.Key]*v1alpha1.ToolHealth, len(rows))
	names := map[string]bool{}
	for i := range tools.Items {
		names[tools.Items[i].CalledAs()] = true
	}
	for i := range rows {
		byKey[health.KeyOf(&rows[i])] = &rows[i]
	}
	for key := range byKey {
		if own, ok := health.KeyFor(place, key.Scope, key.Tool, user, o.session); ok && own == key {
			names[key.Tool] = true
		}
	}
	now := time.Now()
	var list []standing
	for name := range names {
		var own []*v1alpha1.ToolHealth
		for _, key := range health.CallerKeys(place, name, tenancy.User(user), o.session) {
			own = append(own, byKey[key])
		}
		if s := standingOf(name, own, now); o.user == "" || s.UserActionHint != "" {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b standing) int { return strings.Compare(a.Tool, b.Tool) })
	return list, hidden, nil
}

// standingOf tells what a caller's rows say about a tool.
func standingOf(tool string, rows []*v1alpha1.ToolHealth, now time.Time) standing {
	told, row := health.Told(tool, rows, now), health.Effective(rows, now).Row
	s := standing{Tool: tool, State: told.State, Scope: told.Scope, Since: told.Since, Until: told.ExpectedRecoveryAt, Why: told.Note,
		Classification: told.Classification, Retesting: told.Retesting, Pinned: told.Overridden, ActiveCooldowns: len(told.Cooldowns)}
	if row == nil {
		return s
	}
	if told.Overridden {
		pin := row.Spec.Override
		s.PinnedBy = string(pin.By)
		if pin.Until != nil { // A tool that is pinned to OK recovers from nothing, but its pin ends.
			s.Until = &pin.Until.Time
		}
		return s
	}
	if last := row.Status.LastDiagnosis; last != nil {
		s.ErrorSignature = string(last.ErrorSignature)
		s.Why = cmp.Or(s.Why, s.ErrorSignature) // A rule need not have a note.
	}
	if told.State != string(v1alpha1.StateOK) {
		s.UserActionHint = told.UserActionHint
	}
	return s
}

func (o *listOptions) show(list []standing) error {
	if o.output != "table" {
		if list == nil {
			list = []standing{}
		}
		return o.object(o.output, list)
	}
	switch {
	case len(list) == 0 && o.user != "":
		return o.print("Nothing to do for %s.", o.user)
	case len(list) == 0:
		return o.print("No tools: nothing is described and nothing was reported.")
	}
	now := time.Now()
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.Tool, s.label(), s.Scope, age(s.Since, now), left(s.Until, now), s.Classification, s.Why, s.UserActionHint}
	}
	return o.coloured(o.color, []string{"TOOL", "STATE", "SCOPE", "SINCE", "RECOVERY", "CLASSIFICATION", "WHY", "TO DO"}, rows, 1)
}

// label is a state as people read it.
func (s standing) label() string {
	switch {
	case s.Pinned:
		return s.State + " (pinned)"
	case s.Retesting:
		return s.State + " (retry)"
	default:
		return s.State
	}
}

// age is how long ago something was; left how long it is until something.
func age(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(*t))
}

func left(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return ""
	case !t.After(now):
		return "due"
	default:
		return "in " + duration.HumanDuration(t.Sub(now))
	}
}
