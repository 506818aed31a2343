package llm

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzFailure shows that whatever an endpoint answers is one of the known kinds, told in bounds and without the key.
func FuzzFailure(f *testing.F) {
	const key = "a-very-private-key"
	for _, body := range []string{
		`{"error":{"message":"no","type":"t","code":"insufficient_quota","innererror":{"code":"x"}}}`, `[{"error":{"code":400,"message":"API key not valid"}}]`,
		`{"error":"does not support tools"}`, `{"object":"error","message":"maximum context length","code":404}`, `{"detail":["a"]}`, `<html>`, "", `{"error":{"message":["a"],"code":null}}`,
		"Please try again in 12s " + key, `{"choices":[]}`,
	} {
		for _, status := range []int{200, 307, 400, 404, 429, 503} {
			f.Add(status, "17", body)
		}
	}
	at := time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		p := readProblem([]byte(body))
		if kind := kindOf(status, p); !slices.Contains(FailureKinds(), kind) {
			t.Errorf("kind %q", kind)
		}
		if text := tame(p.message, key); len(text) > maxErrorText || !utf8.ValidString(text) || strings.Contains(text, key) {
			t.Errorf("text %q", text)
		}
		if wait := statedWait(http.Header{"Retry-After": {after}}, []byte(body), at); wait < 0 {
			t.Errorf("wait %s", wait)
		}
		if len(p.codes) > 3 {
			t.Errorf("codes %q", p.codes)
		}
	})
}
