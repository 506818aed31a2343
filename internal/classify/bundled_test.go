package classify

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
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

// compiled are the rules of layers in which nothing is wrong.
func compiled(t testing.TB, layers ...Layer) *Rules {
	t.Helper()
	rules, problems := Compile(layers...)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return rules
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
				Wait: 90 * time.Second, Action: none},
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
			if diff := cmp.Diff(tc.want, rules.Classify("tool", tc.report, testNow)); diff != "" {
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

// TestBundledHelpersBelongToARuleOfTheSpecification: what stands beside the twelve is documented, and stands next
// to the rule of which it is a part.
func TestBundledHelpersBelongToARuleOfTheSpecification(t *testing.T) {
	parts := map[string][]string{}
	for _, entry := range compiled(t, Bundled()).Entries() {
		id := string(entry.Pattern.ID)
		for _, of := range []string{"socket-timeout", "connect-refused", "schema-violation"} {
			if len(id) > len(of) && id[:len(of)+1] == of+"-" {
				parts[of] = append(parts[of], id[len(of)+1:])
				if entry.Pattern.Note == "" {
					t.Errorf("%s has no note", id)
				}
			}
		}
	}
	want := map[string][]string{
		"socket-timeout":   {"wrapped", "errno", "undici"},
		"connect-refused":  {"resolver", "answered", "answered-errno", "wrapped", "errno", "unresolved"},
		"schema-violation": {"code", "word"},
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("helpers (-want +got):\n%s", diff)
	}
	if got := len(Bundled().Entries); got != 12+3+6+2 {
		t.Errorf("%d bundled rules, want the specification's twelve and these", got)
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
			"Java":   {ExceptionTypes: texts("java.net.UnknownHostException"), Message: "t: Temporary failure in name resolution"},
			"Go":     {ExceptionTypes: texts("*net.DNSError"), Message: "lookup t on 10.0.0.10:53: server misbehaving"},
			"Node":   {ExceptionTypes: texts("TypeError"), Message: "fetch failed: getaddrinfo EAI_AGAIN t"},
			"Python": {ExceptionTypes: texts("gaierror"), Message: "[Errno -3] Temporary failure in name resolution"},
		},
		"upstream-unreachable": {
			"a tool's own answer":    {HTTPStatus: ptr[int32](200), ErrorCode: "ECONNREFUSED", Body: `{"error":{"code":"ECONNREFUSED"}}`},
			"a code beside a status": {HTTPStatus: ptr[int32](400), ErrorCode: "ECONNREFUSED"},
			"words in an answer":     {HTTPStatus: ptr[int32](200), ExceptionTypes: texts("TypeError"), Body: "connect ECONNREFUSED 10.0.0.5:5432"},
		},
		"schema-violation": {
			"by type": {ExceptionTypes: texts("de.example.SchemaViolation")},
			"by code": {ErrorCode: "SchemaViolation"},
			"by word": {ErrorCode: "schema-violation"},
		},
		"unclassified": {
			"Go, reset":                    {ExceptionTypes: texts("*net.OpError"), Message: "read: connection reset by peer"},
			"Node, cause lost":             {ExceptionTypes: texts("TypeError"), Message: "fetch failed"},
			"another ConnectError":         {ExceptionTypes: texts("ConnectError"), Message: "[not_found] no such row"},
			"another ConnectException":     {ExceptionTypes: texts("org.apache.kafka.connect.errors.ConnectException")},
			"Python, aborted":              {ExceptionTypes: texts("requests.exceptions.ConnectionError"), Message: "Connection aborted."},
			"httpx, certificate":           {ExceptionTypes: texts("httpx.ConnectError"), Message: "[SSL: CERTIFICATE_VERIFY_FAILED]"},
			"a thing that was not found":   {ErrorCode: "ENOTFOUND", Message: "package left-pad not found"},
			"only words, from who knows":   {Message: "connection refused"},
			"a tool's error with the code": {ExceptionTypes: texts("McpError"), ErrorCode: "-32603", Message: "connect ECONNREFUSED 10.0.0.5:5432"},
		},
	}
	rules := compiled(t, Bundled())
	for want, reports := range cases {
		for tc, e := range reports {
			t.Run(string(want)+"/"+tc, func(t *testing.T) {
				got := rules.Classify("tool", e, testNow)
				if got.Signature != want {
					t.Errorf("signature %s by rule %s, want %s", got.Signature, got.RuleID, want)
				}
				if down := got.Class == v1alpha1.TechnicallyBroken; down != (want == "connect-refused") {
					t.Errorf("class %s", got.Class)
				}
			})
		}
	}
}

func TestBundledIsNotTheCallersToChange(t *testing.T) {
	Bundled().Entries[0] = Entry{}
	if got := Bundled().Entries[0].Pattern.ID; got != "http-401-expired-token" {
		t.Errorf("first bundled rule is %q after a caller changed its copy", got)
	}
}
