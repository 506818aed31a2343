package redact

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Values that look like the real thing are put together here, so that no scanner mistakes this file for a leak.
var (
	jwt    = "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiJhbGljZSJ9" + "." + "c2lnbmF0dXJl"
	github = "ghp" + "_" + strings.Repeat("a1B2", 9)
	openai = "sk" + "-proj-" + strings.Repeat("Zx9", 10)
	aws    = "AKIA" + "IOSFODNN7EXAMPLE"
)

func TestSecretsGo(t *testing.T) {
	for _, tc := range []struct{ name, text, secret string }{
		{"a JSON Web Token", "got " + jwt + " back", jwt},
		{"a vendor's token", "token " + github + " is bad", github},
		{"a key in a sentence", "Incorrect API key provided: " + openai + ".", openai},
		{"an access key", "<AWSAccessKeyId>" + aws + "</AWSAccessKeyId>", aws},
		{"an echoed header", `{"headers":{"Authorization":"Bearer abc123def456ghi"}}`, "abc123def456ghi"},
		{"a password in an address", "dial postgres://bob:hunter2hunter2@db/x", "hunter2hunter2"},
		{"a value whose name tells", `{"client_secret": "correct-horse-battery"}`, "correct-horse-battery"},
		{"a parameter called token", "GET /x?token=Zx81kQpLm22vNw&y=1", "Zx81kQpLm22vNw"},
		{"a key called token", `{"token":"Zx81kQpLm22vNw"}`, "Zx81kQpLm22vNw"},
		{"another scheme behind the header's name", "Authorization: ApiKey Zx81kQpLm22vNw", "Zx81kQpLm22vNw"},
		{"letters alone behind the header's name", "authorization: Bearer abcdefghijklmnopq", "abcdefghijklmnopq"},
		{"a name of the environment", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIbPxRfiCY", "wJalrXUtnFEMIbPxRfiCY"},
		{"a cookie in text", "sent Cookie: session=abcdefgh; path=/", "abcdefgh"},
		{"a signed address", "https://bucket.example.com/x?X-Amz-Signature=fedcba9876543210", "fedcba9876543210"},
		{"a query parameter", "GET /x?access_token=abcdef0123456&y=1", "abcdef0123456"},
		{"a private key", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"},
		{"an encrypted token", "eyJ" + "hbGciOiJkaXIiLCJlbmMi.." + "aXYtaXYtaXYtaXY" + ".Y2lwaGVydGV4dA.dGFn", "Y2lwaGVydGV4dA"},
		{"a ticket of Kerberos", "Negotiate YIIGhgYGKwYBBQUCoIIGejCCBnagDTALBgkq", "YIIGhgYGKwYBBQUCoIIGejCCBnagDTALBgkq"},
		{"a very long token", "Bearer a1" + strings.Repeat("xY3-", 2000) + "end7 was refused", "end7"},
		{"a header without scheme", `Authorization=["3f9a77c01b2d44e8"]`, "3f9a77c01b2d44e8"},
		{"a token in the user's place", "fatal: https://3f9a77c01b2d44e8aa0f1@git.example.com/x denied", "3f9a77c01b2d44e8aa0f1"},
		{"a password with an at", "amqp://svc:p@ss:w0rd@queue:5672", "ss:w0rd"},
		{"JSON in JSON in JSON", `{\\\"api_key\\\":\\\"3f9a77c01b2d44e8\\\"}`, "3f9a77c01b2d44e8"},
		{"a key of an account", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=Zm9vYmFyMTIzNDU2Nzg5MA==;", "Zm9vYmFyMTIzNDU2Nzg5MA"},
		{"a signed address in JSON", `"url":"https:\/\/x.example.com\/f?a=1\u0026sig=AbC%2Fd3fgh"`, "AbC%2Fd3fgh"},
		{"halves joined by a character without width", "token ghp\u200b_" + strings.Repeat("a1B2", 9), strings.Repeat("a1B2", 9)},
		{"halves joined by an invalid byte", "token ghp\xff_" + strings.Repeat("a1B2", 9), strings.Repeat("a1B2", 9)},
		{"beside a placeholder", `{"password":"[redacted]hunter2"}`, "hunter2"},
		{"beside a placeholder with digits", `Cookie: a=[redacted:0a1b2c]; sid=hunter2`, "hunter2"},
		{"escaped JSON in a string", `"{\"password\":\"s3cr3t-s3cr3t\"}"`, "s3cr3t-s3cr3t"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Text(tc.text)
			if strings.Contains(got, tc.secret) {
				t.Errorf("the secret is still in %q", got)
			}
			if !strings.Contains(got, mark) {
				t.Errorf("nothing marks the place in %q", got)
			}
			if again := Text(got); again != got {
				t.Errorf("a second time changes %q to %q", got, again)
			}
		})
	}
}

// Colours of a terminal, fillers and the like may stand within a secret, or between it and its name. Whatever of them is
// dropped later, it must not join what was not known for a secret.
func TestWhatDoesNotShowDividesNoSecret(t *testing.T) {
	dividers := []string{"\x1b[0m", "\x1b[31;1m", "\x1b]0;title\x07", "\x1b", "\x00", "\x01", "\x7f", "\u0080", "\u009b", "\u00ad", "\u034f", "\u061c", "\u180e",
		"\u200b", "\u202e", "\u2065", "\u206a", "\u3164", "\ue000", "\ufe0f", "\ufeff", "\ufffd", "\U000e0041", "\xff", "\xed\xa0\x80", "\u200b\x1b[0m\xff"}
	for _, tc := range []struct{ before, secret string }{{"token ", github}, {"got ", jwt}, {"password=", "correcthorse9"}, {"Authorization: Bearer ", "abc123def456ghi"}} {
		for _, divider := range dividers {
			for at := 1; at < len(tc.secret); at += 5 {
				said := tc.before + tc.secret[:at] + divider + tc.secret[at:] + " was refused"
				for name, got := range map[string]string{
					"as text": Text(said), "as one line": text.Plain(Text(said), 500), "as lines": text.Lines(Text(said), 500), "cut": Cut(said, 500),
				} {
					if strings.Contains(got, tc.secret) || !strings.Contains(got, mark) || !strings.HasSuffix(got, " was refused") {
						t.Fatalf("%q, %s: %q", said, name, got)
					}
				}
			}
		}
	}
	for _, said := range []string{ // As logrus, jq -C and grep --color write.
		"\x1b[36mpassword\x1b[0m=correcthorse9", "\x1b[34;1m\"password\"\x1b[0m: \x1b[0;32m\"correcthorse9\"\x1b[0m", "password=\x1b[01;31m\x1b[Kcorrect\x1b[m\x1b[Khorse9",
	} {
		if got := Text(said); strings.Contains(got, "horse9") {
			t.Errorf("%q became %q", said, got)
		}
	}
}

// What a rule has to match must survive, or redaction would change verdicts.
func TestEvidenceStays(t *testing.T) {
	for _, s := range []string{
		`Bearer error="invalid_token", error_description="The access token expired"`,
		`Bearer resource_metadata="https://tool.example.com/.well-known/oauth-protected-resource"`,
		`{"error":"token_expired"}`,
		`{"error":"invalid_grant","error_description":"grant expired or revoked"}`,
		"Bearer authentication failed", "Token authentication required",
		"password authentication failed for user", "secret: no",
		`{"token":"expired_token"}`, "invalid token: expired_token_marker", "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
		"Authorization: required", "cookie: expired", `{"key":"value-of-a-field"}`,
		"dial tcp: lookup tool.example.com on 10.0.0.10:53: no such host",
		"request_id: 550e8400-e29b-41d4-a716-446655440000", "Heroku-Request-Id: 550e8400-e29b-41d4-a716-446655440000",
		`{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}`, "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"discord: unknown channel 81384788765712384", "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 not found on sourcegraph",
		"airtable: INVALID_PERMISSIONS", "linkedin: misconfiguration", "datadog returned 429 after 3 attempts",
		`{"password":["too short"]}`, `{"password":"required"}`, "password: invalid", "Password: is required", "secret: not_found", "client_secret=missing",
		"X-Csrf-Token: Required", `{"access_token":"expired"}`, "access token: revoked", "api_key: must be set", `{"api_key":"invalid_api_key"}`,
		"https://api.example.com:8443/v1/users/17?page=2&limit=50", "mailto:alice@example.com", "task_id=17; disk_usage=93 percent; sk_buff overflow",
		"-----BEGIN CERTIFICATE-----", "curl: (7) Failed to connect to tool.example.com port 443", "Basic auth is not supported any more",
		"HTTP 429 Too Many Requests, retry after 30 s", "rate_limit_exceeded", "Token limit of 8192 tokens exceeded",
		`Post "http://tool.default.svc:8080/mcp": dial tcp 10.0.0.20:8080: connect: connection refused`,
	} {
		if got := Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestAPlaceholderStays(t *testing.T) {
	for _, s := range []string{"password=[redacted]", "password: [redacted:0a1b2c]", `{"api_key":["[redacted:0a1b2c]"]}`, "Authorization: Bearer [redacted]"} {
		if got := Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := Text("password=hunter2hunter2"); got != "password=[redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestEqualSecretsStayEqual(t *testing.T) {
	a, b := Text("x "+github), Text("x "+github)
	if a != b {
		t.Errorf("the same secret became %q and %q", a, b)
	}
	if other := Text("x " + github + "0"); other == a {
		t.Errorf("another secret became %q too", other)
	}
}

// Digits are shown only where they help nobody to guess.
func TestWhatCanBeGuessedGetsNoDigits(t *testing.T) {
	for secret, want := range map[string]bool{
		"hunter2": false, "correct-horse-battery-staple": false, "Summer2026Summer2026!": false, "passwordpasswordpassword1": false,
		"12345678901234567890": false, "abcdefgh12345678": false,
		"YWxpY2U6aHVudGVyMg==": false, "YWxpY2U6M2Y5YTc3YzAxYjJkNDRlOGFhMGYx": true, "MyDogAteMyHomeWorkToday": false,
		github: true, openai: true, "9fceb02d0ae598e95dc970b74767f19372d61af8": true, "Zm9vYmFyMTIzNDU2Nzg5MA8x": true,
	} {
		got := placeholder(secret)
		if shown := got != "[redacted]"; shown != want || !isPlaceholder(got) {
			t.Errorf("%q becomes %q", secret, got)
		}
	}
}

func TestACutLeavesNoHalfOfAPlaceholder(t *testing.T) {
	for limit := range 60 {
		got := Cut("see "+github+" and go on with something longer than that", limit)
		if at := strings.IndexByte(got, '['); at >= 0 && !strings.Contains(got[at:], "]") || len(got) > limit {
			t.Errorf("%d: %q", limit, got)
		}
	}
}

// The end of what is searched may halve a token, which is then no token any more. However much redaction takes away before
// it, it must not come to stand where it is kept.
func TestTheEndOfWhatIsSearchedIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
	}{{"a body", v1alpha1.MaxErrorBody}, {"a message", v1alpha1.MaxErrorMessage}, {"a header", v1alpha1.MaxHeaderValue}, {"a note", maxNote}, {"a code", 128}} {
		t.Run(tc.name, func(t *testing.T) {
			searched := tc.limit + beyond
			for shown := range len(github) + 1 {
				for _, long := range []int{0, 100, searched / 2, searched - 100} { // How much goes before it.
					s := strings.Repeat("a word ", 5) + "Bearer a1" + strings.Repeat("x", long) + " "
					s += strings.Repeat("; ", searched)
					s = s[:searched-shown] + github + strings.Repeat(" tail", 20)
					got := Cut(s, tc.limit)
					if strings.Contains(got, github[:5]) || !strings.HasSuffix(got, "…") || len(got) > tc.limit {
						t.Fatalf("%d characters shown behind %d: %d bytes, %q", shown, long, len(got), got[max(0, len(got)-100):])
					}
				}
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"Authorization", "Bearer hunter2", "Bearer [redacted]"},
		{"authorization", "hunter2", "[redacted]"},
		{"Proxy-Authorization", "Basic " + "YWxpY2U6aHVudGVyMg==", "Basic [redacted]"},
		{"X-Goog-Api-Key", "abc", "[redacted]"},
		{"Private-Token", "abc", "[redacted]"},
		{"Mcp-Session-Id", "abc", "[redacted]"},
		{"X-Csrf-Token", "Required", "Required"},
		{"X-Vault-Token", "[redacted]hunter2", "[redacted]"},
		{"X-Ratelimit-Remaining-Tokens", "0", "0"},
		{"X-Request-Id", "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"},
		{"Www-Authenticate", `Bearer realm="x", error="invalid_token"`, `Bearer realm="x", error="invalid_token"`},
		{"Etag", `"33a64df551425fcc55e4d42a148795d9f25f89d4"`, `"33a64df551425fcc55e4d42a148795d9f25f89d4"`},
		{"Location", "https://x.example.com/cb?code=1&access_token=Zx81kQpLm22vNw", "https://x.example.com/cb?code=1&access_token=[redacted]"},
		{github, "v", ""},
	} {
		e := &v1alpha1.ToolError{Headers: map[string]v1alpha1.HeaderValue{tc.name: v1alpha1.HeaderValue(tc.value)}}
		for range 2 {
			Error(e)
			if got := string(e.Headers[tc.name]); got != tc.want {
				t.Errorf("%s: %s became %q, want %q", tc.name, tc.value, got, tc.want)
			}
		}
	}
}

func TestErrorIsRedactedAndBounded(t *testing.T) {
	e := &v1alpha1.ToolError{
		Body:           strings.Repeat("é", v1alpha1.MaxErrorBody),
		Message:        "failed with " + jwt,
		ExceptionTypes: make([]v1alpha1.MatchText, 40),
		Headers: map[string]v1alpha1.HeaderValue{
			"Set-Cookie": "sid=1", "Retry-After": "30", "authorization": v1alpha1.HeaderValue("Bearer " + jwt),
		},
	}
	for i := range e.ExceptionTypes {
		e.ExceptionTypes[i] = "TypeError"
	}
	e.ExceptionTypes[0] = ""
	e.Headers[""], e.Headers[strings.Repeat("h", 300)] = "no name", "too long a name"
	for i := range 100 {
		e.Headers["X-"+strings.Repeat("z", i+1)] = "v"
	}
	if !Error(e) {
		t.Fatal("nothing was changed")
	}
	if len(e.Body) > v1alpha1.MaxErrorBody || len(e.ExceptionTypes) != v1alpha1.MaxExceptionTypes-1 || len(e.Headers) != v1alpha1.MaxErrorHeaders {
		t.Errorf("body %d bytes, %d types, %d headers", len(e.Body), len(e.ExceptionTypes), len(e.Headers))
	}
	if got := e.Headers["Retry-After"]; got != "30" {
		t.Errorf("the wait became %q", got)
	}
	if got := e.Headers["Set-Cookie"]; !strings.HasPrefix(string(got), mark) {
		t.Errorf("the cookie is %q", got)
	}
	before := e.DeepCopy()
	if Error(e) {
		t.Errorf("a second time changes it: %s", cmp.Diff(before, e))
	}
}

func FuzzText(f *testing.F) {
	f.Add("Bearer abc123def456ghi " + jwt)
	f.Add(`password="` + "\xff\x00" + `xxxxxxx"`)
	f.Add(`{"password":"[redacted]hunter2","api_key":"[redacted:0a1b2c"}`)
	f.Add("https://a:b:c@d:e@f Cookie: a=b; Authorization: [redacted] x")
	for _, c := range canaries(f, 0) {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Text(s)
		if again := Text(once); again != once {
			t.Errorf("%q becomes %q becomes %q", s, once, again)
		}
		e := &v1alpha1.ToolError{Body: s, Message: s, ErrorCode: s, Headers: map[string]v1alpha1.HeaderValue{"Authorization": v1alpha1.HeaderValue(s), "X-" + s: v1alpha1.HeaderValue(s)}}
		Error(e)
		before := e.DeepCopy()
		if Error(e) {
			t.Errorf("not stable: %s", cmp.Diff(before, e))
		}
	})
}
