package llm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify"
)

// problem is what an endpoint's error body says. Servers write it in many forms.
type problem struct {
	// api is true if the body has the form of an API's error, so that what refused is an API and no web server.
	api bool
	// codes are the words for machines: the code, the code inside it, the type; in lower case.
	codes []string
	// status is a code that is an HTTP status; 0: none. Proxies of models send one with status 200.
	status  int
	message string
}

// readProblem reads an error body: OpenAI's {"error": {...}}, the same in a list, {"error": "text"}, the fields without a
// frame around them, {"detail": "text"}, or plain text. It is total.
func readProblem(body []byte) problem {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	frame := struct {
		Error  json.RawMessage `json:"error"`
		Object string          `json:"object"`
		Detail json.RawMessage `json:"detail"`
	}{}
	if json.Unmarshal(body, &frame) != nil {
		return problem{message: string(body)}
	}
	var message string
	switch {
	case json.Unmarshal(frame.Error, &message) == nil && message != "":
		return problem{api: true, message: message}
	case len(frame.Error) > 0 && frame.Error[0] == '{':
		return readFields(frame.Error, true)
	case frame.Object == "error":
		return readFields(body, true)
	case json.Unmarshal(frame.Detail, &message) == nil && message != "":
		return problem{message: message}
	}
	return readFields(body, false)
}

// readFields reads the fields of an error object. Of a field of another type than expected nothing is read.
func readFields(object []byte, api bool) problem {
	fields := struct {
		Message json.RawMessage `json:"message"`
		Code    json.RawMessage `json:"code"`
		Type    json.RawMessage `json:"type"`
		Inner   json.RawMessage `json:"innererror"`
	}{}
	p := problem{api: api, message: string(object)}
	if json.Unmarshal(object, &fields) != nil {
		return p
	}
	var message string
	if json.Unmarshal(fields.Message, &message) == nil && message != "" {
		p.message = message
	}
	inner := struct {
		Code json.RawMessage `json:"code"`
	}{}
	_ = json.Unmarshal(fields.Inner, &inner)
	for _, raw := range []json.RawMessage{fields.Code, inner.Code, fields.Type} {
		if code := strings.ToLower(strings.Trim(string(raw), `"`)); code != "" && code != "null" && len(code) <= 64 {
			p.codes = append(p.codes, code)
		}
	}
	if status, err := strconv.Atoi(strings.Trim(string(fields.Code), `"`)); err == nil && status >= 400 && status <= 599 {
		p.status = status
	}
	return p
}

// kindsByCode are the codes that say more than the status. They are those of OpenAI, Azure, Anthropic, Groq, Mistral, xAI
// and llama.cpp as they document them.
var kindsByCode = map[string]FailureKind{
	"model_not_found": UnknownModel, "deploymentnotfound": UnknownModel, "invalid_model": UnknownModel,
	"insufficient_quota": NoFunds, "billing_hard_limit_reached": NoFunds, "billing_not_active": NoFunds, "billing_error": NoFunds,
	"insufficient_funds": NoFunds, "insufficient_balance": NoFunds,
	"invalid_api_key": KeyRefused, "authentication_error": KeyRefused, "account_deactivated": KeyRefused,
	"context_length_exceeded": TooLong, "exceed_context_size_error": TooLong, "request_too_large": TooLong,
	"content_filter": ContentFiltered, "content_policy_violation": ContentFiltered, "responsibleaipolicyviolation": ContentFiltered,
	"rate_limit_exceeded": RateLimited, "rate_limit_error": RateLimited,
	"overloaded_error": Overloaded,
	"unknown_url":      Misdirected,
}

