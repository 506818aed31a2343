// Package webhook translates between the API server's admission requests and the checker, which answers reports, and
// the rules, which are judged before they are stored.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Paths under which the API server finds the webhooks (config/webhook).
const (
	PreparePath = "/prepare-report"
	AnswerPath  = "/answer-report"
)

// deadline bounds one answer, below the two seconds that the API server waits: what is not decided by then, the
// reconciler decides.
const deadline = 1500 * time.Millisecond

// Reasons of a refusal.
const (
	// ReasonClassified says that the report is answered by a verdict: a new one or one in force.
	ReasonClassified metav1.StatusReason = "ToolErrorClassified"
	// ReasonCoalesced says that a diagnosis of the same error is under way.
	ReasonCoalesced metav1.StatusReason = "ToolErrorCoalesced"
)

// Preparer makes a report fit to be stored. It changes the report alone and has no side effects.
type Preparer struct {
	Checker *checker.Checker
	Decoder admission.Decoder
}

// Handle takes secrets and excess out of the report, and gives a job that asks for a generated name the name of
// its fault, so that a second report of it meets the first.
func (p *Preparer) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	defer letThrough(ctx, &response)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	job, err := reportIn(req, p.Decoder)
	if err != nil {
		return undecoded(ctx, err)
	}
	former := job.DeepCopy()
	redact.Job(job)
	if job.Name == "" && job.GenerateName != "" {
		name, err := p.name(ctx, job)
		if err != nil { // The generated name does as well.
			logf.FromContext(ctx).Error(err, "Report not classified")
		} else {
			job.Name, job.GenerateName = name, ""
		}
	}
	texts := replaced(former.Spec.Error, job.Spec.Error)
	received, formerErr := json.Marshal(former)
	prepared, err := json.Marshal(job)
	if err := errors.Join(formerErr, err); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	// Against what was understood, not against what was sent: fields that this version does not know stay.
	response = admission.PatchResponseFromRaw(received, prepared)
	response.Patches = append(response.Patches, texts...)
	return response
}

// name returns the name of a report's fault.
func (p *Preparer) name(ctx context.Context, job *v1alpha1.DiagnosisJob) (string, error) {
	d, err := p.Checker.Check(ctx, checker.ReportOf(job), checker.ClassifyOnly)
	if err != nil {
		return "", err
	}
	return p.Checker.NameFor(ctx, job.Namespace, d.Key)
}

// letThrough turns a panic into an answer: a mistake of ours must refuse nobody's object.
func letThrough(ctx context.Context, response *admission.Response) {
	if r := recover(); r != nil {
		logf.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "Let through unread", "stack", string(debug.Stack()))
		*response = admission.Allowed("")
	}
}

// undecoded leaves an object that cannot be read to the schema, which says what is wrong by field. To refuse it here
// would make the webhooks a gate.
func undecoded(ctx context.Context, err error) admission.Response {
	logf.FromContext(ctx).Info("Object not read", "reason", unreadable(err))
	return admission.Allowed("")
}

// unreadable says where an object cannot be read. It repeats no value: a field of another kind may hold a secret that looks
// like a word.
func unreadable(err error) string {
	var kind *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &kind):
		return fmt.Sprintf("%s holds no %v", text.Plain(redact.Text(string(kind.JSONPointer)), 200), kind.GoType)
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON from byte %d on", syntax.ByteOffset)
	default:
		return fmt.Sprintf("%T", err)
	}
}

// Answerer answers reports: what is clear is refused with the verdict, what is unclear becomes a job.
type Answerer struct {
	Checker *checker.Checker
	Client  client.Client
	Decoder admission.Decoder
}

// Handle decides a report that schema and policies have accepted. Whatever goes wrong here, the report is let
// through: the reconciler decides it then.
func (a *Answerer) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	defer letThrough(ctx, &response)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	job, err := reportIn(req, a.Decoder)
	if err != nil {
		return undecoded(ctx, err)
	}
	redact.Job(job) // The other webhook may have been away, and answers and signals repeat what the report says.
	mode := checker.Decide
	if req.DryRun != nil && *req.DryRun {
		mode = checker.DryRun
	}
	r := checker.ReportOf(job)
	d, err := a.Checker.Check(ctx, r, mode)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Report left to the reconciler", "job", req.Name)
		return admission.Allowed("").WithWarnings("Diagnosis pending: the report could not be answered at once")
	}
	if mode == checker.Decide {
		checker.Answered(d)
	}
	if d.Outcome == checker.Classified && mode == checker.Decide { // What is in force is told as it is now.
		if view, err := a.Checker.Health(ctx, checker.Caller{Project: r.Project, User: r.User, Session: r.Session}, r.Tool); err == nil {
			d.Health = view
		}
	}
	if d.Outcome != checker.Pending {
		return refusal(job, d)
	}
	if mode == checker.Decide && a.Checker.OwnsName(d.Key, job.Name) {
		// Only under a name of the fault, so that no reporter can name another's job and have it deleted.
		if _, err := a.Checker.MakeRoom(ctx, a.Client, client.ObjectKeyFromObject(job)); err != nil {
			logf.FromContext(ctx).Error(err, "Closed job of the same name not replaced", "job", req.Name)
		}
	}
	return admission.Allowed("").WithWarnings(text.Plain(d.Message, 250))
}

// refusal tells a decision as the API server tells errors: the message for people, since kubectl shows nothing
// else, the same in causes for machines. 422, since clients repeat what is refused with 429.
func refusal(job *v1alpha1.DiagnosisJob, d checker.Decision) admission.Response {
	reason := ReasonClassified
	if d.Outcome == checker.Coalesced {
		reason = ReasonCoalesced
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: false,
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  reason,
			Message: d.Message,
			Details: &metav1.StatusDetails{
				Name: job.Name, Group: v1alpha1.GroupVersion.Group, Kind: "diagnosisjobs",
				RetryAfterSeconds: seconds(d.RetryAfter),
				Causes:            causes(d),
			},
		},
	}}
}

// seconds is a wait as a Status holds it.
func seconds(d time.Duration) int32 { return int32(min(health.Seconds(d), math.MaxInt32)) }

// storeError says why what follows from a decision has no place; empty: it has. The message says it, too.
func storeError(d checker.Decision) string {
	if !health.IsUnstorable(d.NotStored) {
		return ""
	}
	return text.Plain(d.NotStored.Error(), 300)
}

// causes tells a decision to machines, one fact a cause.
func causes(d checker.Decision) []metav1.StatusCause {
	facts := []struct{ kind, value string }{
		{"Outcome", string(d.Outcome)},
		{"Classification", string(d.Class)},
		{"RuleID", d.Verdict.RuleID},
		{"ErrorSignature", string(d.Verdict.Signature)},
		{"State", string(d.Health.State)},
		{"Scope", string(d.Scope)},
		{"Action", string(d.Verdict.Action)},
		{"DiagnosisPending", fmt.Sprint(d.DiagnosisPending())},
		{"ToolKnown", fmt.Sprint(d.ToolKnown)},
		{"Job", d.Job},
		{"UserActionHint", d.Hint},
		{"RetryAfterSeconds", fmt.Sprint(seconds(d.RetryAfter))},
		{"StoreError", storeError(d)},
	}
	out := make([]metav1.StatusCause, 0, len(facts))
	for _, fact := range facts {
		if fact.value != "" {
			out = append(out, metav1.StatusCause{Type: metav1.CauseType(fact.kind), Message: fact.value})
		}
	}
	return out
}
