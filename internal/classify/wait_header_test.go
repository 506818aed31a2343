package classify

import (
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

type headers = map[string]v1alpha1.HeaderValue

// noWait is what a test expects where no wait is stated.
const noWait = time.Duration(-1)

// asked is what an entry with a cooldown reads from a report, or noWait.
func asked(e v1alpha1.ToolError, name string) time.Duration {
	wait, _, ok := askedWait(&e, name, testNow)
	if !ok {
		return noWait
	}
	return wait
}

func TestStatedInHeaders(t *testing.T) {
	const inAMinute, aMinuteAgo = "1781683260", "1781683140"
	for _, tc := range []struct {
		name    string
		headers headers
		want    time.Duration
	}{
		{"milliseconds", headers{"Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{"milliseconds of the Azure SDKs", headers{"x-ms-retry-after-ms": "250"}, 250 * time.Millisecond},
		{"seconds before milliseconds", headers{"retry-after-ms": "1500", "retry-after": "7"}, 7 * time.Second},
		{"malformed seconds are ignored", headers{"retry-after-ms": "1500", "retry-after": "7.5"}, 1500 * time.Millisecond},
		{"a past date is ignored", headers{"retry-after": "Wed, 17 Jun 2026 07:59:59 GMT", "x-ratelimit-reset": inAMinute}, time.Minute},
		{"milliseconds with a fraction", headers{"retry-after-ms": "1500.5"}, noWait},

		{"GitHub: used up", headers{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": inAMinute}, time.Minute},
		{"GitHub: allowance left", headers{"X-RateLimit-Remaining": "4310", "X-RateLimit-Reset": inAMinute}, noWait},
		{"GitHub: the rest is not stated", headers{"X-RateLimit-Reset": inAMinute}, time.Minute},
		{"the rest is empty", headers{"X-RateLimit-Remaining": "", "X-RateLimit-Reset": inAMinute}, time.Minute},
		{"the rest is not understood", headers{"X-RateLimit-Remaining": "none", "X-RateLimit-Reset": inAMinute}, noWait},
		{"the rest is negative", headers{"X-RateLimit-Remaining": "-1", "X-RateLimit-Reset": inAMinute}, noWait},
		{"the rest with a fraction, used up", headers{"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "60"}, time.Minute},
		{"the rest with a fraction, left", headers{"x-ratelimit-remaining": "0.5", "x-ratelimit-reset": "60"}, noWait},
		{"a reset that is past", headers{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": aMinuteAgo}, noWait},
		{"a reset against the answer's date", headers{"X-RateLimit-Reset": inAMinute, "Date": "Wed, 17 Jun 2026 08:00:30 GMT"}, 30 * time.Second},
		{"epoch milliseconds", headers{"x-ratelimit-reset": inAMinute + "500"}, time.Minute + 500*time.Millisecond},
		{"epoch seconds with a fraction", headers{"x-ratelimit-reset": inAMinute + ".999"}, time.Minute},
		{"epoch microseconds", headers{"x-ratelimit-reset": inAMinute + "000000"}, noWait},
		{"seconds from now", headers{"x-ratelimit-reset": "90"}, 90 * time.Second},
		{"now", headers{"ratelimit-remaining": "0", "ratelimit-reset": "0"}, 0},
		{"a negative number", headers{"x-ratelimit-reset": "-90"}, noWait},
		{"words", headers{"x-ratelimit-reset": "soon"}, noWait},
		{"nothing", headers{"x-ratelimit-reset": ""}, noWait},
		{"another spelling", headers{"x-rate-limit-remaining": "0", "x-rate-limit-reset": inAMinute}, time.Minute},
		{"Discord", headers{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "1.337"}, 1337 * time.Millisecond},
		{"Discord: allowance left", headers{"X-RateLimit-Remaining": "3", "X-RateLimit-Reset-After": "1.337"}, noWait},
		{"Atlassian: a date", headers{"X-RateLimit-Reset": "2026-06-17T08:05:00Z"}, 5 * time.Minute},
		{"an HTTP date", headers{"X-RateLimit-Reset": "Wed, 17 Jun 2026 08:05:00 GMT"}, 5 * time.Minute},
		{"a date without a zone", headers{"X-RateLimit-Reset": "2026-06-17T08:05:00"}, noWait},
		{"a date and more", headers{"X-RateLimit-Reset": "2026-06-17T08:05:00Z or so"}, noWait},

		{"OpenAI: a second", headers{"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0"}, time.Second},
		{"OpenAI: minutes", headers{"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, 6 * time.Minute},
		{"OpenAI: a fraction", headers{"x-ratelimit-reset-tokens": "28.648s"}, 28648 * time.Millisecond},
		{"OpenAI: milliseconds", headers{"x-ratelimit-reset-requests": "120ms"}, 120 * time.Millisecond},
		{"OpenAI: each limit has its own rest", headers{"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0",
			"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "149"}, time.Second},
		{"two limits are used up", headers{"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0",
			"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, 6 * time.Minute},
		{"a used-up limit goes before one with an unknown rest", headers{"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0",
			"x-ratelimit-reset-tokens": "6m0s"}, time.Second},
		{"units and more", headers{"x-ratelimit-reset-requests": "1s maybe"}, noWait},

		{"Anthropic: used up", headers{"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-06-17T08:00:42Z"}, 42 * time.Second},
		{"Anthropic: left", headers{"anthropic-ratelimit-requests-remaining": "9", "anthropic-ratelimit-requests-reset": "2026-06-17T08:00:42Z"}, noWait},
		{"Anthropic: another offset", headers{"anthropic-ratelimit-tokens-reset": "2026-06-17T10:00:42+02:00"}, 42 * time.Second},
		{"Anthropic: the window that refused", headers{"anthropic-ratelimit-unified-5h-status": "rejected", "anthropic-ratelimit-unified-5h-reset": inAMinute,
			"anthropic-ratelimit-unified-7d-status": "allowed_warning", "anthropic-ratelimit-unified-7d-reset": "1781783260",
			"anthropic-ratelimit-unified-overage-status": "rejected", "anthropic-ratelimit-unified-overage-reset": "1782864000"}, time.Minute},

		{"IETF draft 6", headers{"RateLimit-Remaining": "0", "RateLimit-Reset": "50"}, 50 * time.Second},
		{"IETF draft 7", headers{"RateLimit": "limit=100, remaining=0, reset=50"}, 50 * time.Second},
		{"IETF draft 7, left", headers{"RateLimit": "limit=100, remaining=50, reset=50"}, noWait},
		{"IETF draft 8", headers{"RateLimit": `"burst";r=50;t=5, "daily";r=0;t=3600`}, time.Hour},
		{"IETF draft 8, no rest stated", headers{"RateLimit": `"burst";t=5`}, 5 * time.Second},
		{"IETF draft 8, left", headers{"RateLimit": `"burst";r=50;t=5`}, noWait},
		{"IETF draft 8, malformed", headers{"RateLimit": `"burst";r=0;t=-5;;,=`}, noWait},

		{"a reset of something else", headers{"x-password-reset": "3600"}, noWait},
		{"a name that only resembles", headers{"x-ratelimit-resets": "60", "x-ratelimit-preset": "60"}, noWait},
		{"a name that is none", headers{"x-ratelimit-\n-reset": "60"}, noWait},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 10 { // the order of a map's keys is different each time
				if got := asked(v1alpha1.ToolError{Headers: tc.headers}, "retry-after"); got != tc.want {
					t.Fatalf("wait %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestOtherHeadersAreReadAlone(t *testing.T) {
	report := v1alpha1.ToolError{
		Message: "try again in 12 s",
		Headers: headers{"Retry-After": "90", "X-RateLimit-Reset": "1781683260", "X-RateLimit-Remaining": "0",
			"X-Quota-Reset": "3600", "X-Quota-Remaining": "5", "X-Wait-Ms": "2500", "X-Back-At": "2026-06-17T08:10:00Z", "X-Pause": "1m30s"},
	}
	for name, want := range map[string]time.Duration{
		"retry-after": 90 * time.Second, "x-ratelimit-reset": time.Minute, "x-wait-ms": 2500 * time.Millisecond,
		"x-quota-reset": noWait, "x-back-at": 10 * time.Minute, "x-pause": 90 * time.Second, "x-absent": noWait,
	} {
		if got := asked(report, name); got != want {
			t.Errorf("header:%s reads %v, want %v", name, got, want)
		}
	}
}

func TestCutWaitSaysWhy(t *testing.T) {
	const limit = time.Hour
	for _, tc := range []struct {
		name string
		rule rule
		e    v1alpha1.ToolError
		want time.Duration
		note string
	}{
		{"no cooldown", rule{}, v1alpha1.ToolError{}, 0, ""},
		{"a rule's, within the limit", rule{verdict: Verdict{Wait: limit}}, v1alpha1.ToolError{}, limit, ""},
		{"a rule's, above it", rule{verdict: Verdict{Wait: 2 * limit}}, v1alpha1.ToolError{}, limit,
			"the rule asks for a wait of 2h0m0s, cut to the maximum of 1h0m0s"},
		{"none stated", rule{waitHeader: anyWait}, v1alpha1.ToolError{}, 0, ""},
		{"at once", rule{waitHeader: anyWait}, v1alpha1.ToolError{Headers: headers{"retry-after": "0"}}, time.Second, ""},
		{"below a second", rule{waitHeader: anyWait}, v1alpha1.ToolError{Body: "try again in 174ms"}, time.Second, ""},
		{"a header's, above it", rule{waitHeader: anyWait}, v1alpha1.ToolError{Headers: headers{"RETRY-After": "7200"}}, limit,
			"the header retry-after asks for a wait of 2h0m0s, cut to the maximum of 1h0m0s"},
		{"a limit's, above it", rule{waitHeader: anyWait}, v1alpha1.ToolError{Headers: headers{"X-RateLimit-Reset": "7200"}}, limit,
			"the header x-ratelimit-reset asks for a wait of 2h0m0s, cut to the maximum of 1h0m0s"},
		{"a text's, above it", rule{waitHeader: anyWait}, v1alpha1.ToolError{Message: "Resets in 3 days"}, limit,
			"the text asks for a wait of 72h0m0s, cut to the maximum of 1h0m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, note := tc.rule.wait(&tc.e, testNow, limit)
			if got != tc.want || note != tc.note {
				t.Errorf("wait %v, %q; want %v, %q", got, note, tc.want, tc.note)
			}
		})
	}
}
