package diagnose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxResponse bounds what is kept of a failed probe's answer, and of why a probe was not possible, in bytes.
const maxResponse = 512

// limitReached answers a call that is not carried out any more.
const limitReached = "probe limit reached"

// noParameters is the schema of a tool's arguments: the model chooses neither target nor user, and input only where the
// Tool lets it.
var noParameters = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// inputParameters is the schema of a probe's arguments where the Tool lets the model choose input (specification §6.1).
var inputParameters = json.RawMessage(`{"type":"object","properties":{"sampleInput":{"type":"object","description":` +
	`"Minimal valid input for the tool. Left out, the input that its owner declared is sent; only that is evidence for a verdict."}},"additionalProperties":false}`)

// tools are what the model may call.
func tools(in Input) []llm.Tool {
	parameters := noParameters
	if in.modelChoosesInput() {
		parameters = inputParameters
	}
	return []llm.Tool{
		{Name: llm.ToolProbeAsUser, Parameters: parameters,
			Description: "Probe the tool with the credential of the user for whom it failed. Read-only."},
		{Name: llm.ToolProbeAsSystem, Parameters: parameters,
			Description: "Probe the tool with the system's credential, or with none. Read-only. Tells a user's problem from a general one."},
		{Name: llm.ToolHealthRead, Parameters: noParameters,
			Description: "Read the tool's health: state, history and cooldowns, and whether it can be probed."},
	}
}

// toolName is what endpoints accept as the name of a tool.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// carryOut returns the answer to one call. It never fails: what cannot be done is the answer.
func (r *run) carryOut(ctx context.Context, call llm.ToolCall) string {
	switch call.Name {
	case llm.ToolHealthRead:
		if r.read {
			return refusal("it was read already and has not changed: see above")
		}
		r.read = true
		return framed("health", healthFinding(r.in, r.engine.Clock.Now()))
	case llm.ToolProbeAsUser:
		return r.probe(ctx, v1alpha1.ProbeAsUser, call.Arguments)
	case llm.ToolProbeAsSystem:
		return r.probe(ctx, v1alpha1.ProbeAsSystem, call.Arguments)
	default:
		return refusal(fmt.Sprintf("unknown tool %q: there are only %s, %s and %s", call.Name, llm.ToolProbeAsUser, llm.ToolProbeAsSystem,
			llm.ToolHealthRead))
	}
}

// refusal is the answer to a call that is not carried out.
func refusal(reason string) string {
	return encode(struct {
		Error string `json:"error"`
	}{reason})
}

// framed returns a finding as the answer for the model: strangers wrote parts of it.
func framed(source string, finding any) string { return llm.Frame(source, encode(finding)) }

func encode(v any) string {
	// Nothing that is encoded here can fail to be: no channels, no cycles.
	data, _ := json.Marshal(v)
	return string(data)
}

// probeKey says which probe it is: as whom, and with what input of the model's, if the Tool lets it choose any
// and it is not the Tool's own.
type probeKey struct {
	as    v1alpha1.ProbeIdentity
	input string
}

// modelChoosesInput reports whether the Tool lets a model choose what a probe sends.
func (in Input) modelChoosesInput() bool {
	if in.Tool == nil || in.Tool.Spec.Probe == nil || in.Tool.Spec.Endpoint == nil {
		return false
	}
	return in.Tool.Spec.Probe.AllowModelInput && in.Tool.Spec.Endpoint.MCP != nil // See probe.Target.AllowModelInput.
}

// keyOf returns the key of a probe that the model calls, with its input in one form.
func (r *run) keyOf(as v1alpha1.ProbeIdentity, arguments string) probeKey {
	key := probeKey{as: as}
	if !r.in.modelChoosesInput() {
		return key
	}
	var chosen struct {
		SampleInput json.RawMessage `json:"sampleInput"`
	}
	if json.Unmarshal([]byte(arguments), &chosen) != nil {
		return key
	}
	own := json.RawMessage("{}") // what a Tool sends that declares none
	if declared := r.in.Tool.Spec.Probe.Input; declared != nil {
		own = declared.Raw
	}
	if input := oneForm(chosen.SampleInput); input != oneForm(own) {
		key.input = input
	}
	return key
}

// oneForm returns JSON as every spelling of it is written, with numbers as they are; "" for none and for null.
func oneForm(raw json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || value == nil {
		return ""
	}
	return encode(value)
}

// probe probes the tool, records it, and returns the answer for the model. The same probe once more is answered from
// the first one: it would say the same, and count as evidence twice.
func (r *run) probe(ctx context.Context, as v1alpha1.ProbeIdentity, arguments string) string {
	key := r.keyOf(as, arguments)
	if answer, before := r.probed[key]; before {
		return answer
	}
	if len(r.out.Evidence) >= r.in.Limits.MaxProbes || len(r.out.Probes) >= v1alpha1.MaxProbeAudits {
		r.limited = true
		return refusal(limitReached)
	}
	if key.input == "" {
		arguments = "{}" // The Tool's own input, also where the model repeats it.
	}
	result := r.send(ctx, as, arguments)
	finding := r.findingOf(result)
	audit := v1alpha1.ProbeAudit{
		As: as, At: metav1.NewTime(result.At), Possible: finding.Possible, Success: finding.Success, DurationMs: finding.DurationMs,
		ErrorSignature: finding.ErrorSignature, Response: finding.Response,
	}
	if !finding.Possible {
		audit.Response = finding.Reason
		if !result.ByModel { // What a model made up says nothing of the Tool's input.
			audit.Refused = string(result.Refused)
		}
	}
	if result.StatusCode > 0 {
		status := int32(result.StatusCode)
		audit.StatusCode = &status
	}
	r.out.Probes = append(r.out.Probes, audit)
	if finding.Possible {
		// A probe whose own input was refused says as little about the tool as one that was asked for a credential.
		refused := finding.AuthChallenge || finding.Classification == v1alpha1.UserInput
		// Nor does one with what the model made up: it could be led to something that always fails, or that works while
		// all else is down.
		counts := !result.ByModel
		e := Evidence{
			As: as, Success: counts && finding.Success, Failed: counts && !finding.Success && !refused, Challenged: finding.AuthChallenge,
			Refused: finding.Refused,
		}
		if e.Failed {
			e.Signature = finding.ErrorSignature
		}
		r.out.Evidence = append(r.out.Evidence, e)
	}
	r.probed[key] = framed("probe as "+string(as), finding)
	return r.probed[key]
}

