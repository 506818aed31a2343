package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// BenchmarkClassifyBody decides on a 64 KiB body in which none of the rules' texts stands, and compares that, in the
// same run, with a plain first-match loop: one strings.Contains for each text of the same rules, over a body that is
// in lower case already.
func BenchmarkClassifyBody(b *testing.B) {
	nouns := []string{"connection", "replica", "invoice", "tenant", "cursor", "bucket", "webhook", "mailbox", "catalogue", "ledger"}
	faults := []string{"has been archived", "is out of seats", "rejected the batch", "lost its quorum", "was moved away",
		"needs a new contract", "must be rebuilt", "refuses to start", "ran out of inodes", "is being drained"}
	var body strings.Builder
	for i := 0; body.Len() < 64<<10; i++ {
		fmt.Fprintf(&body, `{"id":%d,"at":"2026-05-23T14:%02d:00Z","level":"info","msg":"request %x served from cache in %d ms"},`, i, i%60, i*7919, i%900)
	}
	report := v1alpha1.ToolError{HTTPStatus: ptr[int32](200), Body: body.String()[:64<<10]}
	lower := strings.ToLower(report.Body)
	for _, n := range []int{12, 100, 1000} {
		patterns := make([]v1alpha1.ErrorPattern, 0, n)
		var needles []string
		for i := range n {
			text := fmt.Sprintf("%s %d %s", nouns[i%len(nouns)], i, faults[i/len(nouns)%len(faults)])
			needles = append(needles, text)
			patterns = append(patterns, pattern(fmt.Sprintf("rule-%d", i), v1alpha1.ErrorMatch{BodyContains: []v1alpha1.Substring{v1alpha1.Substring(text)}}))
		}
		rules := compiled(b, layer("project", patterns...))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(report.Body)))
			for b.Loop() {
				if got := rules.Classify(Call{Tool: "tool"}, &report, testNow); got.RuleID != fallbackID {
					b.Fatalf("rule %s", got.RuleID)
				}
			}
			own := b.Elapsed() / time.Duration(b.N)
			loops := max(3, 2000/n)
			began := time.Now()
			for range loops {
				for _, needle := range needles {
					if strings.Contains(lower, needle) {
						b.Fatal(needle)
					}
				}
			}
			b.ReportMetric(float64(time.Since(began)/time.Duration(loops))/float64(own), "x-vs-loop")
		})
	}
}

// BenchmarkDecision is what the specification's twelve rules take for each kind of report that they decide without a
// body. To tell failures apart, their message is read; that is not measured here.
func BenchmarkDecision(b *testing.B) {
	layer := twelve()
	for i := range layer.Entries {
		layer.Entries[i].Pattern.Fingerprint = false
	}
	rules := compiled(b, layer)
	for _, bc := range []struct {
		name   string
		report v1alpha1.ToolError
		want   string
	}{
		{"status", v1alpha1.ToolError{HTTPStatus: ptr[int32](503), ExceptionTypes: texts("SomeError"), Body: "busy"}, "http-5xx"},
		{"full name", v1alpha1.ToolError{ExceptionTypes: texts("java.net.ConnectException")}, "connect-refused"},
		{"last segment of the rule's name", v1alpha1.ToolError{ExceptionTypes: texts("SocketTimeoutException")}, "socket-timeout"},
		{"last segment of the reported name", v1alpha1.ToolError{ExceptionTypes: texts("com.acme.tools.SchemaViolation")}, "schema-violation"},
		{"third of the chain", v1alpha1.ToolError{ExceptionTypes: texts("com.acme.CallError", "java.io.IOException", "java.net.ConnectException")}, "connect-refused"},
		{"type of no rule", v1alpha1.ToolError{ExceptionTypes: texts("com.acme.CallError"), Message: "failed"}, fallbackID},
		{"nothing", v1alpha1.ToolError{Message: "failed"}, fallbackID},
	} {
		b.Run(bc.name, func(b *testing.B) {
			if got := rules.Classify(Call{Tool: "tool"}, &bc.report, testNow); got.RuleID != bc.want {
				b.Fatalf("rule %s", got.RuleID)
			}
			b.ReportAllocs()
			for b.Loop() {
				rules.Classify(Call{Tool: "tool"}, &bc.report, testNow)
			}
		})
	}
}
