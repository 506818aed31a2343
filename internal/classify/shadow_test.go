package classify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// shadowsOf says which entries are never reached, each as "entry by entry".
func shadowsOf(rules *Rules) []string {
	var found []string
	for _, s := range rules.Shadows() {
		found = append(found, fmt.Sprintf("%s by %s", s.Entry.Pattern.ID, s.By.Pattern.ID))
	}
	return found
}

func TestShadows(t *testing.T) {
	type match = v1alpha1.ErrorMatch
	status := ptr[int32]
	headers := func(all ...v1alpha1.HeaderMatch) []v1alpha1.HeaderMatch { return all }
	field := func(pointer string, in ...string) []v1alpha1.JSONFieldMatch {
		return []v1alpha1.JSONFieldMatch{{Pointer: pointer, In: in}}
	}
	equals, contains := headers(v1alpha1.HeaderMatch{Name: "X-Shop", Equals: "closed today"}), headers(v1alpha1.HeaderMatch{Name: "x-shop", Contains: "closed"})
	present, absent := headers(v1alpha1.HeaderMatch{Name: "x-shop", Present: ptr(true)}), headers(v1alpha1.HeaderMatch{Name: "x-shop", Present: ptr(false)})
	for _, tc := range []struct {
		name           string
		earlier, later match
		want           bool
	}{
		{"an empty match leaves nothing", match{}, match{BodyContains: subs("text")}, true},
		{"nor does it leave another empty one", match{}, match{}, true},
		{"an empty match is left something", match{HTTPStatus: status(403)}, match{}, false},
		{"the same", match{HTTPStatus: status(403), ErrorCode: "E"}, match{HTTPStatus: status(403), ErrorCode: "E"}, true},

		{"a status takes what asks for more", match{HTTPStatus: status(403)}, match{HTTPStatus: status(403), BodyContains: subs("quota")}, true},
		{"what asks for more takes not all of a status", match{HTTPStatus: status(403), BodyContains: subs("quota")}, match{HTTPStatus: status(403)}, false},
		{"another status", match{HTTPStatus: status(403)}, match{HTTPStatus: status(404)}, false},
		{"a range takes a status", match{HTTPStatusRange: []int32{500, 599}}, match{HTTPStatus: status(503)}, true},
		{"a range takes a narrower one", match{HTTPStatusRange: []int32{500, 599}}, match{HTTPStatusRange: []int32{502, 504}}, true},
		{"a range does not take a wider one", match{HTTPStatusRange: []int32{502, 504}}, match{HTTPStatusRange: []int32{500, 599}}, false},
		{"a range takes a list inside it", match{HTTPStatusRange: []int32{500, 599}}, match{HTTPStatusIn: []int32{500, 502}}, true},
		{"a range does not take a list that leaves it", match{HTTPStatusRange: []int32{500, 599}}, match{HTTPStatusIn: []int32{499, 502}}, false},
		{"a list takes a list of some of it", match{HTTPStatusIn: []int32{500, 502, 504}}, match{HTTPStatusIn: []int32{504, 500}}, true},
		{"a list does not take a status between", match{HTTPStatusIn: []int32{500, 502}}, match{HTTPStatus: status(501)}, false},
		{"a list takes a range of its own", match{HTTPStatusIn: []int32{502, 503, 504}}, match{HTTPStatusRange: []int32{502, 504}}, true},
		{"a list does not take a range with holes", match{HTTPStatusIn: []int32{502, 504}}, match{HTTPStatusRange: []int32{502, 504}}, false},
		{"a list does not take a long range", match{HTTPStatusIn: []int32{100, 999}}, match{HTTPStatusRange: []int32{100, 999}}, false},
		{"a list cut by a range", match{HTTPStatusIn: []int32{502, 504}}, match{HTTPStatusIn: []int32{403, 502, 504, 700}, HTTPStatusRange: []int32{500, 600}}, true},
		{"every status is not no status", match{HTTPStatusRange: []int32{100, 999}}, match{ErrorCode: "E"}, false},
		{"what matches nothing is nobody's shadow", match{}, match{HTTPStatus: status(403), HTTPStatusRange: []int32{500, 599}}, false},

		{"some of the tools", match{ToolName: []v1alpha1.MatchToolName{"a", "b"}}, match{ToolName: []v1alpha1.MatchToolName{"b"}}, true},
		{"another tool too", match{ToolName: []v1alpha1.MatchToolName{"a", "b"}}, match{ToolName: []v1alpha1.MatchToolName{"b", "c"}}, false},
		{"every tool", match{ToolName: []v1alpha1.MatchToolName{"a"}}, match{ErrorCode: "E"}, false},
		{"one of the codes", match{ErrorCodeIn: []string{"E", "F"}}, match{ErrorCode: "F"}, true},
		{"more codes", match{ErrorCode: "F"}, match{ErrorCodeIn: []string{"E", "F"}}, false},

		{"the endpoint takes an unknown host", match{Host: "endpoint"}, match{Host: "unknown"}, true},
		{"an unknown host is not every endpoint", match{Host: "unknown"}, match{Host: "endpoint"}, false},
		{"a foreign host is no endpoint", match{Host: "endpoint"}, match{Host: "foreign"}, false},
		{"the same host", match{Host: "foreign"}, match{Host: "foreign"}, true},
		{"any host", match{Host: "endpoint"}, match{ErrorCode: "E"}, false},

		{"a bare type takes a qualified one", match{ExceptionType: texts("ConnectException")}, match{ExceptionType: texts("java.net.ConnectException")}, true},
		{"a qualified type does not take the bare one", match{ExceptionType: texts("java.net.ConnectException")}, match{ExceptionType: texts("ConnectException")}, false},
		{"nor another qualified one", match{ExceptionType: texts("java.net.ConnectException")}, match{ExceptionType: texts("com.acme.ConnectException")}, false},
		{"a pointer's star does not count", match{ExceptionType: texts("*net.OpError")}, match{ExceptionType: texts("net.OpError")}, true},
		{"one type of two is not taken", match{ExceptionType: texts("A", "B")}, match{ExceptionType: texts("x.A", "C")}, false},
		{"no type asked for", match{ExceptionType: texts("A")}, match{HTTPStatus: status(403)}, false},

		{"the value of a header holds a text", match{Header: contains}, match{Header: equals}, true},
		{"a text is not the value of a header", match{Header: equals}, match{Header: contains}, false},
		{"a header with a value is there", match{Header: present}, match{Header: equals}, true},
		{"a header with a text is there", match{Header: present}, match{Header: contains}, true},
		{"a header that is there may hold anything", match{Header: contains}, match{Header: present}, false},
		{"a header that is not there", match{Header: absent}, match{Header: absent}, true},
		{"a header that is there is not absent", match{Header: absent}, match{Header: present}, false},
		{"a header's longer text", match{Header: contains}, match{Header: headers(v1alpha1.HeaderMatch{Name: "x-shop", Contains: "is closed"})}, true},
		{"a header's text in another case", match{Header: contains}, match{Header: headers(v1alpha1.HeaderMatch{Name: "x-shop", Contains: "Is CLOSED"})}, true},
		{"a header's value in another case", match{Header: equals}, match{Header: headers(v1alpha1.HeaderMatch{Name: "x-shop", Equals: "Closed Today"})}, true},
		{"another header", match{Header: present}, match{Header: headers(v1alpha1.HeaderMatch{Name: "x-other", Present: ptr(true)})}, false},
		{"one header of two", match{Header: present}, match{Header: append(headers(v1alpha1.HeaderMatch{Name: "x-other", Present: ptr(true)}), equals...)}, true},
		{"two headers of one", match{Header: append(headers(v1alpha1.HeaderMatch{Name: "x-other", Present: ptr(true)}), equals...)}, match{Header: equals}, false},

		{"some of the values of a field", match{JSONField: field("/a", "1", "2")}, match{JSONField: field("/a", "2")}, true},
		{"more values of a field", match{JSONField: field("/a", "1")}, match{JSONField: field("/a", "1", "2")}, false},
		{"another field", match{JSONField: field("/a", "1")}, match{JSONField: field("/b", "1")}, false},
		{"a field and its status", match{JSONField: field("/a", "1")}, match{JSONField: field("/a", "1"), HTTPStatus: status(200)}, true},
		{"a field is no error code", match{ErrorCode: "1"}, match{JSONField: field("/error/code", "1")}, false},

		{"a text within a text, in another case", match{BodyContains: subs("Quota")}, match{BodyContains: subs("the QUOTA is used up")}, true},
		{"a text around a text", match{BodyContains: subs("quota is used up")}, match{BodyContains: subs("quota")}, false},
		{"each text holds one", match{BodyContains: subs("quota", "limit")}, match{BodyContains: subs("over the limit", "quota is used up")}, true},
		{"a text that holds none", match{BodyContains: subs("quota", "limit")}, match{BodyContains: subs("over the limit", "budget")}, false},
		{"one of all texts", match{BodyContains: subs("quota", "limit")}, match{BodyContainsAll: subs("budget", "limit")}, true},
		{"all of all texts", match{BodyContainsAll: subs("quota", "limit")}, match{BodyContainsAll: subs("limit", "budget", "quota")}, true},
		{"not all of all texts", match{BodyContainsAll: subs("quota", "limit")}, match{BodyContainsAll: subs("limit", "budget")}, false},
		{"all of any text", match{BodyContainsAll: subs("quota")}, match{BodyContains: subs("quota one", "quota two")}, true},
		{"all of one text", match{BodyContainsAll: subs("quota", "limit")}, match{BodyContains: subs("limit of the quota")}, true},
		{"all together of both", match{BodyContainsAll: subs("quota", "limit")}, match{BodyContains: subs("quota one", "quota two"), BodyContainsAll: subs("the limit")}, true},
		{"a text of the message", match{MessageContains: subs("quota")}, match{MessageContains: subs("the quota")}, true},
		{"all texts of the message", match{MessageContainsAll: subs("quota")}, match{MessageContainsAll: subs("the quota", "that")}, true},
		{"the message is not the body", match{MessageContains: subs("quota")}, match{BodyContains: subs("quota")}, false},
		{"the body is not the message", match{BodyContains: subs("quota")}, match{MessageContains: subs("quota")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want []string
			if tc.want {
				want = []string{"later by earlier"}
			}
			rules := compiled(t, layer("p", pattern("earlier", tc.earlier), pattern("later", tc.later)))
			if diff := cmp.Diff(want, shadowsOf(rules)); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShadowsNameTheFirstThatTakesAll(t *testing.T) {
	five := v1alpha1.ErrorMatch{HTTPStatusRange: []int32{500, 599}}
	rules := compiled(t, layer("p", named("fallback"), pattern("other", v1alpha1.ErrorMatch{ErrorCode: "E"}), pattern("first", five), pattern("second", five),
		pattern("third", v1alpha1.ErrorMatch{HTTPStatus: ptr[int32](503)})))
	want := []string{"second by first", "third by first"}
	if diff := cmp.Diff(want, shadowsOf(rules)); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
	got := rules.Shadows()
	if got[0].By.Layer != "p" || got[0].Entry.Path != "spec.patterns[3]" {
		t.Errorf("it does not say where they stand: %+v", got[0])
	}
	got[0] = Shadow{}
	if diff := cmp.Diff(want, shadowsOf(rules)); diff != "" {
		t.Errorf("shadows after the caller changed its copy (-want +got):\n%s", diff)
	}
	if got := (*Rules)(nil).Shadows(); got != nil {
		t.Errorf("no rules have shadows: %v", got)
	}
}

func TestNoBundledRuleIsShadowed(t *testing.T) {
	if got := shadowsOf(compiled(t, Bundled())); got != nil {
		t.Errorf("never reached: %q", got)
	}
}

// world draws rules and reports from so few values that they often meet.
type world struct{ *rand.Rand }

func (w world) maybe(n int, do func()) {
	if w.IntN(n) == 0 {
		do()
	}
}

// some draws one to three values.
func some[T any](w world, all ...T) []T {
	var drawn []T
	for range 1 + w.IntN(3) {
		drawn = append(drawn, all[w.IntN(len(all))])
	}
	return drawn
}

var (
	worldTexts = []string{"abab", "abAba", "babab", "cabab", "ababc", "xbabax", "abababab"}
	worldTypes = []string{"A", "x.A", "y.A", "*x.A", "B", "x/B"}
	worldCodes = []string{"1", "2", "true"}
)

func (w world) match() v1alpha1.ErrorMatch {
	var m v1alpha1.ErrorMatch
	w.maybe(5, func() { m.ToolName = some[v1alpha1.MatchToolName](w, "a", "b", "c") })
	w.maybe(4, func() { m.HTTPStatus = ptr(some[int32](w, 500, 501, 502)[0]) })
	w.maybe(4, func() { first := 499 + w.Int32N(4); m.HTTPStatusRange = []int32{first, first + w.Int32N(4)} })
	w.maybe(4, func() { m.HTTPStatusIn = some[int32](w, 499, 500, 501, 502, 503) })
	w.maybe(4, func() { m.Host = some[v1alpha1.HostMatch](w, "endpoint", "foreign", "unknown")[0] })
	w.maybe(4, func() { m.ExceptionType = some(w, texts(worldTypes...)...) })
	w.maybe(6, func() { m.ErrorCode = some(w, worldCodes...)[0] })
	w.maybe(6, func() { m.ErrorCodeIn = some(w, worldCodes...) })
	w.maybe(4, func() {
		m.Header = some(w, v1alpha1.HeaderMatch{Name: "h", Equals: "ab"}, v1alpha1.HeaderMatch{Name: "h", Equals: "aB"}, v1alpha1.HeaderMatch{Name: "h", Contains: "AB"}, v1alpha1.HeaderMatch{Name: "H", Contains: "a"}, v1alpha1.HeaderMatch{Name: "h", Contains: "b"},
			v1alpha1.HeaderMatch{Name: "h", Present: ptr(true)}, v1alpha1.HeaderMatch{Name: "g", Present: ptr(false)}, v1alpha1.HeaderMatch{Name: "g", Present: ptr(true)}, v1alpha1.HeaderMatch{Name: "g", Contains: "ab"})
	})
	w.maybe(4, func() {
		m.JSONField = some(w, v1alpha1.JSONFieldMatch{Pointer: "/error/code", In: some(w, worldCodes...)}, v1alpha1.JSONFieldMatch{Pointer: "/text", In: some(w, worldTexts...)})
	})
	for _, list := range []*[]v1alpha1.Substring{&m.BodyContains, &m.BodyContainsAll, &m.MessageContains, &m.MessageContainsAll} {
		w.maybe(4, func() { *list = some(w, subs(worldTexts...)...) })
	}
	return m
}

// narrower draws a match that often, not always, matches less.
func (w world) narrower(m v1alpha1.ErrorMatch) v1alpha1.ErrorMatch {
	more := w.match()
	narrow := *m.DeepCopy()
	w.maybe(2, func() { narrow.HTTPStatus, narrow.HTTPStatusIn = more.HTTPStatus, more.HTTPStatusIn })
	w.maybe(2, func() { narrow.Header = append(narrow.Header, more.Header...) })
	w.maybe(3, func() { narrow.Header = more.Header })
	w.maybe(3, func() { narrow.ExceptionType = more.ExceptionType })
	w.maybe(3, func() { narrow.Host = more.Host })
	w.maybe(2, func() { narrow.BodyContainsAll = append(narrow.BodyContainsAll, more.BodyContainsAll...) })
	w.maybe(3, func() { narrow.BodyContains = more.BodyContains })
	w.maybe(3, func() { narrow.MessageContains = more.MessageContains })
	w.maybe(4, func() { narrow.JSONField = more.JSONField })
	return narrow
}

// report draws an error that a match is likely to match.
func (w world) report(m *v1alpha1.ErrorMatch) (Call, v1alpha1.ToolError) {
	call := Call{Tool: some(w, "a", "b", "c")[0], EndpointHost: some(w, "", "one", "two.example")[0]}
	e := v1alpha1.ToolError{Host: some(w, "", "one", "two.example", "three.example")[0], Headers: map[string]v1alpha1.HeaderValue{}}
	if w.IntN(6) > 0 {
		e.HTTPStatus = ptr(498 + w.Int32N(7))
	}
	w.maybe(2, func() { e.ExceptionTypes = some(w, append(texts(worldTypes...), m.ExceptionType...)...) })
	w.maybe(2, func() { e.ErrorCode = some(w, worldCodes...)[0] })
	w.maybe(2, func() { e.Headers["H"] = some[v1alpha1.HeaderValue](w, "ab", " Ab ", "A", "caB", "")[0] })
	w.maybe(4, func() { e.Headers["g"] = some[v1alpha1.HeaderValue](w, "ab", "b")[0] })
	text := strings.Join(append(some(w, append(worldTexts, "nothing")...), asText(m.BodyContainsAll)...), " ")
	w.maybe(2, func() { e.Message = strings.Join(append(some(w, worldTexts...), asText(m.MessageContainsAll)...), " ") })
	switch w.IntN(3) {
	case 0:
		e.Body = text
	case 1:
		e.Body = fmt.Sprintf(`{"error":{"code":%s},"text":%q,"all":%q}`, some(w, worldCodes...)[0], some(w, worldTexts...)[0], text)
	}
	return call, e
}

func asText(all []v1alpha1.Substring) []string {
	var out []string
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

// TestAShadowIsNeverReached draws pairs of rules and, where the later one is said to be unreachable, reports that
// try to reach it.
func TestAShadowIsNeverReached(t *testing.T) {
	w := world{rand.New(rand.NewPCG(3, 4))}
	claimed, alive := 0, 0
	for range 20_000 {
		m := w.match()
		earlier, later := pattern("earlier", m), pattern("later", w.narrower(m))
		rules := compiled(t, layer("p", earlier, later))
		if len(rules.Shadows()) == 0 {
			continue
		}
		claimed++
		alone, matched := compiled(t, layer("p", later)), false
		for range 60 {
			call, e := w.report(&later.Match)
			if alone.Classify(call, &e, testNow).RuleID != "later" {
				continue
			}
			matched = true
			if got := rules.Classify(call, &e, testNow).RuleID; got != "earlier" {
				t.Fatalf("%s decides a report that the earlier rule is said to take\nearlier: %+v\nlater: %+v\nreport: %+v %+v", got, earlier.Match, later.Match, call, e)
			}
		}
		if matched {
			alive++
		}
	}
	t.Logf("%d pairs claimed, of which the later rule of %d was met", claimed, alive)
	if claimed < 1000 || alive < 500 {
		t.Errorf("too few to say anything: %d pairs claimed, of which the later rule of %d was met", claimed, alive)
	}
}

// TestShadowsAreFoundQuickly: entries whose texts all but cover one another are no lever to keep the manager busy.
func TestShadowsAreFoundQuickly(t *testing.T) {
	many := func(text func(rule, needle int) string) []v1alpha1.ErrorPattern {
		patterns := make([]v1alpha1.ErrorPattern, maxEntries)
		for i := range patterns {
			needles := make([]v1alpha1.Substring, maxTexts)
			for j := range needles {
				needles[j] = v1alpha1.Substring(text(i, j))
			}
			patterns[i] = pattern(fmt.Sprintf("e%04d", i), v1alpha1.ErrorMatch{BodyContains: needles})
		}
		return patterns
	}
	for tc, patterns := range map[string][]v1alpha1.ErrorPattern{
		"texts of their own":          many(func(i, j int) string { return fmt.Sprintf("text %02d of %04d", j, i) }),
		"all but the last text alike": many(func(i, j int) string { return fmt.Sprintf("text %02d of %04d", j, i*(j/63)) }),
		"the same two letters in all texts": many(func(i, j int) string {
			return "aabb" + strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%012b", (i*maxTexts+j)*2654435761%4093))
		}),
	} {
		rules := compiled(t, layer("p", patterns...))
		start := time.Now()
		shadows := rules.Shadows()
		took := time.Since(start)
		t.Logf("%s: %s, %d shadows", tc, took, len(shadows))
		if took > 5*time.Second {
			t.Errorf("%s: took %s", tc, took)
		}
	}
}