// send probes the tool, or says why that is not possible.
func (r *run) send(ctx context.Context, as v1alpha1.ProbeIdentity, arguments string) probe.Result {
	impossible := func(reason string) probe.Result {
		return probe.Result{As: as, At: r.engine.Clock.Now(), Impossible: reason}
	}
	if r.in.Tool == nil {
		return impossible("no Tool in the project describes it")
	}
	target, err := probe.TargetOf(r.in.Tool)
	if err != nil {
		return impossible(err.Error())
	}
	identity := probe.Identity{As: as}
	namespace := r.in.Job.Namespace
	switch {
	case as == v1alpha1.ProbeAsUser && r.in.user() == "":
		return impossible("the report names no user")
	case as == v1alpha1.ProbeAsUser:
		identity.Credential, err = r.engine.Credentials.User(ctx, namespace, r.in.user(), target.Tool)
	case r.in.Tool.Spec.Credentials != nil && r.in.Tool.Spec.Credentials.System != nil:
		identity.Credential, err = r.engine.Credentials.System(ctx, namespace, r.in.Tool.Spec.Credentials.System.Name)
	}
	if err != nil {
		return impossible(err.Error())
	}
	return r.engine.Prober.Probe(ctx, target, identity, chosenInput(target, arguments))
}

// chosenInput returns the input that the model chose, or the Tool's own: also where the model may choose none, because
// models send arguments that nobody asked for.
func chosenInput(target probe.Target, arguments string) probe.Input {
	var chosen struct {
		SampleInput json.RawMessage `json:"sampleInput"`
	}
	if !target.AllowModelInput || json.Unmarshal([]byte(arguments), &chosen) != nil || len(chosen.SampleInput) == 0 ||
		string(chosen.SampleInput) == "null" {
		return target.Input
	}
	return probe.Input{JSON: chosen.SampleInput, ByModel: true}
}

// findingOf returns what the model is told about a probe.
func (r *run) findingOf(result probe.Result) llm.ProbeFinding {
	finding := llm.ProbeFinding{
		As: result.As, Possible: result.Possible, Reason: clean(result.Impossible), Success: result.Success,
		DurationMs: max(result.Duration.Milliseconds(), 0), StatusCode: result.StatusCode, AuthChallenge: result.AuthChallenge,
	}
	if e := result.Error; e != nil && !result.Success {
		verdict := r.in.classify(*e, result.At)
		finding.ErrorSignature, finding.Classification = verdict.Signature, verdict.Class
		finding.Refused = refuses(verdict.Class, result.StatusCode)
		finding.Response = clean(text.Cut(e.Message, maxMessage) + " " + text.Cut(e.Body, maxBody))
		finding.Cut = strings.HasSuffix(finding.Response, "…")
	}
	return finding
}

// clean returns what a stranger wrote as a short line without secrets.
func clean(s string) string { return text.Plain(redact.Text(s), maxResponse) }

func cleanAll(values ...*string) {
	for _, value := range values {
		*value = clean(*value)
	}
}

// healthFinding returns what is known about the tool.
func healthFinding(in Input, now time.Time) llm.HealthFinding {
	finding := llm.HealthFinding{
		Now: now.UTC().Truncate(time.Second), ToolName: text.Plain(string(in.Job.Spec.ToolName), 256), Scope: in.scope(), Trigger: in.Job.Spec.Trigger,
		ErrorSignature: in.Signature, Refused: in.reportsRefusal(), OriginatingUserID: text.Plain(in.user(), 256), Locale: text.Plain(in.Job.Spec.Locale, 35),
		ToolKnown: in.Tool != nil, ProbesOnlyRead: in.probesOnlyRead(), Rows: []llm.RowFinding{},
	}
	if in.Tool == nil {
		finding.NotProbeable = "no Tool in the project describes it"
	} else if _, err := probe.TargetOf(in.Tool); err != nil {
		finding.NotProbeable = clean(err.Error())
	}
	finding.Probeable = finding.NotProbeable == ""
	for _, row := range in.Rows {
		if row == nil {
			continue
		}
		status := row.Status.DeepCopy()
		found := llm.RowFinding{
			Scope: row.Spec.Scope, State: status.State, Since: timeOf(status.Since), ExpectedRecoveryAt: timeOf(status.ExpectedRecoveryAt),
			LastDiagnosis: status.LastDiagnosis, History: slices.Clone(lately(row)), Cooldowns: running(row, now),
		}
		if found.LastDiagnosis != nil {
			cleanAll(&found.LastDiagnosis.Note, &found.LastDiagnosis.UserActionHint, &found.LastDiagnosis.By, &found.LastDiagnosis.Job)
		}
		for i := range found.History {
			cleanAll(&found.History[i].Note, &found.History[i].By)
		}
		finding.Rows = append(finding.Rows, found)
	}
	return finding
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}
