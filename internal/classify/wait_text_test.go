package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestStatedInText(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for text, want := range map[string]time.Duration{
		// Durations.
		"try again in 12 s": 12 * s, "Try again in 12s.": 12 * s, "TRY AGAIN IN 12 SECONDS": 12 * s,
		"tokens per min (TPM) limit reached. Please try again in 174ms.": 174 * time.Millisecond,
		"Please try again in 6m0s. Visit the page about limits":          6 * m,
		"Weekly usage limit reached. Resets in 6hr 29min.":               6*h + 29*m,
		"resets in 3 hr 29 min":                                          3*h + 29*m, "Your quota will reset after 6h3m54s.": 6*h + 3*m + 54*s,
		"retry after 30 seconds": 30 * s, "Retry in 1m30s": 90 * s, "wait 5 minutes before retrying": 5 * m,
		"Please retry your request after 20s": 20 * s, "Try your request again in 20 seconds": 20 * s,
		"Please retry in 21.479s.": 21479 * time.Millisecond, "please wait for at least another 2 minutes": 2 * m,
		"wait 1 minute and 30 seconds": 90 * s, "wait 1 hour, 2 minutes, and 3 seconds": h + 2*m + 3*s,
		"try again in about an hour": h, "wait a minimum of 30 seconds": 30 * s, "try again in a minute": m, "retry in 5-10 minutes": 10 * m, "wait 5 to 10 minutes": 10 * m,
		"retry in 5 more minutes": 5 * m, "try again after 1,200 seconds": 1200 * s, "try again in 1.5 hours": 90 * m,
		"resets in 03:29:00": 3*h + 29*m, "try again in 2 days": 48 * h, "resets in 1 week": 168 * h,
		"You are being rate limited for 45 seconds": 45 * s, "Please back off for 10 seconds": 10 * s,
		"We will be back online in 30 minutes": 30 * m, "the service will be unavailable for 30 minutes": 30 * m,
		"Quota refreshes in 3 hours": 3 * h, "The model will be available in 20 s": 20 * s, "cooldown: 30s": 30 * s,
		"try after 60 seconds": 60 * s, "**Resets in** ~6hr 29min": 6*h + 29*m, "try again in\u00a05\u00a0minutes": 5 * m,
		"wait 1 minute, 3 attempts left": m, "retry in 30 s, 5 min at most": 30 * s, "try again in 0 seconds": 0, "try again\nin\t5 s": 5 * s,
		"retry after 999999999 weeks": 1<<63 - 1,

		// A number without a unit, where the convention has one.
		"Too Many Requests: retry after 35": 35 * s, "Retry-After: 30": 30 * s, `{"retry_after": 64.57, "global": false}`: 64570 * time.Millisecond,
		`{\"retry_after\": \"30\"}`: 30 * s, `{"retry_after_seconds": 35}`: 35 * s, `{"retryAfterMs":350}`: 350 * time.Millisecond,
		`{"resets_in_seconds":3600}`: h, `{"@type":"RetryInfo","retryDelay":"21s"}`: 21 * s, `{"quotaResetDelay":"6h3m54.5s"}`: 6*h + 3*m + 54500*time.Millisecond,
		`{"retryAfter":"30s"}`: 30 * s, `{"message":"slow down\nRetry in 5 s\n"}`: 5 * s,

		// Points in time; it is Wednesday, 08:00 UTC, 10:00 in Berlin, 04:00 in New York, 01:00 in Los Angeles.
		"daily limit used up; resets at midnight Pacific Time (PT)": 23 * h, "Resets midnight PT": 23 * h, "resets at midnight UTC": 16 * h,
		"resets at 00:00 UTC": 16 * h, "Resets daily at 00:00:00 GMT.": 16 * h, "resets 3pm (America/Los_Angeles)": 14 * h,
		"resets at 3:30 p.m. Eastern": 11*h + 30*m, "resets at noon (Europe/Berlin)": 2 * h, "try again at 12am UTC": 16 * h,
		"try again at 12pm UTC": 4 * h, "resets at 08:00 UTC": 24 * h, "resets at 10:00 UTC+2": 24 * h, "resets at 00:00 UTC+05:30": 10*h + 30*m,
		"resets at 2026-06-17T08:10:00Z": 10 * m, "Resets on 2026-06-17 08:10 UTC": 10 * m, "try again after 2026-06-17T10:10:00.5+02:00": 10*m + 500*time.Millisecond,
		"available at 2026-06-17 08:10:00 +0000 UTC": noWait, "it will be available at 2026-06-17 08:10:00 +0000 UTC": 10 * m,
		"wait until 2026-06-17T08:10:00Z": 10 * m, "maintenance until 2026-06-17T06:10:00-0200": 10 * m, "do not retry until 2026-06-17T08:10:00Z": 10 * m,
		"resets Jun 18 at 3pm (America/Los_Angeles)": 38 * h, "Your limit will reset on June 18, 2026, 00:00 UTC": 16 * h,
		"resets Dec 1, 12:00 AM (Europe/Berlin)": 3999 * h, "resets Jan 1, 2027 at midnight UTC": 4744 * h,
		"resets at midnight, in the US Pacific time zone": 23 * h, "resets at noon (US/Pacific)": 11 * h,
		"Retry-After: Wed, 17 Jun 2026 08:02:00 GMT": 2 * m, `{"resets_at":1781683260}`: m, `{"resetsAt": 1781683260500}`: m + 500*time.Millisecond,
		`{"quotaResetTimeStamp":"2026-06-17T08:10:00Z"}`: 10 * m, `{"reset_time": "2026-06-17T08:10:00Z"}`: 10 * m,

		// Several waits: the most direct, and of these the longest.
		"Monthly usage resets in 20 days. Rate limited: try again in 3 s": 3 * s, "try again in 3 s. Monthly usage resets in 20 days": 3 * s,
		"Daily quota resets in 2 hours, weekly quota resets in 3 days":                                        72 * h,
		`{"documentation":"clients should wait 1 hour before retrying a banned key","retry_after_seconds":2}`: 2 * s,
		`{"retry_after":2,"hint":"after that, wait 5 minutes. The limit resets in 2 hours"}`:                  2 * s,
		`{"message":"Please retry in 21.479s.","details":[{"retryDelay":"21s"}]}`:                             21479 * time.Millisecond,
		`{"message":"Please retry in 25s.","details":[{"retryDelay":"21s"}]}`:                                 21 * s,
		`{"retry_after":0,"message":"try again in 30 s"}`:                                                     30 * s,
		`{"message":"try again in 5 s","resets_in_seconds":3600}`:                                             5 * s,
		"HTTP/1.1 429\r\nRetry-After: 30\r\nServer: x":                                                        30 * s, `{"log":"Retry-After: 30\nServer: x"}`: 30 * s, "Retry-After: 3 attempts": noWait,
		"Retry-After: 30\nWait 5 minutes, as the documentation says": 30 * s, "retry_after=30 s. Wait 5 minutes": 30 * s,
		`{"try_again_in":"5 s","hint":"wait 5 minutes"}`: 5 * s, `{"queue_wait":"2ms","message":"try again in 20 s"}`: 20 * s,
		"Request was throttled. Expected available in 45 seconds.": 45 * s,

		// The caller is not whom it concerns, or it is denied.
		"We will try again in 10 minutes": noWait, "we'll try again in 10 minutes": noWait, "we will automatically retry in 5 s": noWait,
		"The client will then try again in 10 minutes": noWait, "We will wait 10 minutes": noWait, "if you wait 30 days your plan resets": noWait,
		"Do not try again in 5 minutes": noWait, "Don't try again in 5 minutes": noWait, "Do not wait 10 minutes; go on": noWait,
		"You no longer have to wait 95 seconds": noWait, "there is no need to wait 5 minutes": noWait, "you don’t have to wait 5 minutes": noWait,
		"it is no longer banned for 5 minutes": noWait, "never wait 5 minutes": noWait, "last reset at 2026-06-17T08:10:00Z": noWait,
		"We are going to try again in 10 minutes": noWait, "the job is scheduled to retry in 5 s": noWait, "you are not required to wait 5 s": noWait,
		"we will back off for 10 s": noWait, "do not back off for 10 s": noWait, "You are going to have to wait 5 minutes": 5 * m,
		"If you wait 30 days your plan resets. Try again in 10 s": 10 * s, "We will not try again in 10 minutes: try again in 5 s": 5 * s,
		"You will have to wait 5 minutes": 5 * m, "we ask you to wait 5 minutes": 5 * m, "you will be able to try again in 5 minutes": 5 * m,
		"Request not allowed, try again in 5 s": 5 * s, "Request not allowed try again in 5 s": 5 * s, "Not now: wait 5 s": 5 * s,
		"Your quota will reset in 2 hours": 2 * h,

		// Maintenance.
		"Scheduled maintenance, back in 2 hours": 2 * h, "Down for maintenance. Back in 2 hours.": 2 * h, "available again in 30 minutes": 30 * m,
		"The service is available again in 30 minutes": 30 * m, "We're under maintenance and back at 08:10 UTC": 10 * m,
		"Maintenance. We will be back in 30 minutes": 30 * m, "transaction rolled back in 30 seconds": noWait,
		"during maintenance the transaction was rolled back after 30 s": noWait, "the server came back after 30 s": noWait,

		// Several limits.
		"requests: try again in 1s; tokens: try again in 6m0s; images: try again in 2s": 6 * m,

		// What states no wait.
		"": noWait, "took 30 seconds": noWait, "timeout of 30 s": noWait, "token expires in 3600 seconds": noWait, "max 5 minutes": noWait,
		"context deadline exceeded after 30 s": noWait, "Connect Timeout Error (timeout: 10000ms)": noWait, "connection reset after 30 seconds": noWait,
		"the connection was reset in 5 s": noWait, "gave up: no retry after 30 seconds": noWait, "retry after 3 attempts": noWait,
		"the request failed again after 30 seconds": noWait, "the request timed out again after 30 s": noWait, "client will retry in 5 s": noWait,
		"retrying in 5 s": noWait, "waited 30 seconds": noWait, "lock wait 50 s exceeded": noWait, "max wait 30 s": noWait, "Lock wait timeout exceeded": noWait,
		"60 requests are allowed in 1 minute": noWait, "100 calls are available in 24 hours": noWait, "5 requests per 30 seconds": noWait,
		"password reset in 5 minutes": noWait, "token refreshes in 5 minutes": noWait, "valid until 2026-06-17T08:10:00Z": noWait,
		"token valid until 2026-06-17T08:10:00Z": noWait, "try again later": noWait, "try again in a few minutes": noWait, "try again in a moment": noWait,
		"Please try again": noWait, "please retry within 5 minutes": noWait, "retry after some time": noWait, "wait for the server": noWait,
		"was unavailable for 5 minutes": noWait, "the second try after 30 s failed": noWait,

		// Malformed, negative, past, ambiguous.
		"try again in -5 s": noWait, "retry after -1": noWait, "retry_after: -1": noWait, "try again in 5": noWait, `{"retryAfter": 30000}`: noWait,
		"retry after 50%": noWait, "retry after 1/2 hour": noWait, "resets at 2026-06-17T07:59:59Z": noWait, "resets at 2026-06-17T08:10:00": noWait,
		"resets at 2026-13-17T08:10:00Z": noWait, "resets at 2026-06-31T08:10:00Z": noWait, "resets at 3pm": noWait, "resets at midnight": noWait,
		"resets at midnight local time": noWait, "resets at midnight CST": noWait, "resets Jun 16 at 3pm (UTC)": noWait,
		"resets Jun 18": noWait, "resets Jun 18 at 3pm": noWait, "resets Jun 32 at 3pm UTC": noWait, "resets Jun 31 at 3pm UTC": noWait, "resets on Jun 18, 20260 at 3pm UTC": noWait, "resets at 3 UTC": noWait, "resets at 25:00 UTC": noWait,
		"resets at 13pm UTC": noWait, "resets at 10:60 UTC": noWait, "resets at 10:00 UTC+99": noWait, "resets 3pm (America/Nowhere)": noWait,
		"resets 3pm (America/../../etc/passwd)": noWait, "resets in 12:34": noWait, "resets in 12:99:00": noWait, "try again in 99999999999 s": noWait,
		"try again in 12 parsecs": noWait, "try again in \xff\xfe s": noWait, "resets at 17816832600000000": noWait, "resets at": noWait, "wait": noWait, "wait 5": noWait,
	} {
		for where, report := range map[string]v1alpha1.ToolError{"body": {Body: text, Message: "x"}, "message": {Message: text}} {
			if got := asked(report, "retry-after"); got != want {
				t.Errorf("%q in the %s: wait %v, want %v", text, where, got, want)
			}
		}
	}
}

