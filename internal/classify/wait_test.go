package classify

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT5M":                  5 * time.Minute,
		"PT24H":                 24 * time.Hour,
		"P1D":                   24 * time.Hour,
		"P2W":                   14 * 24 * time.Hour,
		"P1DT2H3M4S":            26*time.Hour + 3*time.Minute + 4*time.Second,
		"P1DT4S":                24*time.Hour + 4*time.Second,
		"PT0S":                  0,
		"PT90M":                 90 * time.Minute,
		"PT0.5S":                500 * time.Millisecond,
		"PT1.000000001S":        time.Second + 1,
		"PT9223372036.8S":       9223372036800 * time.Millisecond,
		"PT9223372036.8547758S": math.MaxInt64 - 7,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "P", "PT", "T5M", "5M", "P1DT", "P1Y", "P1M", "P1Y2DT1S", "PT1D", "P1H", "P5S", "-PT5M", "PT-5M", "P-1D", "+PT5M", "pt5m", "PT5m",
		" PT5M", "PT5M ", "PT5M3H", "PT5S5S", "PT5", "PTM", "PTS", "PT.5S", "PT5.S", "PT1.5M", "P0.5D", "P1.5W", "PT1.0000000001S", "PT1,5S",
		"P1W1D", "P1WT1H", "P1DT1W", "PT1e3S", "PT1_000S", "PT٣S", "P1D2DT1S", "PTT1S", "PT1HT1S", "PT5M\x00",
		"PT9223372037S", "PT9223372036.9S", "P106752D", "P15251W", "PT99999999999999999999S", "P106751DT24H",
		"PT" + string(make([]byte, 100)) + "S",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestWait(t *testing.T) {
	type headers = map[string]v1alpha1.HeaderValue
	failed := metav1.NewTime(testNow.Add(-time.Hour))
	for _, tc := range []struct {
		name     string
		cooldown string
		headers  headers
		date     *metav1.Time
		want     time.Duration
	}{
		{name: "none", want: 0},
		{name: "a duration", cooldown: "PT5M", want: 5 * time.Minute},
		{name: "a duration above the cap", cooldown: "P2D", want: MaxWait},
		{name: "a duration below a second", cooldown: "PT0.001S", want: time.Second},
		{name: "a duration whatever the header says", cooldown: "PT5M", headers: headers{"Retry-After": "7"}, want: 5 * time.Minute},

		{name: "seconds", cooldown: "header:retry-after", headers: headers{"Retry-After": "90"}, want: 90 * time.Second},
		{name: "a name in any case", cooldown: "header:Retry-After", headers: headers{"RETRY-AFTER": "90"}, want: 90 * time.Second},
		{name: "white space around the value", cooldown: "header:retry-after", headers: headers{"retry-after": " 90\t"}, want: 90 * time.Second},
		{name: "another header", cooldown: "header:x-wait", headers: headers{"Retry-After": "90", "X-Wait": "7"}, want: 7 * time.Second},
		{name: "no such header", cooldown: "header:x-wait", headers: headers{"Retry-After": "90"}, want: 0},
		{name: "no headers", cooldown: "header:retry-after", want: 0},
		{name: "two spellings, the first in byte order", cooldown: "header:retry-after", headers: headers{"retry-after": "5", "Retry-After": "7", "RETRY-after": "9"}, want: 9 * time.Second},
		{name: "at once", cooldown: "header:retry-after", headers: headers{"retry-after": "0"}, want: time.Second},
		{name: "a day", cooldown: "header:retry-after", headers: headers{"retry-after": "86400"}, want: MaxWait},
		{name: "more than a day", cooldown: "header:retry-after", headers: headers{"retry-after": "86401"}, want: MaxWait},
		{name: "the longest number", cooldown: "header:retry-after", headers: headers{"retry-after": "999999999"}, want: MaxWait},
		{name: "a point in time is no wait", cooldown: "header:retry-after", headers: headers{"retry-after": "1781683200"}, want: 0},
		{name: "more than an integer holds", cooldown: "header:retry-after", headers: headers{"retry-after": "99999999999999999999"}, want: 0},
		{name: "a fraction", cooldown: "header:retry-after", headers: headers{"retry-after": "1.5"}, want: 0},
		{name: "negative", cooldown: "header:retry-after", headers: headers{"retry-after": "-5"}, want: 0},
		{name: "a sign", cooldown: "header:retry-after", headers: headers{"retry-after": "+5"}, want: 0},
		{name: "a unit", cooldown: "header:retry-after", headers: headers{"retry-after": "5s"}, want: 0},
		{name: "two values", cooldown: "header:retry-after", headers: headers{"retry-after": "5, 7"}, want: 0},
		{name: "empty", cooldown: "header:retry-after", headers: headers{"retry-after": ""}, want: 0},
		{name: "digits of another script", cooldown: "header:retry-after", headers: headers{"retry-after": "٣"}, want: 0},

		{name: "a date, against now", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 08:02:00 GMT"}, want: 2 * time.Minute},
		{name: "a date in the old format", cooldown: "header:retry-after", headers: headers{"retry-after": "Wednesday, 17-Jun-26 08:02:00 GMT"}, want: 2 * time.Minute},
		{name: "a date, against the answer's", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 08:02:00 GMT", "DATE": "Wed, 17 Jun 2026 08:01:30 GMT"}, want: 30 * time.Second},
		{name: "a date, against the report's", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 07:00:10 GMT", "Date": "Wed, 17 Jun 2026 08:01:30 GMT"}, date: &failed, want: 10 * time.Second},
		{name: "a date, against now where the answer's is broken", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 08:02:00 GMT", "Date": "today"}, want: 2 * time.Minute},
		{name: "a date, against now where the report's is zero", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 08:02:00 GMT"}, date: &metav1.Time{}, want: 2 * time.Minute},
		{name: "this very moment", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 08:00:00 GMT"}, want: time.Second},
		{name: "a past date", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 17 Jun 2026 07:59:59 GMT"}, want: 0},
		{name: "a date far away", cooldown: "header:retry-after", headers: headers{"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, want: MaxWait},
		{name: "a date that is none", cooldown: "header:retry-after", headers: headers{"retry-after": "Wed, 31 Jun 2026 08:02:00 GMT"}, want: 0},
		{name: "a date in another format", cooldown: "header:retry-after", headers: headers{"retry-after": "2026-06-17T08:02:00Z"}, want: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := named("rule")
			p.Cooldown = tc.cooldown
			e := v1alpha1.ToolError{Headers: tc.headers, Date: tc.date}
			rules := compiled(t, layer("project", p))
			for range 20 { // the order of a map's keys is different each time
				if got := rules.Classify(Call{Tool: "tool"}, &e, testNow).Wait; got != tc.want {
					t.Fatalf("wait %v, want %v", got, tc.want)
				}
			}
		})
	}
}
