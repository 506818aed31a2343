package classify

import (
	"fmt"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// Step is one rule that was tried on a report.
type Step struct {
	Entry EffectiveEntry
	// Matched says that the rule matched, which decides the report.
	Matched bool
	// Failed is the first selector that did not hold, in the order in which ErrorMatch lists them, with what the
	// report says instead; empty where the rule matched. What it quotes of the report is short and printable.
	Failed string
}

// Explain lists the rules that were tried on a report, up to and including the one that matched. It is for
// people: each selector is tried alone, as a rule of its own.
func (r *Rules) Explain(call Call, e v1alpha1.ToolError, now time.Time) []Step {
	if r == nil {
		return nil
	}
	steps := make([]Step, 0, len(r.entries))
	for _, entry := range r.entries {
		step := Step{Entry: entry, Failed: firstFailed(&entry.Pattern.Match, call, e, now)}
		step.Matched = step.Failed == ""
		steps = append(steps, step)
		if step.Matched {
			break
		}
	}
	return steps
}

func firstFailed(m *v1alpha1.ErrorMatch, call Call, e v1alpha1.ToolError, now time.Time) string {
	for _, s := range selectors(m) {
		const id = "selector"
		alone, _ := Compile(Layer{Entries: []Entry{{Pattern: v1alpha1.ErrorPattern{
			ID: id, Match: s.match, Signature: id, Classification: v1alpha1.Unclear}}}})
		if alone.Classify(call, &e, now).RuleID != id {
			return fmt.Sprintf("match.%s: %s", s.name, s.missed(call, e))
		}
	}
	return ""
}

// selector is one selector of an entry, as a match of its own.
type selector struct {
	name  string
	match v1alpha1.ErrorMatch
	// missed says what a report that it does not hold for says instead.
	missed func(Call, v1alpha1.ToolError) string
}

// selectors are those that an entry sets. All of them must hold.
func selectors(m *v1alpha1.ErrorMatch) []selector {
	var list []selector
	add := func(set bool, name string, match v1alpha1.ErrorMatch, missed func(Call, v1alpha1.ToolError) string) {
		if set {
			list = append(list, selector{name, match, missed})
		}
	}
	add(m.ToolName != nil, "toolName", v1alpha1.ErrorMatch{ToolName: m.ToolName}, toolMissed)
	add(m.HTTPStatus != nil, "httpStatus", v1alpha1.ErrorMatch{HTTPStatus: m.HTTPStatus}, statusMissed)
	add(m.HTTPStatusRange != nil, "httpStatusRange", v1alpha1.ErrorMatch{HTTPStatusRange: m.HTTPStatusRange}, statusMissed)
	add(m.HTTPStatusIn != nil, "httpStatusIn", v1alpha1.ErrorMatch{HTTPStatusIn: m.HTTPStatusIn}, statusMissed)
	add(m.Host != "", "host", v1alpha1.ErrorMatch{Host: m.Host}, hostMissed)
	add(m.ExceptionType != nil, "exceptionType", v1alpha1.ErrorMatch{ExceptionType: m.ExceptionType}, typeMissed)
	add(m.ErrorCode != "", "errorCode", v1alpha1.ErrorMatch{ErrorCode: m.ErrorCode}, codeMissed)
	add(m.ErrorCodeIn != nil, "errorCodeIn", v1alpha1.ErrorMatch{ErrorCodeIn: m.ErrorCodeIn}, codeMissed)
	for i, h := range m.Header {
		add(true, fmt.Sprintf("header[%d]", i), v1alpha1.ErrorMatch{Header: []v1alpha1.HeaderMatch{h}}, headerMissed(h.Name))
	}
	for i, f := range m.JSONField {
		add(true, fmt.Sprintf("jsonField[%d]", i), v1alpha1.ErrorMatch{JSONField: []v1alpha1.JSONFieldMatch{f}}, fieldMissed(f.Pointer))
	}
	add(m.BodyContains != nil, "bodyContains", v1alpha1.ErrorMatch{BodyContains: m.BodyContains}, noneOf(len(m.BodyContains), bodyOf))
	for i, text := range m.BodyContainsAll {
		add(true, fmt.Sprintf("bodyContainsAll[%d]", i), v1alpha1.ErrorMatch{BodyContainsAll: []v1alpha1.Substring{text}}, lacks(text, bodyOf))
	}
	add(m.MessageContains != nil, "messageContains", v1alpha1.ErrorMatch{MessageContains: m.MessageContains}, noneOf(len(m.MessageContains), messageOf))
	for i, text := range m.MessageContainsAll {
		add(true, fmt.Sprintf("messageContainsAll[%d]", i), v1alpha1.ErrorMatch{MessageContainsAll: []v1alpha1.Substring{text}}, lacks(text, messageOf))
	}
	return list
}

func toolMissed(call Call, _ v1alpha1.ToolError) string { return "the tool is " + quote(call.Tool) }

func statusMissed(_ Call, e v1alpha1.ToolError) string {
	if e.HTTPStatus == nil {
		return "the report states no HTTP status"
	}
	return fmt.Sprintf("the status is %d", *e.HTTPStatus)
}

func hostMissed(call Call, e v1alpha1.ToolError) string {
	return fmt.Sprintf("the host %s is %s for a tool at %s", quote(e.Host), whichHost(e.Host, call.EndpointHost), quote(call.EndpointHost))
}

func typeMissed(_ Call, e v1alpha1.ToolError) string {
	switch n := len(e.ExceptionTypes); n {
	case 0:
		return "the report states no exception type"
	case 1:
		return "the type is " + quote(string(e.ExceptionTypes[0]))
	default:
		return fmt.Sprintf("the type is %s with %d causes", quote(string(e.ExceptionTypes[0])), n-1)
	}
}

func codeMissed(_ Call, e v1alpha1.ToolError) string {
	if e.ErrorCode == "" {
		value := fieldOf(e, "/error/code")
		if value == "" {
			return "the report states no error code"
		}
		return "the code in the body is " + value
	}
	return "the code is " + quote(e.ErrorCode)
}

func headerMissed(name string) func(Call, v1alpha1.ToolError) string {
	return func(_ Call, e v1alpha1.ToolError) string {
		value, ok := header(&e, name)
		if !ok {
			return "there is no header " + name
		}
		return fmt.Sprintf("the header %s is %s", name, quote(value))
	}
}

func fieldMissed(pointer string) func(Call, v1alpha1.ToolError) string {
	return func(_ Call, e v1alpha1.ToolError) string {
		value := fieldOf(e, pointer)
		if value == "" {
			return fmt.Sprintf("nothing stands at %s of the body", pointer)
		}
		return fmt.Sprintf("%s stands at %s of the body", value, pointer)
	}
}

// fieldOf quotes the scalar at a place of the body; "" where there is none.
func fieldOf(e v1alpha1.ToolError, pointer string) string {
	var at places
	place := at.add(pointer)
	values := at.read(e.Body)
	if values == nil || values[place].kind == absent {
		return ""
	}
	return quote(values[place].text)
}

// bodyOf says where bodyContains looks.
func bodyOf(e v1alpha1.ToolError) string {
	if e.Body == "" {
		return "the message, which stands for the missing body"
	}
	return "the body"
}

func messageOf(v1alpha1.ToolError) string { return "the message" }

func noneOf(n int, where func(v1alpha1.ToolError) string) func(Call, v1alpha1.ToolError) string {
	return func(_ Call, e v1alpha1.ToolError) string {
		return fmt.Sprintf("none of its %d texts stands in %s", n, where(e))
	}
}

func lacks(text v1alpha1.Substring, where func(v1alpha1.ToolError) string) func(Call, v1alpha1.ToolError) string {
	return func(_ Call, e v1alpha1.ToolError) string {
		return fmt.Sprintf("%s does not stand in %s", quote(string(text)), where(e))
	}
}