func TestTextCountsFromTheReport(t *testing.T) {
	winter := metav1.NewTime(time.Date(2017, 1, 16, 9, 0, 0, 0, time.UTC))
	december := metav1.NewTime(time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC))
	clocksGoForward := metav1.NewTime(time.Date(2026, 3, 8, 8, 30, 0, 0, time.UTC))
	for _, tc := range []struct {
		name   string
		report v1alpha1.ToolError
		want   time.Duration
	}{
		{"the answer's Date header", v1alpha1.ToolError{Headers: headers{"Date": "Mon, 16 Jan 2017 10:00:00 GMT"}, Body: "resets at midnight Pacific Time (PT)"}, 22 * time.Hour},
		{"the report's date", v1alpha1.ToolError{Date: &winter, Headers: headers{"Date": "Mon, 16 Jan 2017 10:00:00 GMT"}, Body: "resets at midnight Pacific Time (PT)"}, 23 * time.Hour},
		{"a day of the next year", v1alpha1.ToolError{Date: &december, Body: "resets Jan 1 at 12am (UTC)"}, 12 * time.Hour},
		{"a day of 23 hours", v1alpha1.ToolError{Date: &clocksGoForward, Body: "resets at midnight PT"}, 22*time.Hour + 30*time.Minute},
		{"the message and the body: the longer", v1alpha1.ToolError{Message: "retry in 21.5s", Body: "retry in 21s"}, 21500 * time.Millisecond},
		{"a name in the body before a sentence of the message", v1alpha1.ToolError{Message: "wait 1 hour", Body: `{"retry_after":2}`}, 2 * time.Second},
		{"a sentence of the message before a renewal in the body", v1alpha1.ToolError{Message: "retry in 3 s", Body: "the quota resets in 20 days"}, 3 * time.Second},
		{"a header before the text", v1alpha1.ToolError{Headers: headers{"Retry-After": "5"}, Body: "retry in 21s"}, 5 * time.Second},
		{"the text where allowance is left", v1alpha1.ToolError{Headers: headers{"X-RateLimit-Reset": "900", "X-RateLimit-Remaining": "9"}, Body: "retry in 21s"}, 21 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := asked(tc.report, "retry-after"); got != tc.want {
				t.Errorf("wait %v, want %v", got, tc.want)
			}
		})
	}
}

