package classify

import (
	"slices"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// pools are what the rules and reports of FuzzCandidates are made of.
var pools = struct {
	statuses []int32
	types    []string
	tools    []v1alpha1.MatchToolName
}{
	statuses: []int32{-1, 0, 100, 400, 401, 403, 499, 500, 503, 599, 999, 1000},
	types: []string{"", "*", ".", "A", "*A", "a.A", "b.A", "a$A", "a:A", `a\A`, "a/b.A", "ConnectException", "java.net.ConnectException",
		"com.acme.ConnectException", "SocketTimeoutException", "java.net.SocketTimeoutException", "net.OpError", "*net.OpError",
		"A.", "1234567.A", "12345678.A", "a.long.package.name.for.A", `Acme\Http\Timeout`, "Timeout", "Ä.A", strings.Repeat("x", 250) + ".A"},
	tools: []v1alpha1.MatchToolName{"tool", "other"},
}

// dice takes what it decides from the fuzzer's bytes, and zeros behind them.
type dice struct{ bytes []byte }

func (d *dice) n(sides int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % sides
}

func (d *dice) match() (m v1alpha1.ErrorMatch) {
	switch status := max(minStatus, min(maxStatus, pools.statuses[d.n(len(pools.statuses))])); d.n(4) {
	case 1:
		m.HTTPStatus = ptr(status)
	case 2:
		m.HTTPStatusRange = []int32{status, min(maxStatus, status+99)}
	case 3:
		m.HTTPStatusIn = []int32{status, 503}
	}
	for range d.n(4) {
		m.ExceptionType = append(m.ExceptionType, v1alpha1.MatchText(pools.types[1+d.n(len(pools.types)-1)]))
	}
	if d.n(5) == 1 {
		m.ToolName = pools.tools[d.n(2):]
	}
	if d.n(5) == 1 {
		m.ErrorCode = "E1"
	}
	return m
}

func (d *dice) report() (e v1alpha1.ToolError) {
	if d.n(3) > 0 {
		e.HTTPStatus = ptr(pools.statuses[d.n(len(pools.statuses))])
	}
	for range d.n(12) {
		e.ExceptionTypes = append(e.ExceptionTypes, v1alpha1.MatchText(pools.types[d.n(len(pools.types))]))
	}
	e.ErrorCode = []string{"", "E1", "E2"}[d.n(3)]
	return e
}

// agree is what typeName is documented to do, written down once more.
func agree(a, b v1alpha1.MatchText) bool {
	x, y := strings.TrimPrefix(string(a), "*"), strings.TrimPrefix(string(b), "*")
	last := func(s string) string { return s[strings.LastIndexAny(s, `./$:\`)+1:] }
	return x == y || last(x) == y || x == last(y)
}

// plainly is the oracle: whether a rule matches, one selector after the other.
func plainly(m *v1alpha1.ErrorMatch, e *v1alpha1.ToolError, tool string) bool {
	status, has := int32(0), e.HTTPStatus != nil
	if has {
		status = *e.HTTPStatus
	}
	typed := m.ExceptionType == nil
	for _, want := range m.ExceptionType {
		typed = typed || slices.ContainsFunc(e.ExceptionTypes, func(got v1alpha1.MatchText) bool { return agree(want, got) })
	}
	return typed &&
		(m.HTTPStatus == nil || has && *m.HTTPStatus == status) &&
		(m.HTTPStatusRange == nil || has && m.HTTPStatusRange[0] <= status && status <= m.HTTPStatusRange[1]) &&
		(m.HTTPStatusIn == nil || has && slices.Contains(m.HTTPStatusIn, status)) &&
		(m.ToolName == nil || slices.Contains(m.ToolName, v1alpha1.MatchToolName(tool))) &&
		(m.ErrorCode == "" || m.ErrorCode == e.ErrorCode)
}

// FuzzCandidates compares the rule that decides a report with the first that matches plainly.
func FuzzCandidates(f *testing.F) {
	for seed := range byte(200) {
		data := make([]byte, 0, 900)
		for x := uint32(seed) + 1; len(data) < cap(data); {
			x = x*1664525 + 1013904223
			data = append(data, byte(x>>24))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		patterns := make([]v1alpha1.ErrorPattern, 1+d.n(150))
		for i := range patterns {
			patterns[i] = pattern("rule-"+strings.Repeat("i", i%3)+string(rune('a'+i/26))+string(rune('a'+i%26)), d.match())
		}
		rules, _ := Compile(layer("p", patterns...))
		for range 8 {
			e := d.report()
			want := fallbackID
			for _, entry := range rules.Entries() {
				if plainly(&entry.Pattern.Match, &e, "tool") {
					want = string(entry.Pattern.ID)
					break
				}
			}
			if got := rules.Classify(Call{Tool: "tool"}, &e, testNow); got.RuleID != want {
				t.Fatalf("%+v is decided by %s, want %s", e, got.RuleID, want)
			}
		}
	})
}

// TestNamesThatShareABucket costs no more than a search by halves: their first and last eight bytes are the same.
func TestNamesThatShareABucket(t *testing.T) {
	var names []v1alpha1.MatchText
	for i := range 64 {
		names = append(names, v1alpha1.MatchText("package_"+strings.Repeat("x", i)+strings.Repeat("y", 63-i)+"Exception"))
	}
	rules := compiled(t, layer("p", pattern("rule", v1alpha1.ErrorMatch{ExceptionType: names})))
	for _, name := range names {
		if got := rules.Classify(Call{}, &v1alpha1.ToolError{ExceptionTypes: texts("a." + string(name))}, testNow); got.RuleID != "rule" {
			t.Errorf("%s is decided by %s", name, got.RuleID)
		}
		other := strings.Replace(string(name), "x", "z", 1) + "Exception"
		if got := rules.Classify(Call{}, &v1alpha1.ToolError{ExceptionTypes: texts(other)}, testNow); got.RuleID != fallbackID {
			t.Errorf("%s is decided by %s", other, got.RuleID)
		}
	}
}
