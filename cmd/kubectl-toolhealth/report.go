package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

type reportOptions struct {
	*streams
	clusterFlags
	output, user, session, scope, note, body, message, code, host string
	status                                                        int32
	exceptions, headers                                           []string
}

func newReport(s *streams) *cobra.Command {
	o := reportOptions{streams: s}
	c := &cobra.Command{
		Use:   "report TOOL",
		Short: "Report an error of a tool by hand, and read the verdict",
		Long: `Report an error of a tool by hand, as an agent's runtime does after a failed call, and read the verdict. What the rules decide
is answered at once; anything else becomes a DiagnosisJob. --body - reads the body from the standard input. Secrets are taken
out and what is too long is cut before anything is sent.

With -o json it is the verdict that the REST API gives. Of a report that becomes a job the API server tells less: then the
verdict has outcome (Pending), classification (UNCLEAR: not known yet), diagnosisPending, job, stored and message alone.
While the manager is away every report becomes a job, and the message says so.

` + clusterExitCodes,
		Example: `  kubectl toolhealth report mcp_search --status 403 --user alice
  kubectl toolhealth report mcp_search --exception java.net.ConnectException
  curl -s https://search.example.com/ | kubectl toolhealth report mcp_search --status 503 --body -`,
		Args: oneTool,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	outputFlag(c, &o.output, "text", "json", "yaml")
	o.bind(c, "agrajag-reporter (and for other users agrajag-runtime)")
	f := c.Flags()
	f.Int32Var(&o.status, "status", 0, "status of the HTTP answer")
	f.StringVar(&o.body, "body", "", "body of the answer or result of the tool; - reads the standard input")
	f.StringVar(&o.message, "message", "", "text of the error")
	f.StringArrayVar(&o.headers, "header", nil, "header of the answer, as 'Retry-After: 60'; repeat it for more")
	f.StringArrayVar(&o.exceptions, "exception", nil, "type of the error; repeat it for its causes")
	f.StringVar(&o.code, "error-code", "", "code inside the answer")
	f.StringVar(&o.host, "host", "", "host that failed")
	f.StringVar(&o.user, "user", "", "for whom the tool was called; another than you needs the verb report-for-others")
	f.StringVar(&o.session, "session", "", "in which session")
	f.StringVar(&o.scope, "scope", string(v1alpha1.ScopeProject), "widest scope that the outcome may have")
	f.StringVar(&o.note, "note", "", "a remark")
	completeFlag(c, "scope", v1alpha1.Scopes()...)
	return c
}

// job returns the report.
func (o *reportOptions) job(namespace, tool string) (*v1alpha1.DiagnosisJob, error) {
	scope, err := parseScope(o.scope)
	if err := errors.Join(err, people(o.user, o.session)); err != nil {
		return nil, err
	}
	e := &v1alpha1.ToolError{Body: o.body, Message: o.message, ErrorCode: o.code, Host: o.host}
	if o.status != 0 && (o.status < 100 || o.status > 999) {
		return nil, fmt.Errorf("--status %d is no status of HTTP: it has three digits", o.status)
	}
	if o.status != 0 {
		e.HTTPStatus = &o.status
	}
	if o.body == stdin {
		data, err := o.read(stdin)
		if err != nil {
			return nil, err
		}
		e.Body = string(data)
	}
	for _, header := range o.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %s is not of the form 'Name: value'", plain(header, maxCell))
		}
		if e.Headers == nil {
			e.Headers = map[string]v1alpha1.HeaderValue{}
		}
		e.Headers[strings.TrimSpace(name)] = v1alpha1.HeaderValue(strings.TrimSpace(value))
	}
	for _, kind := range o.exceptions {
		e.ExceptionTypes = append(e.ExceptionTypes, v1alpha1.MatchText(kind))
	}
	if e.HTTPStatus == nil && e.Body == "" && e.Message == "" && e.ErrorCode == "" && len(e.ExceptionTypes) == 0 {
		return nil, errors.New("say what the call answered: --status, --body, --message, --exception or --error-code")
	}
	job := &v1alpha1.DiagnosisJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "report-"},
		Spec: v1alpha1.DiagnosisJobSpec{ToolName: v1alpha1.ToolName(tool), Scope: scope, OriginatingUserID: v1alpha1.UserID(o.user),
			OriginatingSessionID: o.session, Error: e, Note: o.note},
	}
	// As the webhook does: while it is away, the API server refuses what is too long, and keeps what is secret.
	redact.Job(job)
	return job, nil
}

func (o *reportOptions) run(ctx context.Context, tool string) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	job, err := o.job(cluster.project, tool)
	if err != nil {
		return err
	}
	answer, message, err := cluster.report(ctx, job)
	if err != nil {
		return err
	}
	if o.output != "text" {
		return o.object(o.output, answer)
	}
	return o.print("%s", message)
}

// report makes a job of a report, and returns the verdict and its message: a rest.Verdict or a pendingVerdict.
func (c *connection) report(ctx context.Context, job *v1alpha1.DiagnosisJob) (answer any, message string, err error) {
	err = c.Create(ctx, job)
	if v := verdictOf(answerOf(err)); v.Outcome != "" {
		v.Message = messageOf(err)
		return v, v.Message, nil
	}
	if err != nil {
		return nil, "", err
	}
	v := pendingVerdict{Outcome: "Pending", Classification: string(v1alpha1.Unclear), DiagnosisPending: true, Job: job.Name, Stored: true,
		Message: "Stored as job " + job.Name + ", but nobody has looked at it yet: the manager did not answer. It is decided when the manager is back"}
	if said := c.warnings.String(); said != "" { // The webhook has.
		v.Message = said + ". Job: " + job.Name
	}
	return v, v.Message, nil
}

// pendingVerdict is as much of a rest.Verdict as the API server tells of a report that it stored.
type pendingVerdict struct {
	Outcome          string `json:"outcome"`
	Classification   string `json:"classification"`
	DiagnosisPending bool   `json:"diagnosisPending"`
	Job              string `json:"job"`
	Stored           bool   `json:"stored"`
	Message          string `json:"message"`
}

// verdictOf reads what a refusal says to machines. The webhook refuses a report only when what follows is stored.
func verdictOf(answer map[string]string) rest.Verdict {
	v := rest.Verdict{Outcome: answer["Outcome"], RuleID: answer["RuleID"], Signature: answer["ErrorSignature"], Classification: answer["Classification"],
		State: answer["State"], Scope: answer["Scope"], Action: answer["Action"], Job: answer["Job"], UserActionHint: answer["UserActionHint"],
		DiagnosisPending: answer["DiagnosisPending"] == "true", ToolKnown: answer["ToolKnown"] == "true", Stored: true}
	v.RetryAfterSeconds, _ = strconv.ParseInt(answer["RetryAfterSeconds"], 10, 64)
	return v
}

// messageOf returns the verdict in a refusal, without what the API server says before it.
func messageOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	message := status.Status().Message
	if _, verdict, ok := strings.Cut(message, "denied the request: "); ok {
		return verdict
	}
	return message
}
