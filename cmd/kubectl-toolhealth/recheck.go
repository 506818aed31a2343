package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// watchEvery is how often a job is looked at while it is awaited.
const watchEvery = 250 * time.Millisecond

type recheckOptions struct {
	*streams
	clusterFlags
	output, asUser, scope string
	wait                  time.Duration
}

func newRecheck(s *streams) *cobra.Command {
	o := recheckOptions{streams: s}
	c := &cobra.Command{
		Use:   "recheck TOOL",
		Short: "Have a tool probed now, and wait for what is found",
		Long: `Have a tool probed now, and wait for what is found, with progress on the standard error. With --as-user it is probed as that
user, too, which needs the verb report-for-others. With --wait=0 it is only asked for. A request joins what looks at the
tool already, for that user. Where the tool was diagnosed as often within the hour as it may be, the newest result is
printed, and when to ask again.

Exit codes: 0 it works or was only asked for; 1 it does not work, or nothing was found in time; 2 wrong usage, or the
cluster cannot be asked.`,
		Example: `  kubectl toolhealth recheck mcp_search
  kubectl toolhealth recheck mcp_search --as-user alice --wait=2m`,
		Args: func(c *cobra.Command, args []string) error { return oneTool(c, o.apart(c, args)) },
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), o.apart(c, args)[0]) },
	}
	outputFlag(c, &o.output, "text", "json", "yaml")
	o.bind(c, "agrajag-reporter (and for other users agrajag-runtime)")
	c.Flags().StringVar(&o.asUser, "as-user", "", "probe it as this user, too")
	c.Flags().StringVar(&o.scope, "scope", string(v1alpha1.ScopeProject), "widest scope that the outcome may have")
	completeFlag(c, "scope", v1alpha1.Scopes()...)
	c.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait for what is found; 0: not at all")
	c.Flags().Lookup("wait").NoOptDefVal = "1m" // --wait alone.
	return c
}

// apart takes the value of --wait where it stands apart, as in --wait 30s: since the flag needs none, that is an argument.
func (o *recheckOptions) apart(c *cobra.Command, args []string) []string {
	if len(args) != 2 || !c.Flags().Changed("wait") {
		return args
	}
	for i, arg := range args {
		if wait, err := time.ParseDuration(arg); err == nil {
			o.wait = wait
			return []string{args[1-i]}
		}
	}
	return args
}

func (o *recheckOptions) run(ctx context.Context, tool string) error {
	scope, err := parseScope(o.scope)
	if err := errors.Join(err, people(o.asUser, "")); err != nil {
		return err
	}
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.project, GenerateName: "recheck-"},
		Spec: v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Scope: scope, Trigger: v1alpha1.TriggerUserRequest,
			OriginatingUserID: v1alpha1.UserID(o.asUser)},
	}
	err = cluster.Create(ctx, job)
	answer := answerOf(err)
	switch {
	case err == nil:
		o.note("%s is looked at as job %s", tool, job.Name)
	case answer["Job"] != "":
		job.Name = answer["Job"]
		o.note("%s", messageOf(err))
	case apierrors.IsAlreadyExists(err): // Of the name that the webhook gave it.
		if job.Name = nameOf(err); job.Name == "" {
			return err
		}
		o.note("%s is looked at already, as job %s", tool, job.Name)
	default:
		return err
	}
	last, err := o.await(ctx, cluster, job)
	if err != nil {
		return err
	}
	return o.tell(last)
}

// tell writes how far a job is, and ends as it does.
func (o *recheckOptions) tell(job *v1alpha1.DiagnosisJob) error {
	ended := job.Status.Phase == v1alpha1.PhaseClosed
	var err error
	switch {
	case o.output != "text":
		err = o.object(o.output, describeJob(job))
	case ended:
		err = o.print("%s", resultOf(job))
	case o.wait <= 0:
		err = o.print("Asked for. See: kubectl get diagnosisjob %s -n %s", job.Name, job.Namespace)
	default:
		err = o.print("Nothing was found within %s. See: kubectl get diagnosisjob %s -n %s", short(o.wait), job.Name, job.Namespace)
	}
	if err != nil || o.wait <= 0 {
		return err
	}
	if found := job.Status.Diagnosis; !ended || found == nil || found.Classification != v1alpha1.Working {
		return errFindings
	}
	return nil
}

// await waits until a job has ended or the time is over, tells how far it is, and returns it as it was last.
func (o *recheckOptions) await(ctx context.Context, cluster *connection, job *v1alpha1.DiagnosisJob) (*v1alpha1.DiagnosisJob, error) {
	over, told := time.After(o.wait), ""
	for {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(job), job)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("interrupted; job %s goes on", job.Name)
		case err != nil:
			return nil, err
		case job.Status.Phase == v1alpha1.PhaseClosed || o.wait <= 0:
			return job, nil
		}
		if stands := fmt.Sprintf("%s, %d probes", resultOf(job), job.Status.ProbeCount); stands != told {
			o.note("%s: %s", job.Name, stands)
			told = stands
		}
		select {
		case <-ctx.Done():
		case <-over:
			return job, nil
		case <-time.After(watchEvery):
		}
	}
}

// nameOf returns the name of the object that an answer is about.
func nameOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	return status.Status().Details.Name
}

// answerOf returns what a refusal of a report says to machines.
func answerOf(err error) map[string]string {
	answer := map[string]string{}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			answer[string(cause.Type)] = cause.Message
		}
	}
	return answer
}
