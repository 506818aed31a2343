package restapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// postErrors answers a report, or a list of them.
func (s *Server) postErrors(r *http.Request, who Identity) (answer, error) {
	body, err := readBody(r)
	if err != nil {
		return answer{}, err
	}
	var reports []rest.Report
	single := !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
	if single {
		reports = make([]rest.Report, 1)
		err = decode(body, &reports[0])
	} else {
		err = decode(body, &reports)
	}
	if err != nil {
		return answer{}, err
	}
	if len(reports) == 0 || len(reports) > maxList {
		return answer{}, invalid("body", "a list must hold 1 to %d reports, not %d", maxList, len(reports))
	}
	jobs := make([]*v1alpha1.DiagnosisJob, len(reports))
	for i, report := range reports { // All of them before any is answered.
		if jobs[i], err = s.jobOf(r.Context(), r.PathValue("project"), who, report); err != nil {
			return answer{}, at(i, single, err)
		}
	}
	verdicts := make([]rest.Verdict, len(jobs))
	for i, job := range jobs {
		if verdicts[i], err = s.report(r.Context(), job, requestID(r, who, i)); err != nil {
			return answer{}, at(i, single, err)
		}
	}
	if single {
		return answer{status: http.StatusOK, body: verdicts[0]}, nil
	}
	return answer{status: http.StatusOK, body: verdicts}, nil
}

// at says which report of a list an error is about.
func at(i int, single bool, err error) error {
	var p *problemError
	if single || !errors.As(err, &p) {
		return err
	}
	return problem(p.status, p.kind, "report %d: %s", i, p.detail)
}

// jobOf returns the job that would diagnose a report, if the caller may make it. Secrets and excess are out of it.
func (s *Server) jobOf(ctx context.Context, project string, who Identity, r rest.Report) (*v1alpha1.DiagnosisJob, error) {
	scope, err := scopeOf("scope", r.Scope)
	if err := errors.Join(err, checkTool("toolName", r.ToolName), checkID("originatingUserId", r.OriginatingUserID),
		checkID("originatingSessionId", r.OriginatingSessionID), checkID("originatingProcessId", r.OriginatingProcessID),
		checkLocale(r.Locale), checkScope(scope, r)); err != nil {
		return nil, first(err)
	}
	reported, err := errorOf(r.Error)
	if err != nil {
		return nil, err
	}
	if err := s.mayReport(ctx, who, project, r.OriginatingUserID, scope); err != nil {
		return nil, err
	}
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: project},
		Spec: v1alpha1.DiagnosisJobSpec{
			ToolName: v1alpha1.ToolName(r.ToolName), Scope: scope, Trigger: v1alpha1.TriggerToolCallError,
			OriginatingUserID:    v1alpha1.UserID(r.OriginatingUserID),
			OriginatingSessionID: r.OriginatingSessionID, OriginatingProcessID: r.OriginatingProcessID,
			Error: reported, Note: r.Note, Locale: r.Locale, Reporter: v1alpha1.UserID(who.Username),
		},
	}
	redact.Job(job)
	if equality.Semantic.DeepEqual(job.Spec.Error, &v1alpha1.ToolError{}) { // The schema refuses it, too.
		return nil, errNothingSaid
	}
	return job, nil
}

// errNothingSaid refuses a report of an error that has no part which can be used.
var errNothingSaid = invalid("error", "say what the failed call answered: httpStatus, body, message, exceptionTypes or errorCode")

// first returns the first of joined problems: one is enough to mend.
func first(err error) error {
	var p *problemError
	if errors.As(err, &p) {
		return p
	}
	return err
}

// checkScope says what a scope needs, as the schema does.
func checkScope(scope v1alpha1.Scope, r rest.Report) error {
	switch {
	case scope == v1alpha1.ScopeSession && r.OriginatingSessionID == "":
		return invalid("scope", "SESSION needs originatingSessionId")
	case scope == v1alpha1.ScopeUser && (r.OriginatingUserID == "" || r.OriginatingUserID == "_system"):
		return invalid("scope", "USER needs originatingUserId, and _system is no user")
	default:
		return nil
	}
}

// errorOf returns a reported error.
func errorOf(e *rest.ToolError) (*v1alpha1.ToolError, error) {
	if e == nil {
		return nil, errNothingSaid
	}
	if e.HTTPStatus != 0 && (e.HTTPStatus < 100 || e.HTTPStatus > 999) {
		return nil, invalid("error.httpStatus", "must be from 100 to 999, not %d", e.HTTPStatus)
	}
	out := &v1alpha1.ToolError{Body: e.Body, Message: e.Message, ErrorCode: e.ErrorCode, Host: e.Host}
	if e.HTTPStatus != 0 {
		out.HTTPStatus = &e.HTTPStatus
	}
	if e.Date != nil {
		out.Date = &metav1.Time{Time: *e.Date}
	}
	if len(e.Headers) > 0 {
		out.Headers = make(map[string]v1alpha1.HeaderValue, len(e.Headers))
		for name, value := range e.Headers {
			out.Headers[name] = v1alpha1.HeaderValue(value)
		}
	}
	for _, kind := range e.ExceptionTypes {
		out.ExceptionTypes = append(out.ExceptionTypes, v1alpha1.MatchText(kind))
	}
	return out, nil
}