// textWait is the wait that a text alone states.
func textWait(text string, at time.Time) (time.Duration, bool) {
	var found stated
	textWaits(text, at, &found)
	return found.wait()
}

// adversarialTexts make the most of what is read ahead.
var adversarialTexts = map[string]string{
	"announcements": "retry your the this request after about at least ",
	"zones":         "resets 3pm (America/Nowhere) ",
	"numbers":       "wait 1 h 1 min 1 s, and 1",
	"digits":        "retry after 9999999999999999",
	"marks":         `retry """"""`,
	"one word":      "waitwaitwaitwait",
	"spaces":        "wait             ",
	"broken":        "\xffwait\xff5\xff",
}

func TestTextIsBounded(t *testing.T) {
	for name, unit := range adversarialTexts {
		textWait(strings.Repeat(unit, 1<<20/len(unit)), testNow) // returns at once
		if got, ok := textWait(strings.Repeat(unit, 4)+". try again in 2 weeks", testNow); name != "one word" && (!ok || got != 14*24*time.Hour) {
			t.Errorf("%s: after a little of it, wait %v, %v", name, got, ok)
		}
	}
	if _, ok := textWait(strings.Repeat("x", maxWaitText)+" try again in 5 s", testNow); ok {
		t.Error("a text is read beyond its bound")
	}
	if got, ok := textWait(strings.Repeat("resets 3pm (America/Nowhere) ", maxLookups)+"resets at noon UTC. try again in 5 s", testNow); !ok || got != 5*time.Second {
		t.Errorf("with too many zones: wait %v, %v", got, ok)
	}
	words := strings.Repeat("word and word; ", 1000) + "try again in 5 s"
	if allocations := testing.AllocsPerRun(10, func() { textWait(words, testNow) }); allocations > 1 {
		t.Errorf("%v allocations, however long the text", allocations)
	}
}

