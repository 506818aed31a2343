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
tool already. Where the tool was diagnosed as often within the hour as it may be, the newest result is printed, and when to
ask again.

Exit codes: 0 it works or was only asked for; 1 it does not work, or nothing was found in time; 2 wrong usage, or the
cluster cannot be asked.`,
		Example: `  kubectl toolhealth recheck mcp_search
  kubectl toolhealth recheck mcp_search --as-user alice --wait 2m`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	outputFlag(c, &o.output, "text", "json", "yaml")
	o.bind(c)
	c.Flags().StringVar(&o.asUser, "as-user", "", "probe it as this user, too")
	c.Flags().StringVar(&o.scope, "scope", string(v1alpha1.ScopeProject), "widest scope that the outcome may have")
	c.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait for what is found; 0: not at all")
	return c
}

func (o *recheckOptions) run(ctx context.Context, tool string) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.project, GenerateName: "recheck-"},
		Spec: v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Scope: v1alpha1.Scope(o.scope), Trigger: v1alpha1.TriggerUserRequest,
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
	case apierrors.IsAlreadyExists(err):
		o.note("%s is looked at already", tool)
		return o.print("Ask again in a moment")
	default:
		return err
	}
	if o.wait <= 0 {
		return o.print("Asked for. See: kubectl get diagnosisjob %s -n %s", job.Name, cluster.project)
	}
	ended, err := o.await(ctx, cluster, job)
	if err != nil {
		return err
	}
	if o.output != "text" {
		err = o.object(o.output, jobDescription{Name: ended.Name, Phase: string(ended.Status.Phase), Result: resultOf(ended), Probes: ended.Status.Probes})
	} else {
		err = o.print("%s", resultOf(ended))
	}
	if err != nil {
		return err
	}
	if found := ended.Status.Diagnosis; found == nil || found.Classification != v1alpha1.Working {
		return errFindings
	}
	return nil
}

// await waits until a job has ended, and tells how far it is.
func (o *recheckOptions) await(ctx context.Context, cluster *connection, job *v1alpha1.DiagnosisJob) (*v1alpha1.DiagnosisJob, error) {
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	told := ""
	for {
		now := &v1alpha1.DiagnosisJob{}
		err := cluster.Get(ctx, client.ObjectKeyFromObject(job), now)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("nothing was found within %s; see: kubectl get diagnosisjob %s -n %s", short(o.wait), job.Name, job.Namespace)
		case err != nil:
			return nil, err
		case now.Status.Phase == v1alpha1.PhaseClosed:
			return now, nil
		}
		if stands := fmt.Sprintf("%s, %d probes", resultOf(now), now.Status.ProbeCount); stands != told {
			o.note("%s: %s", job.Name, stands)
			told = stands
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchEvery):
		}
	}
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
