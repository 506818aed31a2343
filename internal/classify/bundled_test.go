package classify

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify/fingerprint"
)

// testNow is when the reports of the tests arrive.
var testNow = time.Date(2026, 6, 17, 8, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func texts(all ...string) []v1alpha1.MatchText {
	var out []v1alpha1.MatchText
	for _, s := range all {
		out = append(out, v1alpha1.MatchText(s))
	}
	return out
}

func subs(all ...string) []v1alpha1.Substring {
	var out []v1alpha1.Substring
	for _, s := range all {
		out = append(out, v1alpha1.Substring(s))
	}
	return out
}

// compiled are the rules of layers in which nothing is wrong.
func compiled(t testing.TB, layers ...Layer) *Rules {
	t.Helper()
	rules, problems := Compile(layers...)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return rules
}

// specified are the ids of the specification's table, in its order.
var specified = []string{
	"http-401-expired-token", "http-401-generic", "http-403", "http-404-endpoint", "http-429", "http-5xx", "socket-timeout",
	"connect-refused", "schema-violation", "manual-read-not-found", "tool-exception-generic", "fallback",
}

// TestBundledRulesOfTheSpecification pins the table of §4.2 row by row: a report that hits each rule, and all
// that the rule says.
func TestBundledRulesOfTheSpecification(t *testing.T) {
	const (
		none = v1alpha1.HealthActionNone
		down = v1alpha1.HealthActionMarkUnavailable
	)
	table := []struct {
		report v1alpha1.ToolError
		want   Verdict
		locked bool
	}{
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](401), Body: `{"error":"token_expired"}`},
			want: Verdict{RuleID: "http-401-expired-token", Signature: "http-401-expired", Class: v1alpha1.UserSpecificTechnical,
				Wait: 24 * time.Hour, Action: none, Note: "Refresh token path is tool-specific; manual user hint."},
			locked: true,
		},
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](401), Body: "Unauthorized"},
			want:   Verdict{RuleID: "http-401-generic", Signature: "http-401", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](403)},
			want: Verdict{RuleID: "http-403", Signature: "http-403", Class: v1alpha1.UserPermission,
				Wait: 24 * time.Hour, Action: none},
			locked: true,
		},
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](404)},
			want:   Verdict{RuleID: "http-404-endpoint", Signature: "http-404", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](429), Headers: map[string]v1alpha1.HeaderValue{"Retry-After": "90"}},
			want: Verdict{RuleID: "http-429", Signature: "http-429", Class: v1alpha1.Intermittent,
				Wait: 90 * time.Second, Stated: true, Action: none},
			locked: true,
		},
		{
			report: v1alpha1.ToolError{HTTPStatus: ptr[int32](503)},
			want:   Verdict{RuleID: "http-5xx", Signature: "http-5xx", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{ExceptionTypes: texts("java.net.SocketTimeoutException")},
			want:   Verdict{RuleID: "socket-timeout", Signature: "timeout", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{ExceptionTypes: texts("java.net.ConnectException")},
			want: Verdict{RuleID: "connect-refused", Signature: "connect-refused", Class: v1alpha1.TechnicallyBroken,
				Wait: 5 * time.Minute, Action: down},
			locked: true,
		},
		{
			report: v1alpha1.ToolError{ExceptionTypes: texts("SchemaViolation")},
			want:   Verdict{RuleID: "schema-violation", Signature: "schema-violation", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{ExceptionTypes: texts("ToolException"), Message: "Manual not found: 'doc-kind-calendar'"},
			want: Verdict{RuleID: "manual-read-not-found", Signature: "manual-not-found", Class: v1alpha1.UserInput,
				Wait: 5 * time.Minute, Action: none},
			locked: true,
		},
		{
			report: v1alpha1.ToolError{ExceptionTypes: texts("ToolException"), Message: "no idea"},
			want:   Verdict{RuleID: "tool-exception-generic", Signature: "tool-exception", Class: v1alpha1.Unclear, Action: none},
		},
		{
			report: v1alpha1.ToolError{Message: "it hurts"},
			want:   Verdict{RuleID: "fallback", Signature: "unclassified", Class: v1alpha1.Unclear, Action: none},
			locked: true,
		},
	}
	rules := compiled(t, Bundled())
	position, last := map[string]int{}, -1
	locked := map[string]bool{}
	for i, entry := range rules.Entries() {
		position[string(entry.Pattern.ID)] = i
		locked[string(entry.Pattern.ID)] = entry.Pattern.Locked
	}
	for _, tc := range table {
		t.Run(tc.want.RuleID, func(t *testing.T) {
			got := rules.Classify(Call{Tool: "tool"}, &tc.report, testNow)
			got.Signature = plain(got.Signature)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if locked[tc.want.RuleID] != tc.locked {
				t.Errorf("locked = %v, want %v", locked[tc.want.RuleID], tc.locked)
			}
			at, ok := position[tc.want.RuleID]
			if !ok || at <= last {
				t.Errorf("position %d (found: %v) is not behind that of the row before, %d", at, ok, last)
			}
			last = at
		})
	}
	if last != len(rules.Entries())-1 {
		t.Errorf("fallback is entry %d of %d, want the last", last, len(rules.Entries()))
	}
}

// TestBundledRulesSayWhy: each rule that the specification does not have names its reference, and only what is
// broken for everybody takes a tool down.
func TestBundledRulesSayWhy(t *testing.T) {
	for _, entry := range compiled(t, Bundled()).Entries() {
		p := entry.Pattern
		if p.Note == "" && !slices.Contains(specified, string(p.ID)) {
			t.Errorf("%s has no note", p.ID)
		}
		if p.HealthAction == v1alpha1.HealthActionMarkUnavailable && p.Classification != v1alpha1.TechnicallyBroken {
			t.Errorf("%s takes the tool down for %s", p.ID, p.Classification)
		}
	}
}

// TestOneFailureInFourLanguages: the same failure has the same signature whoever reports it, and what merely looks
// like a refused connection is never DOWN.
func TestOneFailureInFourLanguages(t *testing.T) {
	type report = v1alpha1.ToolError
	cases := map[v1alpha1.ErrorSignature]map[string]report{
		"connect-refused": {
			"Java, refused":            {ExceptionTypes: texts("java.net.ConnectException")},
			"Java, simple name":        {ExceptionTypes: texts("ConnectException"), Message: "Connection refused"},
			"Java, unresolved cause":   {ExceptionTypes: texts("org.springframework.web.client.ResourceAccessException", "java.net.UnknownHostException")},
			"Go, unresolved":           {ExceptionTypes: texts("*net.DNSError"), Message: "dial tcp: lookup tool.example.com: no such host"},
			"Go, refused":              {ExceptionTypes: texts("*net.OpError"), Message: "dial tcp 10.0.0.20:8080: connect: connection refused"},
			"Go, refused, whole chain": {ExceptionTypes: texts("*url.Error", "*net.OpError", "*os.SyscallError", "syscall.Errno"), Message: `Post "http://t": dial tcp 10.0.0.20:80: connect: connection refused`},
			"Node, refused by code":    {ExceptionTypes: texts("TypeError"), Message: "fetch failed", ErrorCode: "ECONNREFUSED"},
			"Node, refused by message": {ExceptionTypes: texts("TypeError"), Message: "fetch failed: connect ECONNREFUSED 127.0.0.1:80"},
			"Node, only the code":      {ErrorCode: "ECONNREFUSED"},
			"Node, unresolved":         {ExceptionTypes: texts("Error"), Message: "getaddrinfo ENOTFOUND tool.example.com", ErrorCode: "ENOTFOUND"},
			"Python, refused":          {ExceptionTypes: texts("builtins.ConnectionRefusedError")},
			"Python, unresolved":       {ExceptionTypes: texts("socket.gaierror"), Message: "[Errno -2] Name or service not known"},
			"Python, httpx":            {ExceptionTypes: texts("httpx.ConnectError"), Message: "All connection attempts failed"},
			"Python, requests":         {ExceptionTypes: texts("requests.exceptions.ConnectionError"), Message: "Max retries exceeded (Caused by NewConnectionError('[Errno 111] Connection refused'))"},
			"Rust":                     {ExceptionTypes: texts("reqwest::Error"), Message: "tcp connect error: Connection refused (os error 111)"},
			"Python, aiohttp":          {ExceptionTypes: texts("aiohttp.client_exceptions.ClientConnectorError", "ConnectionRefusedError")},
		},
		"timeout": {
			"Java, socket":                       {ExceptionTypes: texts("java.net.SocketTimeoutException")},
			"Java, reactor":                      {ExceptionTypes: texts("java.util.concurrent.TimeoutException")},
			"Java, connect with a refused cause": {ExceptionTypes: texts("java.net.http.HttpConnectTimeoutException", "java.net.ConnectException")},
			"Java, kernel gave up":               {ExceptionTypes: texts("java.net.ConnectException"), Message: "Connection timed out"},
			"Go, context":                        {ExceptionTypes: texts("context.deadlineExceededError")},
			"Go, client":                         {ExceptionTypes: texts("*url.Error"), Message: "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"},
			"Go, lookup":                         {ExceptionTypes: texts("*net.DNSError"), Message: "lookup tool.example.com: i/o timeout"},
			"Node, errno":                        {ExceptionTypes: texts("Error"), ErrorCode: "ETIMEDOUT"},
			"Node, fetch":                        {ExceptionTypes: texts("TypeError"), Message: "fetch failed", ErrorCode: "UND_ERR_CONNECT_TIMEOUT"},
			"Node, cause":                        {ExceptionTypes: texts("TypeError", "HeadersTimeoutError")},
			"Python, builtin":                    {ExceptionTypes: texts("TimeoutError")},
			"Python, requests":                   {ExceptionTypes: texts("requests.exceptions.ReadTimeout")},
			"Python, httpx":                      {ExceptionTypes: texts("httpx.ConnectTimeout")},
		},
		"resolver-failed": {
			"Java":                {ExceptionTypes: texts("java.net.UnknownHostException"), Message: "t: Temporary failure in name resolution"},
			"Go":                  {ExceptionTypes: texts("*net.DNSError"), Message: "lookup t on 10.0.0.10:53: server misbehaving"},
			"Node, only the code": {ErrorCode: "EAI_AGAIN"},
			"Node":                {ExceptionTypes: texts("TypeError"), Message: "fetch failed: getaddrinfo EAI_AGAIN t"},
			"Python":              {ExceptionTypes: texts("gaierror"), Message: "[Errno -3] Temporary failure in name resolution"},
		},
		"upstream-unreachable": {
			"a tool's own answer":          {HTTPStatus: ptr[int32](200), ErrorCode: "ECONNREFUSED", Body: `{"error":{"code":"ECONNREFUSED"}}`},
			"a code beside a status":       {HTTPStatus: ptr[int32](400), ErrorCode: "ECONNREFUSED"},
			"a tool's error with the code": {ExceptionTypes: texts("McpError"), ErrorCode: "-32603", Message: "connect ECONNREFUSED 10.0.0.5:5432"},
			"words in an answer":           {HTTPStatus: ptr[int32](200), ExceptionTypes: texts("TypeError"), Body: "connect ECONNREFUSED 10.0.0.5:5432"},
		},
		"connection-lost": {
			"Python, aborted": {ExceptionTypes: texts("requests.exceptions.ConnectionError"), Message: "Connection aborted."},
			"Go, reset":       {ExceptionTypes: texts("*net.OpError"), Message: "read: connection reset by peer"},
		},
		"tls-untrusted": {
			"httpx": {ExceptionTypes: texts("httpx.ConnectError"), Message: "[SSL: CERTIFICATE_VERIFY_FAILED]"},
			"Go":    {ExceptionTypes: texts("*url.Error"), Message: "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
			"Node":  {ExceptionTypes: texts("TypeError"), Message: "fetch failed", ErrorCode: "CERT_HAS_EXPIRED"},
			"Java":  {ExceptionTypes: texts("javax.net.ssl.SSLHandshakeException", "sun.security.validator.ValidatorException")},
		},
		"schema-violation": {
			"by type": {ExceptionTypes: texts("de.example.SchemaViolation")},
			"by code": {ErrorCode: "SchemaViolation"},
			"by word": {ErrorCode: "schema-violation"},
		},
		"unclassified": {
			"Node, cause lost":           {ExceptionTypes: texts("TypeError"), Message: "fetch failed"},
			"another ConnectError":       {ExceptionTypes: texts("ConnectError"), Message: "[not_found] no such row"},
			"another ConnectException":   {ExceptionTypes: texts("org.apache.kafka.connect.errors.ConnectException")},
			"a thing that was not found": {ErrorCode: "ENOTFOUND", Message: "package left-pad not found"},
			"only words, from who knows": {Message: "connection refused"},
		},
	}
	rules := compiled(t, Bundled())
	for want, reports := range cases {
		for tc, e := range reports {
			t.Run(string(want)+"/"+tc, func(t *testing.T) {
				got := rules.Classify(Call{Tool: "tool"}, &e, testNow)
				if plain(got.Signature) != want {
					t.Errorf("signature %s by rule %s, want %s", got.Signature, got.RuleID, want)
				}
				if down := got.Class == v1alpha1.TechnicallyBroken; down != (want == "connect-refused" || want == "tls-untrusted") {
					t.Errorf("class %s", got.Class)
				}
			})
		}
	}
}

// plain is a signature without its fingerprint.
func plain(signature v1alpha1.ErrorSignature) v1alpha1.ErrorSignature {
	for _, generic := range []v1alpha1.ErrorSignature{"unclassified", "tool-exception"} {
		if strings.HasPrefix(string(signature), string(generic)+"-") && len(signature) == len(generic)+1+fingerprint.Length {
			return generic
		}
	}
	return signature
}

func TestTheGenericRulesTellFailuresApart(t *testing.T) {
	rules := compiled(t, Bundled())
	signature := func(message string) v1alpha1.ErrorSignature {
		return rules.Classify(Call{Tool: "tool"}, &v1alpha1.ToolError{Message: message}, testNow).Signature
	}
	first := signature("worker 17 gave up on job 4711")
	if again := signature("worker 3 gave up on job 12"); again != first {
		t.Errorf("one failure has the signatures %s and %s", first, again)
	}
	if other := signature("the printer is on fire"); other == first || plain(other) != plain(first) {
		t.Errorf("two failures have the signatures %s and %s", first, other)
	}
}

func TestBundledIsNotTheCallersToChange(t *testing.T) {
	Bundled().Entries[0] = Entry{}
	if got := Bundled().Entries[0].Pattern.ID; got == "" {
		t.Errorf("first bundled rule is %q after a caller changed its copy", got)
	}
}

// transportExceptions are the rules of the transport section that decide inside an answer too.
var transportExceptions = map[string]string{
	"pool-exhausted":         "a full pool passes, wherever it is",
	"pool-exhausted-servers": "as pool-exhausted",
	"pool-exhausted-waited":  "as pool-exhausted",
	"pool-exhausted-type":    "as pool-exhausted",
	"pool-exhausted-code":    "as pool-exhausted",
}

// envelopes are the ways in which a report shows that something answered. Each puts a text into an answer.
var envelopes = map[string]func(e v1alpha1.ToolError, text string) v1alpha1.ToolError{
	"a status": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.HTTPStatus, e.Body = ptr[int32](200), text
		return e
	},
	"a status, and the text as message": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.HTTPStatus, e.Message = ptr[int32](404), text
		return e
	},
	"a JSON-RPC message": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Body = `{"jsonrpc":"2.0","error":{"message":` + quoted(text) + `}}`
		return e
	},
	"a tool's result": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Body = `{"result":{"isError":true,"content":[{"text":` + quoted(text) + `}]}}`
		return e
	},
	"a bare result": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Body = `{"isError":true,"content":[{"text":` + quoted(text) + `}]}`
		return e
	},
	"an SDK's message": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Message = "MCP error -32050: " + text
		return e
	},
	"an SDK's message beside a body": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Message, e.Body = "MCP error -32603: failed", text
		return e
	},
	"an SDK's text in the body": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		e.Body = "MCP error -32050: " + text
		return e
	},
	"a JSON-RPC code": func(e v1alpha1.ToolError, text string) v1alpha1.ToolError {
		if e.ErrorCode == "" {
			e.ErrorCode, e.Message = "-32077", text
		} else {
			e.Message = "MCP error -32077: " + text
		}
		return e
	},
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // Every string can be written as JSON.
	}
	return string(out)
}