// kindsByPhrase are for refusals that some servers tell apart by their message alone. They count for the statuses 400, 403,
// 404, 422, 500 and 501 without a known code, in this order, in lower case and without the backticks that some set.
var kindsByPhrase = []struct {
	phrase string
	kind   FailureKind
}{
	{"not support tool", NoTools},                  // Ollama, DashScope: tools; others: tool calling, tool use
	{"not support function call", NoTools},         // DeepSeek
	{"support tool use", NoTools},                  // OpenRouter: no endpoint found that does
	{"calling is not supported", NoTools},          // Groq
	{"tool choice requires", NoTools},              // vLLM without a tool parser
	{"tools param requires", NoTools},              // llama.cpp without templates
	{"maximum context length", TooLong},            // vLLM, OpenRouter
	{"prompt is too long", TooLong},                // Anthropic
	{"input token count", TooLong},                 // Gemini
	{"credit balance is too low", NoFunds},         // Anthropic, with the code of any bad request
	{"api key not valid", KeyRefused},              // Gemini, with status 400
	{"incorrect api key", KeyRefused},              // xAI, with status 400
	{"model not exist", UnknownModel},              // DeepSeek
	{"is not a valid model", UnknownModel},         // OpenRouter
	{"invalid model name", UnknownModel},           // LiteLLM
	{"model does not exist", UnknownModel},         // DashScope
	{"no such model", UnknownModel},                // several
	{"input was flagged", ContentFiltered},         // OpenRouter, with status 403
	{"content management policy", ContentFiltered}, // Azure behind proxies that drop its code
}

// statusOf returns the status of an error that came with an HTTP status: the one in its body, if that one says that all is well.
func (p problem) statusOf(status int) int {
	if status < http.StatusMultipleChoices && p.status != 0 {
		return p.status
	}
	return status
}

// refuses reports whether an error says that nothing was done for the request. One that does not may come after the work: of a
// gateway that lost its upstream or waited no longer for it, or of a server that failed at it.
func refuses(status int, kind FailureKind) bool {
	switch kind {
	case ContentFiltered: // The filter has read the prompt, or the answer.
		return false
	case Overloaded, Unknown:
		return slices.Contains(refusals, status)
	default:
		return true
	}
}

// refusals are the statuses of a server that is busy or did not get the whole request, and of Cloudflare where it could not
// connect to the server behind it: 521 to 523, 525 and 526, as it documents them. Anthropic is overloaded with 529.
var refusals = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	521, 522, 523, 525, 526, 529,
}

// kindOf says what kind of failure a status and an error body are.
func kindOf(status int, p problem) FailureKind {
	if status == http.StatusRequestEntityTooLarge { // Groq sends it with the code of a rate limit, but no wait helps.
		return TooLong
	}
	for _, code := range p.codes {
		if kind, ok := kindsByCode[code]; ok {
			return kind
		}
	}
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
		message := strings.ReplaceAll(strings.ToLower(p.message), "`", "")
		for _, known := range kindsByPhrase {
			if strings.Contains(message, known.phrase) {
				return known.kind
			}
		}
	}
	return kindByStatus(status, p.api)
}

// kindByStatus is for answers whose body says nothing more.
func kindByStatus(status int, api bool) FailureKind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return KeyRefused
	case http.StatusPaymentRequired:
		return NoFunds
	case http.StatusNotFound:
		if api {
			return UnknownModel // An API that knows the path: what it has not found is the model.
		}
		return Misdirected
	case http.StatusMethodNotAllowed:
		return Misdirected
	case http.StatusTooManyRequests:
		return RateLimited
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return Overloaded
	case http.StatusNotImplemented:
		return BadRequest
	}
	switch status / 100 {
	case 3:
		return Misdirected
	case 4:
		return BadRequest
	case 5:
		return Overloaded
	default:
		return Unknown
	}
}

// statedWait returns how long an answer asks to wait, in its headers or its text; 0: it does not say.
func statedWait(headers http.Header, body []byte, now time.Time) time.Duration {
	answer := &v1alpha1.ToolError{Headers: map[string]v1alpha1.HeaderValue{}, Body: string(body[:min(len(body), v1alpha1.MaxErrorBody)])}
	for name := range headers {
		if value := headers.Get(name); len(value) <= v1alpha1.MaxHeaderValue {
			answer.Headers[name] = v1alpha1.HeaderValue(value)
		}
	}
	wait, _ := classify.StatedWait(answer, now)
	return wait
}