func FuzzTextWait(f *testing.F) {
	for _, unit := range adversarialTexts {
		f.Add(unit, unit, int64(1781683200))
	}
	f.Add("retry after ", "35", int64(0))
	f.Add("resets at midnight ", "Pacific Time (PT)", int64(1<<40))
	f.Add("until 2026-06-17T08:00:00", ".5+02:00", int64(-1<<40))
	f.Fuzz(func(t *testing.T, a, b string, unix int64) {
		at := time.Unix(unix, 0)
		wait, ok := textWait(a+b, at)
		if wait < 0 || !ok && wait != 0 {
			t.Fatalf("wait %v, %v", wait, ok)
		}
		if again, okAgain := textWait(a+b, at); again != wait || ok != okAgain {
			t.Fatalf("wait %v, then %v", wait, again)
		}
		// Nothing that stands before hides a finished sentence.
		if len(a+b) < maxWaitText/2 {
			if later, ok := textWait(a+b+" . retry_after: 3 s", at); !ok || later < 3*time.Second {
				t.Fatalf("wait %v, %v with a sentence more", later, ok)
			}
		}
		e := v1alpha1.ToolError{Headers: headers{"retry-after": v1alpha1.HeaderValue(a), "retry-after-ms": v1alpha1.HeaderValue(b),
			"x-ratelimit-reset": v1alpha1.HeaderValue(a), "ratelimit": v1alpha1.HeaderValue(b), "x-" + a: v1alpha1.HeaderValue(b)}, Body: b}
		r := rule{waitHeader: anyWait}
		got, note := r.wait(&e, at, MaxWait)
		if got != 0 && got < minWait || got > MaxWait || len(note) > 256 {
			t.Fatalf("wait %v, %q", got, note)
		}
	})
}

func BenchmarkTextWait(b *testing.B) {
	texts := map[string]string{"plain": "the quick brown fox jumps over the lazy dog. "}
	for name, unit := range adversarialTexts {
		texts[name] = unit
	}
	for name, unit := range texts {
		for _, size := range []int{8, 16} {
			text := strings.Repeat(unit, size<<10/len(unit))
			b.Run(fmt.Sprintf("%s/%dKiB", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					textWait(text, testNow)
				}
			})
		}
	}
}
