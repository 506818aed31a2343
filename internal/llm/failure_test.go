package llm_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/llm/scripted"
	"github.com/agrajag-dev/agrajag/internal/probe"
)

var t0 = time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)

// errorBody is an error in OpenAI's form.
func errorBody(kind, code, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, kind, code)
}

func TestFailuresByKind(t *testing.T) {
	header := func(status int, name, value string) scripted.Step {
		return scripted.Step{Status: status, Text: "no", Headers: map[string]string{name: value, "Date": t0.Format(http.TimeFormat)}}
	}
	raw := func(status int, body string) scripted.Step { return scripted.Step{Status: status, Raw: body} }
	const second = time.Second
	for _, tc := range []struct {
		name string
		step scripted.Step
		want llm.FailureKind
		wait time.Duration
		// said is part of the error's text.
		said string
		// once says that the second model is not asked.
		once bool
	}{
		{name: "too many requests", step: scripted.Step{Status: 429, Text: "slow down"}, want: llm.RateLimited, said: "HTTP status 429: slow down"},
		{name: "a wait in seconds", step: header(429, "Retry-After", "17"), want: llm.RateLimited, wait: 17 * second},
		{name: "a wait until a date", step: header(429, "Retry-After", t0.Add(90*second).Format(http.TimeFormat)), want: llm.RateLimited, wait: 90 * second},
		{name: "a wait in milliseconds", step: header(429, "Retry-After-Ms", "2500"), want: llm.RateLimited, wait: 2500 * time.Millisecond},
		{name: "a wait in the text", step: raw(429, errorBody("tokens", "rate_limit_exceeded", "Rate limit reached for m. Please try again in 12s.")), want: llm.RateLimited, wait: 12 * second},
		{name: "an overloaded server with a wait", step: header(503, "Retry-After", "5"), want: llm.Overloaded, wait: 5 * second},
		{name: "no wait for a bad request", step: header(400, "Retry-After", "5"), want: llm.BadRequest},
		{name: "a server out of order", step: scripted.Step{Status: 500, Text: "internal error"}, want: llm.Overloaded, said: "internal error"},
		{name: "a bad gateway that is no API", step: raw(502, "<html>Bad Gateway</html>"), want: llm.Overloaded, said: "Bad Gateway"},
		{name: "a gateway's timeout", step: raw(504, ""), want: llm.Overloaded, said: "HTTP status 504"},
		{name: "an overloaded model of Anthropic's", step: raw(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), want: llm.Overloaded},
		{name: "a proxy's error with status 200", step: raw(200, `{"error":{"message":"provider is down","code":502}}`), want: llm.Overloaded, said: "provider is down"},
		{name: "a proxy's refusal with status 200", step: raw(200, `{"error":{"message":"no credit","code":402}}`), want: llm.NoFunds, once: true},
		{name: "a refused key", step: scripted.Step{Status: 401, Text: "Incorrect API key provided: " + key}, want: llm.KeyRefused, said: "provided: [redacted]", once: true},
		{name: "a forbidden call", step: raw(403, "denied"), want: llm.KeyRefused, said: "denied", once: true},
		{name: "a key that Gemini refuses", step: raw(400, `[{"error":{"code":400,"message":"API key not valid. Please pass one.","status":"INVALID_ARGUMENT"}}]`), want: llm.KeyRefused, once: true},
		{name: "no funds, with the status of a rate limit", step: raw(429, errorBody("insufficient_quota", "insufficient_quota", "You exceeded your current quota")), want: llm.NoFunds, once: true},
		{name: "payment required", step: raw(402, errorBody("", "", "Insufficient Balance")), want: llm.NoFunds, once: true},
		{name: "a billing limit", step: raw(400, errorBody("invalid_request_error", "billing_hard_limit_reached", "limit")), want: llm.NoFunds, once: true},
		{name: "a balance, told in words alone", step: raw(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`), want: llm.NoFunds, once: true},
		{name: "an unknown model", step: raw(404, errorBody("invalid_request_error", "model_not_found", "The model x does not exist")), want: llm.UnknownModel},
		{name: "an unknown model with another status", step: raw(400, errorBody("invalid_request_error", "model_not_found", "no")), want: llm.UnknownModel},
		{name: "an unknown model without a code", step: raw(404, `{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`), want: llm.UnknownModel},
		{name: "an unknown model of an older vLLM", step: raw(404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","code":404}`), want: llm.UnknownModel, said: "does not exist"},
		{name: "an unknown deployment at Azure", step: raw(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist."}}`), want: llm.UnknownModel},
		{name: "an unknown model at Mistral", step: raw(400, `{"object":"error","message":"Invalid model: m","type":"invalid_model","param":null,"code":"1500"}`), want: llm.UnknownModel},
		{name: "a path that nobody serves", step: raw(404, "404 page not found"), want: llm.Misdirected, once: true},
		{name: "a path that another API does not serve", step: raw(404, `{"detail":"Not Found"}`), want: llm.Misdirected, said: "404: Not Found", once: true},
		{name: "a filtered prompt at Azure", step: raw(400, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`), want: llm.ContentFiltered},
		{name: "a filtered prompt, by the inner code", step: raw(400, `{"error":{"message":"no","code":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`), want: llm.ContentFiltered},
		{name: "a prompt that OpenRouter's moderation flagged", step: raw(403, `{"error":{"message":"m requires moderation on P. Your input was flagged for x","code":403}}`), want: llm.ContentFiltered},
		{name: "a filtered answer", step: scripted.Step{Text: "The", Finish: "content_filter"}, want: llm.ContentFiltered},
		{name: "a model that declines", step: raw(200, `{"choices":[{"message":{"role":"assistant","content":null,"refusal":"I cannot help"},"finish_reason":"stop"}]}`), want: llm.ContentFiltered, said: "I cannot help"},
		{name: "no tools at Ollama", step: raw(400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`), want: llm.NoTools},
		{name: "no tools at vLLM", step: raw(400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`), want: llm.NoTools},
		{name: "no tools at llama.cpp", step: raw(500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`), want: llm.NoTools},
		{name: "no tools at OpenRouter", step: raw(404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`), want: llm.NoTools},
		{name: "too long a request", step: raw(400, errorBody("invalid_request_error", "context_length_exceeded", "too long")), want: llm.TooLong},
		{name: "too long a request at vLLM", step: raw(400, `{"object":"error","message":"This model's maximum context length is 2048 tokens.","type":"BadRequestError","code":400}`), want: llm.TooLong},
		{name: "too large a request for its rate limit", step: raw(413, errorBody("tokens", "rate_limit_exceeded", "Request too large")), want: llm.TooLong},
		{name: "another bad request", step: raw(422, `{"detail":[{"loc":["body","tools"],"msg":"field required"}]}`), want: llm.BadRequest, said: "field required"},
		{name: "a redirect", step: scripted.Step{Status: 307, Raw: " ", Headers: map[string]string{"Location": "https://elsewhere.example/v1"}}, want: llm.Misdirected, said: "leads to https://elsewhere.example/v1", once: true},
		{name: "a web page", step: raw(200, "\n<!DOCTYPE html><title>Sign in</title>"), want: llm.Misdirected, said: "a web page", once: true},
		{name: "a stream that nobody asked for", step: scripted.Step{Raw: "data: {\"choices\":[]}\n\n", Headers: map[string]string{"Content-Type": "text/event-stream"}}, want: llm.Unreadable, said: "not of the API's form"},
		{name: "JSON that breaks off", step: raw(200, `{"choices":[{"message":{"content":"he`), want: llm.Unreadable},
		{name: "nothing at all", step: raw(200, " "), want: llm.Unreadable},
		{name: "JSON of another form", step: raw(200, `{"choices":[{"message":{"content":42}}]}`), want: llm.Unreadable},
		{name: "arguments that are no string", step: raw(200, `{"choices":[{"message":{"tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":{}}}]}}]}`), want: llm.Unreadable},
		{name: "too long an answer", step: scripted.Step{Text: strings.Repeat("x", 2<<20)}, want: llm.Unreadable, said: "longer than 1048576 bytes"},
		{name: "an answer without end", step: scripted.Step{Serve: endless(200)}, want: llm.Unreadable, said: "longer than"},
		{name: "an error without end", step: scripted.Step{Serve: endless(500)}, want: llm.Overloaded, said: "xxx…"},
		{name: "an answer that breaks off", step: scripted.Step{Serve: breakOff}, want: llm.Overloaded},
		{name: "no choices", step: raw(200, `{"choices":[],"usage":{"prompt_tokens":5}}`), want: llm.Empty, said: "no choice"},
		{name: "no answer", step: raw(200, `{}`), want: llm.Empty, said: "no choice"},
		{name: "an empty message", step: scripted.Step{Text: " \n"}, want: llm.Empty, said: "neither text nor calls"},
		{name: "calls announced and not made", step: scripted.Step{Finish: "tool_calls"}, want: llm.Empty},
		{name: "all thought and no answer", step: scripted.Step{Cut: true}, want: llm.CutOff},
		{name: "a model of Groq's that calls no tools", step: raw(400, errorBody("invalid_request_error", "", "`tool calling` is not supported with this model")), want: llm.NoTools},
		{name: "calls that a server does not know", step: raw(501, "not implemented"), want: llm.BadRequest},
		{name: "a model that DeepSeek has not", step: raw(400, errorBody("invalid_request_error", "invalid_request_error", "Model Not Exist")), want: llm.UnknownModel},
		{name: "a model that OpenRouter has not", step: raw(400, `{"error":{"message":"m1 is not a valid model ID","code":400}}`), want: llm.UnknownModel},
		{name: "a model that LiteLLM has not", step: raw(400, errorBody("", "400", "Invalid model name passed in model=m1")), want: llm.UnknownModel},
		{name: "Azure's filter without its code", step: raw(400, errorBody("", "", "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.")), want: llm.ContentFiltered},
		{name: "an account that is not paid for", step: raw(429, errorBody("billing_not_active", "billing_not_active", "Your account is not active")), want: llm.NoFunds, once: true},
		{name: "an account that was closed", step: raw(400, errorBody("", "account_deactivated", "The account was closed")), want: llm.KeyRefused, once: true},
		{name: "a rate limit with another status", step: raw(403, errorBody("", "rate_limit_exceeded", "slow down")), want: llm.RateLimited},
		{name: "a status that means nothing", step: raw(600, "?"), want: llm.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			failure, script := failing(t, tc.step)
			if failure.Kind != tc.want || failure.Wait != tc.wait || !strings.Contains(failure.Error(), tc.said) {
				t.Errorf("got %s, wait %s: %s\nwant %s, wait %s: … %s …", failure.Kind, failure.Wait, failure, tc.want, tc.wait, tc.said)
			}
			if want := map[bool]int{true: 1, false: 2}[tc.once]; len(script.Requests()) != want || strings.Count(failure.Error(), "model m") != want {
				t.Errorf("%d models were asked, want %d: %s", len(script.Requests()), want, failure)
			}
			if strings.Contains(failure.Error(), key) || len(failure.Error()) > 1400 {
				t.Errorf("the error holds the key or is too long: %s", failure)
			}
		})
	}
}

// failing asks two models that fail alike.
func failing(t *testing.T, step scripted.Step) (*llm.Failure, *scripted.Server) {
	t.Helper()
	script := scripted.New(step, step)
	server := httptest.NewServer(script)
	t.Cleanup(server.Close)
	_, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL + "/v1", APIKey: key, Models: []string{"m1", "m2"},
		HTTPClient: server.Client(), Clock: testclock.NewFakePassiveClock(t0)}).Complete(t.Context(), ask("hello"))
	var failure *llm.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %v", err)
	}
	return failure, script
}

func endless(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("x", 4096))); err != nil {
				return
			}
		}
	}
}

func breakOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"choices":[`))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func TestWhatNeverAnswers(t *testing.T) {
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	slow := httptest.NewServer(scripted.New(scripted.Step{Delay: time.Minute}, scripted.Step{Delay: time.Minute}))
	defer slow.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	guarded := probe.Guard{}.Transport()
	impatient := &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}
	for _, tc := range []struct {
		name, endpoint string
		want           llm.FailureKind
		said           string
		asked          int
		transport      http.RoundTripper
	}{
		{"a refused connection", refused.URL, llm.Unreachable, "refused", 1, nil},
		{"a name that nobody has", "http://no-such-host.invalid/v1", llm.Unreachable, "no-such-host.invalid", 1, nil},
		{"a connection that takes too long", plain.URL, llm.Unreachable, "timeout", 1, impatient},
		{"a slow model", slow.URL, llm.TimedOut, "Timeout", 2, nil},
		{"another certificate", secure.URL, llm.Misdirected, "certificate", 1, nil},
		{"no TLS where it is expected", strings.Replace(plain.URL, "http:", "https:", 1), llm.Misdirected, "HTTP response to HTTPS client", 1, nil},
		{"an address that the dialer refuses", plain.URL, llm.Misdirected, "is not allowed", 1, guarded},
		{"no address", "http://[", llm.Unknown, "parse", 2, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patience := time.Minute
			if tc.want == llm.TimedOut {
				patience = time.Second
			}
			_, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: tc.endpoint, Models: []string{"m1", "m2"},
				HTTPClient: &http.Client{Timeout: patience, Transport: tc.transport}}).Complete(t.Context(), ask("hello"))
			var failure *llm.Failure
			if !errors.As(err, &failure) || failure.Kind != tc.want || !strings.Contains(err.Error(), tc.said) || strings.Count(err.Error(), "model m") != tc.asked {
				t.Errorf("got %v, want %s with %q of %d models", err, tc.want, tc.said, tc.asked)
			}
		})
	}
}

// The best that can be done about several failures is what may pass by itself; else the preferred model is to be mended.
func TestSeveralFailuresComeToOne(t *testing.T) {
	limit := func(wait string) scripted.Step {
		return scripted.Step{Status: 429, Text: "limit", Headers: map[string]string{"Retry-After": wait}}
	}
	unknown, filtered := scripted.Step{Status: 404, Text: "no such model"}, scripted.Step{Text: "x", Finish: "content_filter"}
	for _, tc := range []struct {
		name  string
		steps []scripted.Step
		want  llm.FailureKind
		wait  time.Duration
	}{
		{"the first of those that need a change", []scripted.Step{unknown, filtered, unknown}, llm.UnknownModel, 0},
		{"one that may pass counts more", []scripted.Step{unknown, limit("20"), filtered}, llm.RateLimited, 20 * time.Second},
		{"the shortest wait counts", []scripted.Step{limit("200"), limit("20"), limit("60")}, llm.RateLimited, 20 * time.Second},
		{"the wait of another failure is no matter", []scripted.Step{limit("60"), {Status: 503, Text: "busy", Headers: map[string]string{"Retry-After": "5"}}, unknown}, llm.RateLimited, time.Minute},
		{"a wait that is not stated is none", []scripted.Step{{Status: 429, Text: "limit"}, limit("20"), unknown}, llm.RateLimited, 20 * time.Second},
		{"the next model cannot help", []scripted.Step{limit("20"), {Status: 401, Text: "no"}}, llm.RateLimited, 20 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chat, script := start(t, []string{"m1", "m2", "m3"}, tc.steps...)
			_, err := chat.Complete(t.Context(), ask("hello"))
			var failure *llm.Failure
			if !errors.As(err, &failure) || failure.Kind != tc.want || failure.Wait != tc.wait || len(script.Requests()) != len(tc.steps) {
				t.Errorf("got %v (%+v) of %d models", err, failure, len(script.Requests()))
			}
		})
	}
}

func TestTheFailuresOfManyModelsAreToldInOneShortLine(t *testing.T) {
	models, steps := []string{}, []scripted.Step{}
	for i := range 20 {
		models = append(models, fmt.Sprintf("m%d", i))
		steps = append(steps, scripted.Step{Status: 500, Text: strings.Repeat("sorry ", 100)})
	}
	chat, script := start(t, models, steps...)
	_, err := chat.Complete(t.Context(), ask("hello"))
	if err == nil || len(err.Error()) > 1400 || !strings.HasPrefix(err.Error(), "model m0: HTTP status 500") || len(script.Requests()) != len(models) {
		t.Errorf("got %v of %d models", err, len(script.Requests()))
	}
}

func TestAnAnswerThatCannotBeUsedIsPaidForAllTheSame(t *testing.T) {
	chat, _ := start(t, []string{"m1", "m2", "m3"}, scripted.Step{Usage: llm.Usage{Prompt: 100, Completion: 50}, Cut: true},
		scripted.Step{Text: "x", Finish: "content_filter", Usage: llm.Usage{Prompt: 10, Completion: 5}}, scripted.Step{Text: "ok", Usage: llm.Usage{Prompt: 1, Completion: 2}})
	got, err := chat.Complete(t.Context(), ask("hello"))
	if err != nil || got.Usage != (llm.Usage{Prompt: 111, Completion: 57}) {
		t.Errorf("three answers cost %+v, %v", got.Usage, err)
	}
	chat, _ = start(t, []string{"m1"}, scripted.Step{Usage: llm.Usage{Prompt: 100, Completion: 50}})
	if got, err = chat.Complete(t.Context(), ask("hello")); err == nil || got.Usage != (llm.Usage{Prompt: 100, Completion: 50}) {
		t.Errorf("an empty answer cost %+v, %v", got.Usage, err)
	}
}

func TestOddAnswersThatCanBeUsed(t *testing.T) {
	for _, tc := range []struct {
		name string
		step scripted.Step
		want llm.Message
	}{
		{"another content type", scripted.Step{Raw: `{"choices":[{"message":{"content":"hi"}}]}`, Headers: map[string]string{"Content-Type": "text/html"}}, llm.Message{Content: "hi"}},
		{"text in parts", scripted.Step{Raw: `{"choices":[{"message":{"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}}]}`}, llm.Message{Content: "hi"}},
		{"bytes that are no UTF-8", scripted.Step{Raw: "{\"choices\":[{\"message\":{\"content\":\"h\xffi\"}}]}"}, llm.Message{Content: "h\uFFFDi"}},
		{"an error beside the choices", scripted.Step{Raw: `{"error":null,"choices":[{"message":{"content":"hi"}}]}`}, llm.Message{Content: "hi"}},
		{"a text that is cut", scripted.Step{Text: "hi", Cut: true}, llm.Message{Content: "hi"}},
		{"several calls, unknown, without id, name or JSON", scripted.Step{Text: "hi", ToolCalls: []llm.ToolCall{{Name: "nonsense"}, {ID: "1", Arguments: "{"}}},
			llm.Message{Content: "hi", ToolCalls: []llm.ToolCall{{Name: "nonsense"}, {ID: "1", Arguments: "{"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chat, _ := start(t, []string{"m"}, tc.step)
			got, err := chat.Complete(t.Context(), ask("hello"))
			if err != nil || got.Message.Content != tc.want.Content || fmt.Sprint(got.Message.ToolCalls) != fmt.Sprint(tc.want.ToolCalls) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// An endpoint may send back the key that it got, in any form that its errors have.
func TestAKeyWithBlanksIsHiddenToo(t *testing.T) {
	const key = "pass  word  with  blanks"
	server := httptest.NewServer(scripted.New(scripted.Step{Status: 401, Text: "who is " + key}))
	defer server.Close()
	_, err := llm.NewOpenAI(llm.OpenAIOptions{Endpoint: server.URL, APIKey: key, Models: []string{"m"}}).Complete(t.Context(), ask("hello"))
	if err == nil || strings.Contains(err.Error(), "with") {
		t.Errorf("got %v", err)
	}
}

// The end of what is read of a long answer may halve a secret. However much of what stands before goes, it is not kept.
func TestTheEndOfALongAnswerIsNotKept(t *testing.T) {
	secret := "ghp" + "_" + strings.Repeat("a1B2", 9)
	for name, vanishes := range map[string]string{"nothing that shows": "\u200b", "the key": key + " ", "blanks": " "} {
		for shown := range len(secret) {
			const read = 64 << 10
			before := strings.Repeat(vanishes, (read-shown)/len(vanishes))
			before = strings.Repeat(" ", read-shown-len(before)) + before
			failure, _ := failing(t, scripted.Step{Status: 500, Raw: before + secret + strings.Repeat(" tail", 1000)})
			if strings.Contains(failure.Error(), "a1B2") {
				t.Fatalf("%s, %d characters read: %s", name, shown, failure)
			}
		}
	}
}

func TestNoFailureHoldsTheKey(t *testing.T) {
	hidden := strings.Join(strings.Split(key, ""), "\u200b")
	for name, body := range map[string]string{
		"in OpenAI's form":               errorBody("", "", "key "+key+" refused"),
		"as plain text":                  "who is Bearer " + key,
		"as a code":                      errorBody(key, key, ""),
		"between what is not shown":      errorBody("", "", "key "+hidden+" refused"),
		"between bytes that are no text": strings.Join(strings.Split(key, ""), "\xff"),
		"at the end of the text":         errorBody("", "", strings.Repeat(key, 10_000)),
	} {
		for _, status := range []int{200, 401, 500} {
			failure, _ := failing(t, scripted.Step{Status: status, Raw: body})
			if strings.Contains(strings.ReplaceAll(failure.Error(), "\u200b", ""), key) {
				t.Errorf("%s, with status %d: %s", name, status, failure)
			}
		}
	}
}
