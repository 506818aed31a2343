package redact

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
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
		`Post "http://tool.default.svc:8080/mcp": dial tcp 10.0.0.20:8080: connect: connection refused`,
	} {
		if got := Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
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
	f.Fuzz(func(t *testing.T, s string) {
		e := &v1alpha1.ToolError{Body: s, Message: s}
		Error(e)
		if Error(e) {
			t.Errorf("not stable: %q", e.Body)
		}
	})
}
