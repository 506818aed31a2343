package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/sampletools"
)

// TestARefusedCallerIsNoOutage whatever the rules call the error, with the built-in diagnostician and with a model that
// claims an outage.
func TestWhatIsAboutTheCaller(t *testing.T) {
	for _, tc := range []struct {
		class  v1alpha1.Classification
		status int
		want   bool
	}{
		{v1alpha1.Unclear, 401, true}, {v1alpha1.Unclear, 403, true}, {v1alpha1.Unclear, 404, false}, {v1alpha1.Unclear, 500, false},
		{v1alpha1.UserPermission, 0, true}, {v1alpha1.UserSpecificTechnical, 0, true}, {v1alpha1.Intermittent, 403, false},
		{v1alpha1.TechnicallyBroken, 401, false}, {v1alpha1.UserInput, 403, false},
	} {
		if got := refuses(tc.class, tc.status); got != tc.want {
			t.Errorf("%s with status %d: %t", tc.class, tc.status, got)
		}
	}
}

func TestARefusedCallerIsNoOutage(t *testing.T) {
	badKey := sampletools.Answer{Status: 401, Body: `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`}
	plain := sampletools.Answer{Status: 401, Body: "no"}
	noScope := sampletools.Answer{Status: 403, Headers: map[string]string{"WWW-Authenticate": `Bearer error="insufficient_scope"`}}
	limited := sampletools.Answer{Status: 403, Headers: map[string]string{"Retry-After": "60"}, Body: "rate limit exceeded"}
	broken := sampletools.Answer{Status: 503}
	user := func(a sampletools.Answer) func(*world) {
		return func(w *world) { w.tool.RefuseTokenWith(aliceToken, a) }
	}
	system := func(a sampletools.Answer) func(*world) {
		return func(w *world) { w.tool.RefuseTokenWith(systemToken, a) }
	}
	nobodys := func(w *world) {
		w.tool.RequireAuth(true)
		w.input.Tool.Spec.Credentials = nil
	}
	withoutUser := func(w *world) { anonymous(&w.input) }
	reported := func(status int32) func(*world) { return func(w *world) { reporting(status)(&w.input) } }
	both := func(a sampletools.Answer) func(*world) { return func(w *world) { w.tool.Fail(a) } }
	const (
		usersRow = "USER/alice: DOWN USER_SPECIFIC_TECHNICAL hint=\"Renew your sign-in or token for search; others can use it.\" cool=http-5xx/15m0s"
		claimed  = "USER/alice: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"
		unclear  = "PROJECT/essays: DEGRADED UNCLEAR recovery=15m0s"
		degraded = "PROJECT/essays: DEGRADED INTERMITTENT recovery=2m0s cool=http-5xx/30s"
		outage   = "PROJECT/essays: DOWN TECHNICALLY_BROKEN cool=http-5xx/5m0s"
		expected = "PROJECT/essays: DOWN TECHNICALLY_BROKEN recovery=5m0s cool=http-5xx/5m0s"
	)
	for _, tc := range []struct {
		name                   string
		arrange                []func(*world)
		wantBuiltin, wantModel string
	}{
		{"a user's key that a rule names, beside a challenge", []func(*world){user(badKey), nobodys}, usersRow, claimed},
		{"a user's token that no rule names, beside a challenge", []func(*world){user(plain), nobodys}, usersRow, claimed},
		{"a user's key beside a system that works", []func(*world){user(badKey)}, usersRow, claimed},
		{"the system's expired key alone", []func(*world){system(badKey), withoutUser}, unclear, degraded},
		{"the system's missing scope alone", []func(*world){system(noScope), withoutUser}, unclear, degraded},
		{"the system's key where the report was of one, too", []func(*world){system(badKey), withoutUser, reported(401)}, unclear, degraded},
		{"the user's key and the system's, where the report was of one", []func(*world){user(badKey), system(badKey), reported(401)}, unclear, degraded},
		{"whatever the report was of", []func(*world){user(plain), system(noScope)}, unclear, degraded},
		{"a tool that fails for one and refuses the other", []func(*world){user(badKey), system(broken)}, expected, outage},
		{"a rate limit with status 403 for both", []func(*world){both(limited)}, degraded, outage},
		{"a rate limit with status 403 for the system alone", []func(*world){both(limited), withoutUser}, degraded, outage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for _, arrange := range tc.arrange {
				arrange(w)
			}
			if rows := describeRows(t, w.input, Decide(w.input, w.engine.Run(t.Context(), w.input, llm.Builtin{}), now).Rows); !cmp.Equal(rows, []string{tc.wantBuiltin}) {
				t.Errorf("built in: %q, want %q", rows, tc.wantBuiltin)
			}
			out, _ := w.runScript(t, calls(llm.ToolProbeAsUser, llm.ToolProbeAsSystem), says(v1alpha1.TechnicallyBroken))
			if rows := describeRows(t, w.input, Decide(w.input, out, now).Rows); !cmp.Equal(rows, []string{tc.wantModel}) {
				t.Errorf("a model: %q, want %q", rows, tc.wantModel)
			}
		})
	}
}