// transportRules are the definite rules between the first about TLS and the databases.
func transportRules(t *testing.T) []v1alpha1.ErrorPattern {
	t.Helper()
	var out []v1alpha1.ErrorPattern
	inside := false
	for _, entry := range compiled(t, Bundled()).Entries() {
		p := entry.Pattern
		switch p.ID {
		case "tls-own-certificate":
			inside = true
		case "sql-own-tables":
			return out
		}
		if inside && p.Classification != v1alpha1.Unclear && transportExceptions[string(p.ID)] == "" {
			out = append(out, p)
		}
	}
	t.Fatal("the rules of the transport have no end")
	return nil
}

// reportsOf are reports that have what a rule asks for, for each of its types, codes and texts; the caller puts
// the text into an answer.
func reportsOf(p v1alpha1.ErrorPattern) map[string]v1alpha1.ToolError {
	m := p.Match
	types, codes, words := m.ExceptionType, append([]string{m.ErrorCode}, m.ErrorCodeIn...), slices.Concat(m.BodyContains, m.MessageContains)
	if len(types) == 0 {
		types = texts("")
	}
	if len(words) == 0 {
		words = subs("failed")
	}
	out := map[string]v1alpha1.ToolError{}
	for _, typeName := range types {
		for _, code := range codes {
			for _, word := range words {
				e := v1alpha1.ToolError{ErrorCode: code, Message: string(word)}
				if typeName != "" {
					e.ExceptionTypes = texts(string(typeName))
				}
				if m.Host == v1alpha1.HostForeign {
					e.Host = "elsewhere.example.org"
				}
				out[string(typeName)+"/"+code+"/"+string(word)] = e
			}
		}
	}
	return out
}

// TestTransportInsideAnAnswerDecidesNothing: whatever type, code or text a rule about the transport decides by, it
// does not where something answered.
func TestTransportInsideAnAnswerDecidesNothing(t *testing.T) {
	rules := compiled(t, Bundled())
	call := Call{Tool: "tool", EndpointHost: "tool.example.com"}
	checked := 0
	for _, p := range transportRules(t) {
		for tc, bare := range reportsOf(p) {
			for name, wrap := range envelopes {
				text := bare.Message
				e := bare
				e.Message = ""
				e = wrap(e, text)
				got := rules.Classify(call, &e, testNow)
				checked++
				if got.Class != v1alpha1.Unclear && got.RuleID != "result-foreign-page" {
					t.Errorf("%s, %s in %s: %s by %s", p.ID, tc, name, got.Class, got.RuleID)
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d reports were tried", checked)
	}
}
