package restapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
)

const (
	// maxRecheckWait bounds how long one request waits for a diagnosis.
	maxRecheckWait = time.Minute
	// recheckPoll is how often the cache is asked whether it has ended.
	recheckPoll = 100 * time.Millisecond
)

// postRecheckOfTenant is postRecheck under the path of the specification (§11).
func (s *Server) postRecheckOfTenant(r *http.Request, who Identity) (answer, error) {
	q := r.URL.Query()
	if scope := q.Get("scope"); scope != "" && scope != string(v1alpha1.ScopeProject) {
		return answer{}, invalid("scope", "must be PROJECT here: for others use /v1/projects/{project}/tools/{tool}/recheck")
	}
	project := q.Get("scopeId")
	if project == "" {
		return answer{}, invalid("scopeId", "name the project")
	}
	r.SetPathValue("project", project)
	if err := s.mayReport(r.Context(), who, project, "", v1alpha1.ScopeProject); err != nil {
		return answer{}, err
	}
	place, err := s.Checker.Place(r.Context(), project)
	if err != nil {
		return answer{}, err
	}
	if place.Tenant != r.PathValue("tenant") {
		return answer{}, problem(http.StatusNotFound, "not-found", "there is no such project of this tenant")
	}
	return s.postRecheck(r, who)
}

// postRecheck has a tool looked at, and waits for what is found if it is asked to.
func (s *Server) postRecheck(r *http.Request, who Identity) (answer, error) {
	tool, err := toolOf(r)
	if err != nil {
		return answer{}, err
	}
	caller, err := callerOf(r)
	if err != nil {
		return answer{}, err
	}
	scope, err := scopeOf("scope", r.URL.Query().Get("scope"))
	if err != nil {
		return answer{}, err
	}
	if err := checkScope(scope, rest.Report{OriginatingUserID: caller.User, OriginatingSessionID: caller.Session}); err != nil {
		return answer{}, err
	}
	wait, err := waitOf(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.mayReport(r.Context(), who, caller.Project, caller.User, scope); err != nil {
		return answer{}, err
	}
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: caller.Project},
		Spec: v1alpha1.DiagnosisJobSpec{
			ToolName: v1alpha1.ToolName(tool), Scope: scope, Trigger: v1alpha1.TriggerUserRequest,
			OriginatingUserID: v1alpha1.UserID(caller.User), OriginatingSessionID: caller.Session, Reporter: v1alpha1.UserID(who.Username),
		},
	}
	result, err := s.recheck(r.Context(), job, wait)
	if err != nil {
		return answer{}, err
	}
	rows, err := s.Checker.Rows(r.Context(), caller, tool)
	if err != nil {
		return answer{}, err
	}
	result.Health = health.Told(tool, rows, s.Clock.Now())
	status := http.StatusOK
	if !result.Done {
		status = http.StatusAccepted
	}
	return answer{status: status, body: result}, nil
}

// waitOf reads how long to wait.
func waitOf(r *http.Request) (time.Duration, error) {
	value := r.URL.Query().Get("wait")
	if value == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(value)
	if err != nil || wait < 0 || wait > maxRecheckWait {
		return 0, invalid("wait", "must be a duration from 0s to %s, such as 30s", maxRecheckWait)
	}
	return wait, nil
}

// recheck makes a job, or joins the one that looks already, and waits until it has ended.
func (s *Server) recheck(ctx context.Context, job *v1alpha1.DiagnosisJob, wait time.Duration) (rest.Recheck, error) {
	d, err := s.Checker.Check(ctx, checker.ReportOf(job), checker.DryRun)
	if err != nil {
		return rest.Recheck{}, err
	}
	checker.Answered(d)
	result := rest.Recheck{Job: d.Job, Message: d.Message}
	var uid types.UID
	if d.Outcome == checker.Pending {
		if result.Job, err = s.Checker.NameFor(ctx, job.Namespace, d.Key); err != nil {
			return rest.Recheck{}, err
		}
		err = s.Late.Now(ctx, func(ctx context.Context) (err error) {
			uid, err = s.enqueue(ctx, job, result.Job)
			return err
		})
		if err != nil {
			return rest.Recheck{}, notWritten(err, "the tool is not looked at")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ended, err := s.await(ctx, client.ObjectKey{Namespace: job.Namespace, Name: result.Job}, uid, wait > 0)
	if err != nil {
		return rest.Recheck{}, err
	}
	if ended != nil {
		result.Done, result.Message = true, endOf(ended)
		if d.Refused != nil {
			result.Message = d.Message + ". Found: " + endOf(ended)
		}
	}
	return result, nil
}

// await returns a job once it has ended; nil: not in time. A job of another UID, if one is given, is that of before.
func (s *Server) await(ctx context.Context, key client.ObjectKey, uid types.UID, wait bool) (*v1alpha1.DiagnosisJob, error) {
	ticker := time.NewTicker(recheckPoll)
	defer ticker.Stop()
	for {
		job := &v1alpha1.DiagnosisJob{}
		err := s.Client.Get(context.WithoutCancel(ctx), key, job)
		switch {
		case err == nil && job.Status.Phase == v1alpha1.PhaseClosed && (uid == "" || job.UID == uid):
			return job, nil
		case err != nil && !apierrors.IsNotFound(err): // Not found: the cache does not know it yet.
			return nil, err
		case !wait:
			return nil, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, nil
			}
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// endOf tells how a job ended.
func endOf(job *v1alpha1.DiagnosisJob) string {
	for _, condition := range job.Status.Conditions {
		if condition.Type == v1alpha1.ConditionComplete {
			return condition.Message
		}
	}
	return string(job.Status.CloseReason)
}
