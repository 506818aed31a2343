package redact

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/internal/redact/canary"
)

// benchBody is 64 KiB of a log in JSON, without secrets: plain has none of the words beside which secrets stand.
func benchBody(plain bool) string {
	var b strings.Builder
	for i := 0; b.Len() < 64<<10; i++ {
		fmt.Fprintf(&b, `{"id":%d,"at":"2026-05-23T14:%02d:00Z","level":"info","msg":"request %x served from cache in %d ms"},`, i, i%60, i*7919, i%900)
		if !plain && i%8 == 0 {
			b.WriteString(`{"error":"invalid_token","message":"The access token expired, use another key","path":"https://api.example.com/v1/users/17"},`)
		}
	}
	return b.String()[:64<<10]
}

// BenchmarkText searches 64 KiB for secrets and compares that, in the same run, with a plain loop over all expressions.
func BenchmarkText(b *testing.B) {
	all, err := canary.All(1)
	if err != nil {
		b.Fatal(err)
	}
	var secrets strings.Builder
	for secrets.Len() < 64<<10 {
		for _, c := range all {
			secrets.WriteString(c.Text + "\n")
		}
	}
	e := standard()
	for _, tc := range []struct{ name, body string }{
		{"without keywords", benchBody(true)},
		{"with words such as token", benchBody(false)},
		{"full of secrets", secrets.String()[:64<<10]},
		{"the beginning of a token, again and again", strings.Repeat("-eyJ", 16<<10)},
		{"a name, again and again", strings.Repeat(`"password":"`, 64<<10/12)},
		{"all prefixes, again and again", strings.Repeat(strings.Join(e.finder.texts, " "), 64)[:64<<10]},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.SetBytes(int64(len(tc.body)))
			b.ReportAllocs()
			for b.Loop() {
				_ = Text(tc.body)
			}
			own := b.Elapsed() / time.Duration(b.N)
			began := time.Now()
			plainly(e, tc.body)
			b.ReportMetric(float64(time.Since(began))/float64(own), "x-vs-loop")
		})
	}
}