// report answers one report and writes what follows, now or later.
func (s *Server) report(ctx context.Context, job *v1alpha1.DiagnosisJob, id string) (rest.Verdict, error) {
	r := checker.ReportOf(job)
	r.ID = id
	d, err := s.Checker.Check(ctx, r, checker.DryRun)
	if err != nil {
		return rest.Verdict{}, err
	}
	checker.Answered(d)
	v := verdictOf(d)
	follow := func(ctx context.Context) error { return s.follow(ctx, r, job) }
	if d.Outcome == checker.Classified || d.Outcome == checker.Pending || d.News {
		v.StoreError = s.Late.Do(ctx, lateKey(d, r.Session), follow)
		v.Stored = v.StoreError == ""
	}
	switch {
	case d.Outcome != checker.Pending:
	case v.Stored || v.StoreError == storedLater:
		if v.Job, err = s.Checker.NameFor(ctx, r.Project, d.Key); err != nil {
			return rest.Verdict{}, err
		}
	default: // No job: nothing looks at it.
		v.DiagnosisPending = false
		v.Message = fmt.Sprintf("Not diagnosed: the error of %s is unclear (rule %s), and %s. Do not call it again for %ds", text.Plain(r.Tool, maxTool), v.RuleID, v.StoreError, v.RetryAfterSeconds)
	}
	if d.Outcome == checker.Classified && v.Stored {
		view, err := s.Checker.Health(ctx, checker.Caller{Project: r.Project, User: r.User, Session: r.Session}, r.Tool)
		if err == nil {
			v.State = string(view.State)
		}
	}
	return v, nil
}

// lateKey identifies what follows from a decision: what is done once need not be done for each repeat. Each session has a
// row of its own, and a call that worked clears that of its session.
func lateKey(d checker.Decision, session string) string {
	if d.Scope != v1alpha1.ScopeSession && d.Class != v1alpha1.Working {
		session = ""
	}
	return fmt.Sprintf("%s %q %#v %q", d.Outcome, d.Place.Project, d.Key, session)
}

// follow writes what follows from a report: rows, the message of one more report, or a job.
func (s *Server) follow(ctx context.Context, r checker.Report, job *v1alpha1.DiagnosisJob) error {
	d, err := s.Checker.Check(ctx, r, checker.Decide)
	if err != nil {
		return err
	}
	if d.Outcome != checker.Pending {
		return d.NotStored
	}
	name, err := s.Checker.NameFor(ctx, r.Project, d.Key)
	if err == nil {
		_, err = s.enqueue(ctx, job, name)
	}
	return err
}

const (
	// enqueueTries bounds the tries to create a job whose name a closed one has.
	enqueueTries = 3
	// cacheLag is how long a job that was made may be missing in the cache: far longer than a watch lags.
	cacheLag = 10 * time.Second
)

// enqueue creates a job under the name of its fault, in the place of a closed one, and returns its UID; empty: an open
// one stands for it.
func (s *Server) enqueue(ctx context.Context, job *v1alpha1.DiagnosisJob, name string) (types.UID, error) {
	key := client.ObjectKey{Namespace: job.Namespace, Name: name}
	if s.justMade(ctx, key) {
		return "", nil
	}
	var err error
	for range enqueueTries {
		fresh := job.DeepCopy()
		fresh.Name = name
		if err = s.Client.Create(ctx, fresh); err == nil {
			s.made.put(key, fresh.UID, s.Clock.Now())
			return fresh.UID, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			break
		}
		open, roomErr := s.Checker.MakeRoom(ctx, s.Checker.Live, key)
		if open || roomErr != nil {
			return "", roomErr
		}
	}
	return "", fmt.Errorf("create job %s: %w", name, err)
}

// justMade reports whether a job was made a moment ago that the cache does not know yet: reports decided meanwhile want
// one, too.
func (s *Server) justMade(ctx context.Context, key client.ObjectKey) bool {
	now := s.Clock.Now()
	uid, age, ok := s.made.get(key, now)
	if !ok || age >= cacheLag {
		return false
	}
	cached := &v1alpha1.DiagnosisJob{}
	err := s.Client.Get(ctx, key, cached)
	return apierrors.IsNotFound(err) || err == nil && cached.UID != uid
}

// verdictOf tells a decision as the API does.
func verdictOf(d checker.Decision) rest.Verdict {
	return rest.Verdict{
		Outcome: string(d.Outcome), RuleID: d.Verdict.RuleID, Signature: string(d.Verdict.Signature),
		Classification: string(d.Class), State: string(d.Health.State), Scope: string(d.Scope), Action: string(d.Verdict.Action),
		RetryAfterSeconds: health.Seconds(d.RetryAfter), DiagnosisPending: d.DiagnosisPending(),
		Job: d.Job, ToolKnown: d.ToolKnown, Stored: true, Message: d.Message, UserActionHint: d.Hint,
	}
}
