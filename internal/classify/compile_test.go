package classify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// named is a valid entry that matches everything.
func named(id string) v1alpha1.ErrorPattern { return pattern(id, v1alpha1.ErrorMatch{}) }

func placed(id, before string) v1alpha1.ErrorPattern {
	p := named(id)
	p.Before = v1alpha1.PatternID(before)
	return p
}

// order is the effective order as "layer:id".
func order(rules *Rules) string {
	var out []string
	for _, e := range rules.Entries() {
		out = append(out, e.Layer+":"+string(e.Pattern.ID))
	}
	return strings.Join(out, " ")
}

func TestCascade(t *testing.T) {
	bundled := layer("b", named("one"), named("two"), named("fallback"))
	lost := func(layer string, i int, id, before string) Problem {
		return Problem{Set: layer + "/set", Path: fmt.Sprintf("spec.patterns[%d]", i), ID: id,
			Message: fmt.Sprintf("before: %q leads to no entry; the entry is in force, before fallback", before)}
	}
	for _, tc := range []struct {
		name         string
		layers       []Layer
		want         string
		wantProblems []Problem
	}{
		{name: "one layer keeps its order", layers: []Layer{bundled}, want: "b:one b:two b:fallback"},
		{name: "the same id replaces in place", layers: []Layer{bundled, layer("t", named("one"))}, want: "t:one b:two b:fallback"},
		{name: "new ones stand before fallback in their order", layers: []Layer{bundled, layer("t", named("x"), named("y"))},
			want: "b:one b:two t:x t:y b:fallback"},
		{name: "the project beats the tenant", layers: []Layer{bundled, layer("t", named("one")), layer("p", named("one"))},
			want: "p:one b:two b:fallback"},
		{name: "the project's new ones stand behind the tenant's", layers: []Layer{bundled, layer("t", named("x")), layer("p", named("y"))},
			want: "b:one b:two t:x p:y b:fallback"},
		{name: "the project replaces the tenant's new one", layers: []Layer{bundled, layer("t", named("x"), named("y")), layer("p", named("x"))},
			want: "b:one b:two p:x t:y b:fallback"},
		{name: "a replaced fallback stays the last", layers: []Layer{bundled, layer("t", named("fallback"), named("x"))},
			want: "b:one b:two t:x t:fallback"},
		{name: "before an entry of a deeper layer", layers: []Layer{bundled, layer("t", placed("x", "two"), placed("y", "two"), named("z"))},
			want: "b:one t:x t:y b:two t:z b:fallback"},
		{name: "before an entry of the same layer, wherever it stands", layers: []Layer{bundled, layer("t", placed("x", "y"), placed("y", "z"), placed("z", "one"))},
			want: "t:x t:y t:z b:one b:two b:fallback"},
		{name: "before fallback is the default", layers: []Layer{bundled, layer("t", placed("x", "fallback"), named("y"))},
			want: "b:one b:two t:x t:y b:fallback"},
		{name: "before says nothing for an entry that replaces", layers: []Layer{bundled, layer("t", placed("two", "one"), placed("one", "nowhere"))},
			want: "t:one t:two b:fallback"},
		{name: "before an unknown entry", layers: []Layer{bundled, layer("t", placed("x", "nowhere"), named("y"))},
			want: "b:one b:two t:x t:y b:fallback", wantProblems: []Problem{lost("t", 0, "x", "nowhere")}},
		{name: "only the entry that leads nowhere is reported", layers: []Layer{bundled, layer("t", placed("x", "y"), placed("y", "nowhere"))},
			want: "b:one b:two t:x t:y b:fallback", wantProblems: []Problem{lost("t", 1, "y", "nowhere")}},
		{name: "before itself", layers: []Layer{bundled, layer("t", placed("x", "x"))},
			want: "b:one b:two t:x b:fallback", wantProblems: []Problem{lost("t", 0, "x", "x")}},
		{name: "a circle is broken at one place", layers: []Layer{bundled, layer("t", placed("x", "y"), placed("y", "x"))},
			want: "b:one b:two t:x t:y b:fallback", wantProblems: []Problem{lost("t", 1, "y", "x")}},
		{name: "before an entry of a higher layer", layers: []Layer{bundled, layer("t", placed("x", "y")), layer("p", named("y"))},
			want: "b:one b:two t:x p:y b:fallback", wantProblems: []Problem{lost("t", 0, "x", "y")}},
		{name: "without a fallback new ones stand at the end", layers: []Layer{layer("b", named("one")), layer("t", named("x"), placed("y", "one"))},
			want: "t:y b:one t:x"},
		{name: "a fallback of one's own stands at the end", layers: []Layer{layer("b", named("one")), layer("t", placed("fallback", "one"), named("x"))},
			want: "b:one t:x t:fallback"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, problems := Compile(tc.layers...)
			if diff := cmp.Diff(tc.want, order(rules)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantProblems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReplacingMergesNoFields: of the deeper entry only the place is left.
func TestReplacingMergesNoFields(t *testing.T) {
	higher := v1alpha1.ErrorPattern{ID: "http-403", Match: v1alpha1.ErrorMatch{ErrorCode: "sso"}, Signature: "sso", Classification: v1alpha1.Unclear}
	rules := compiled(t, Bundled(), layer("tenant", higher))
	want := Verdict{RuleID: "http-403", Signature: "sso", Class: v1alpha1.Unclear, Action: v1alpha1.HealthActionNone}
	if diff := cmp.Diff(want, rules.Classify(Call{Tool: "tool"}, &v1alpha1.ToolError{ErrorCode: "sso"}, testNow)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	if got := rules.Classify(Call{Tool: "tool"}, &v1alpha1.ToolError{HTTPStatus: ptr[int32](403)}, testNow).RuleID; got != "fallback" {
		t.Errorf("a plain 403 is still decided by %s", got)
	}
}

// TestABadEntryIsSkippedAlone: neither its layer nor its set nor another entry suffers.
func TestABadEntryIsSkippedAlone(t *testing.T) {
	bad := named("bad")
	bad.Classification, bad.Cooldown = "BROKEN", "5 minutes"
	worse := named("not an id")
	badTwo := named("two")
	badTwo.Signature = "?"
	sets := make([]v1alpha1.ErrorPatternSet, 2)
	for i, name := range []string{"a", "b"} {
		sets[i].Namespace, sets[i].Name = "team", name
	}
	sets[0].Spec.Patterns = []v1alpha1.ErrorPattern{bad, named("good"), worse, badTwo}
	sets[1].Spec.Patterns = []v1alpha1.ErrorPattern{named("good"), named("bad"), named("also-good")}

	rules, problems := Compile(layer("b", named("two"), named("fallback")), LayerOf("p", sets))
	if diff := cmp.Diff("b:two p:good p:bad p:also-good b:fallback", order(rules)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		`team/a spec.patterns[0] ("bad"): classification: "BROKEN" is not known; use one of TECHNICALLY_BROKEN, USER_SPECIFIC_TECHNICAL, USER_PERMISSION, USER_INPUT, INTERMITTENT, WORKING, UNCLEAR; cooldown: not an ISO-8601 duration: "5 minutes"; write for example PT30S, PT5M, PT24H or P7D`,
		`team/a spec.patterns[2] ("not an id"): id: "not an id" is not allowed; use letters, digits, '-', '_' and '.', with a letter or digit at both ends`,
		`team/a spec.patterns[3] ("two"): signature: "?" is not allowed; use letters, digits, '-', '_' and '.', with a letter or digit at both ends`,
		`team/b spec.patterns[0] ("good"): id: stands earlier too, at team/a spec.patterns[1], and the first counts; use an id of its own`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestEntriesSayWhereTheyCameFrom(t *testing.T) {
	rules := compiled(t, layer("tenant", named("x")))
	want := []EffectiveEntry{{Entry: Entry{Pattern: named("x"), Set: "tenant/set", Path: "spec.patterns[0]"}, Layer: "tenant"}}
	got := rules.Entries()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	got[0] = EffectiveEntry{}
	if diff := cmp.Diff(want, rules.Entries()); diff != "" {
		t.Errorf("entries after the caller changed its copy (-want +got):\n%s", diff)
	}
}

// TestPlacementIsQuick: entries that name one another in the worst order are no lever to keep the manager busy.
func TestPlacementIsQuick(t *testing.T) {
	const n = 20_000
	patterns := make([]v1alpha1.ErrorPattern, n)
	for i := range patterns {
		patterns[i] = placed(fmt.Sprintf("e%05d", i), fmt.Sprintf("e%05d", i+1))
	}
	shuffled := slices.Clone(patterns)
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for tc, list := range map[string][]v1alpha1.ErrorPattern{"in order": patterns, "shuffled": shuffled} {
		level := make([]EffectiveEntry, n)
		for i, p := range list {
			level[i].Pattern = p
		}
		merged, problems := merge(nil, level)
		if len(problems) != 1 || problems[0].ID != "e19999" {
			t.Errorf("%s: %d problems, want one of the last entry", tc, len(problems))
		}
		for i, e := range merged {
			if want := patterns[i].ID; e.Pattern.ID != want {
				t.Fatalf("%s: entry %d is %s, want %s", tc, i, e.Pattern.ID, want)
			}
		}
	}
}

// TestALayerIsBounded: what is too much is left out and said, what stands before it stays in force.
func TestALayerIsBounded(t *testing.T) {
	many := make([]v1alpha1.ErrorPattern, 1003)
	for i := range many {
		many[i] = named(fmt.Sprintf("e%04d", i))
	}
	many[0].Signature = "?" // Counts for nothing.
	rules, problems := Compile(layer("p", many...))
	if got := len(rules.Entries()); got != 1000 {
		t.Errorf("%d entries in force, want 1000", got)
	}
	want := `p/set spec.patterns[1001] ("e1001"): is one entry too many; at most 1000 are in force in one layer`
	if len(problems) != 3 || problems[1].String() != want {
		t.Errorf("%d problems, the second %q; want 3 and %q", len(problems), problems[min(1, len(problems)-1)], want)
	}

	large := make([]v1alpha1.ErrorPattern, 100)
	for i := range large {
		large[i] = pattern(fmt.Sprintf("e%04d", i), v1alpha1.ErrorMatch{BodyContains: slices.Repeat(subs(strings.Repeat("x", 255)), 64)})
	}
	large[99] = pattern("small", v1alpha1.ErrorMatch{BodyContains: subs("small enough")})
	rules, problems = Compile(layer("p", large...))
	if got := order(rules); !strings.HasSuffix(got, "p:e0063 p:small") {
		t.Errorf("the last in force are …%s, want e0063 (64 × 64 × 255 bytes) and small", got[max(0, len(got)-40):])
	}
	if len(problems) != 35 || !strings.HasPrefix(problems[0].Message, "match: makes the layer's selectors larger than 1048576 bytes") {
		t.Errorf("%d problems, the first %q", len(problems), problems[0].Message)
	}
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("ä", 257)
	valid := v1alpha1.ErrorPattern{
		ID: "a", Signature: "A.b_c-d9", Classification: v1alpha1.Unclear, Cooldown: "header:Retry-After",
		HealthAction: v1alpha1.HealthActionMarkDegraded, Note: strings.Repeat("ä", 500), Before: "b",
		Match: v1alpha1.ErrorMatch{HTTPStatus: ptr[int32](100), HTTPStatusRange: []int32{100, 999},
			ExceptionType: texts("*net.OpError"), BodyContains: subs(long[:256]), ErrorCode: strings.Repeat("ä", 128)},
	}
	if got := Validate(valid); got != nil {
		t.Errorf("a valid entry: %q", got)
	}
	const name = " is not allowed; use letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.ErrorPattern)
		want   string
	}{
		{"no id", func(p *v1alpha1.ErrorPattern) { p.ID = "" }, "id: is required"},
		{"an id that ends in a dot", func(p *v1alpha1.ErrorPattern) { p.ID = "a." }, `id: "a."` + name},
		{"an id that begins with a dash", func(p *v1alpha1.ErrorPattern) { p.ID = "-a" }, `id: "-a"` + name},
		{"a long id", func(p *v1alpha1.ErrorPattern) { p.ID = v1alpha1.PatternID(strings.Repeat("a", 121)) }, "id: has 121 characters, at most 120 are allowed"},
		{"no signature", func(p *v1alpha1.ErrorPattern) { p.Signature = "" }, "signature: is required"},
		{"a signature with a slash", func(p *v1alpha1.ErrorPattern) { p.Signature = "a/b" }, `signature: "a/b"` + name},
		{"a bad before", func(p *v1alpha1.ErrorPattern) { p.Before = "a b" }, `before: "a b"` + name},
		{"no classification", func(p *v1alpha1.ErrorPattern) { p.Classification = "" }, "classification: is required; use one of TECHNICALLY_BROKEN, USER_SPECIFIC_TECHNICAL, USER_PERMISSION, USER_INPUT, INTERMITTENT, WORKING, UNCLEAR"},
		{"a bad action", func(p *v1alpha1.ErrorPattern) { p.HealthAction = "down" }, `healthAction: "down" is not known; use one of none, markUnavailable, markDegraded`},
		{"no wait at all", func(p *v1alpha1.ErrorPattern) { p.Cooldown = "PT0S" }, `cooldown: "PT0S" is no wait; leave it out for the default of the classification`},
		{"a header without a name", func(p *v1alpha1.ErrorPattern) { p.Cooldown = "header:" }, `cooldown: "" is no header name; write for example header:retry-after`},
		{"a header name with a space", func(p *v1alpha1.ErrorPattern) { p.Cooldown = "header: retry-after" }, `cooldown: " retry-after" is no header name; write for example header:retry-after`},
		{"a long note", func(p *v1alpha1.ErrorPattern) { p.Note += "a" }, "note: has 501 characters, at most 500 are allowed"},
		{"a status that is none", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatus = ptr[int32](99) }, "match.httpStatus: 99 is no HTTP status; use 100 to 999"},
		{"a range of one number", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatusRange = []int32{500} }, "match.httpStatusRange: has 1 numbers; write the first and the last status, as in [500, 599]"},
		{"an empty range", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatusRange = []int32{} }, "match.httpStatusRange: has 0 numbers; write the first and the last status, as in [500, 599]"},
		{"a range backwards", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatusRange = []int32{599, 500} }, "match.httpStatusRange: begins above its end; write [500, 599]"},
		{"a range too far", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatusRange = []int32{500, 1000} }, "match.httpStatusRange[1]: 1000 is no HTTP status; use 100 to 999"},
		{"no types", func(p *v1alpha1.ErrorPattern) { p.Match.ExceptionType = texts()[:0:0] }, ""},
		{"an empty list of types", func(p *v1alpha1.ErrorPattern) { p.Match.ExceptionType = []v1alpha1.MatchText{} }, "match.exceptionType: is empty; leave it out if it is to select nothing"},
		{"a type without a name", func(p *v1alpha1.ErrorPattern) { p.Match.ExceptionType = texts("a", "java.net.") }, `match.exceptionType[1]: "java.net." names no type; write for example java.net.ConnectException`},
		{"an empty text", func(p *v1alpha1.ErrorPattern) { p.Match.BodyContains = subs("abc") }, "match.bodyContains[0]: has 3 bytes, at least 4 are needed to mean something"},
		{"a long text", func(p *v1alpha1.ErrorPattern) { p.Match.BodyContains = subs(long) }, "match.bodyContains[0]: has 514 bytes, at most 256 are allowed"},
		{"many texts", func(p *v1alpha1.ErrorPattern) { p.Match.BodyContains = make([]v1alpha1.Substring, 65) }, "match.bodyContains: has 65 elements, at most 64 are allowed"},
		{"an empty list of tools", func(p *v1alpha1.ErrorPattern) { p.Match.ToolName = []v1alpha1.MatchToolName{} }, "match.toolName: is empty; leave it out if it is to select nothing"},
		{"a tool without a name", func(p *v1alpha1.ErrorPattern) { p.Match.ToolName = []v1alpha1.MatchToolName{""} }, "match.toolName[0]: is empty; write some text"},
		{"a listed status that is none", func(p *v1alpha1.ErrorPattern) { p.Match.HTTPStatusIn = []int32{200, 1000} }, "match.httpStatusIn[1]: 1000 is no HTTP status; use 100 to 999"},
		{"another host", func(p *v1alpha1.ErrorPattern) { p.Match.Host = "own" }, `match.host: "own" is not known; use one of endpoint, foreign, unknown`},
		{"an empty listed code", func(p *v1alpha1.ErrorPattern) { p.Match.ErrorCodeIn = []string{""} }, "match.errorCodeIn[0]: is empty; write some text"},
		{"four bytes that are one character", func(p *v1alpha1.ErrorPattern) { p.Match.MessageContainsAll = subs("😀") }, ""},
		{"three bytes that are one character", func(p *v1alpha1.ErrorPattern) { p.Match.MessageContains = subs("€") }, "match.messageContains[0]: has 3 bytes, at least 4 are needed to mean something"},
		{"a header with two conditions", func(p *v1alpha1.ErrorPattern) {
			p.Match.Header = []v1alpha1.HeaderMatch{{Name: "a", Equals: "b", Present: ptr(false)}}
		}, "match.header[0]: has 2 of equals, contains and present; write exactly one"},
		{"a header without a name", func(p *v1alpha1.ErrorPattern) { p.Match.Header = []v1alpha1.HeaderMatch{{Equals: "b"}} }, `match.header[0].name: "" is no header name; write for example retry-after`},
		{"a long header", func(p *v1alpha1.ErrorPattern) { p.Match.Header = []v1alpha1.HeaderMatch{{Name: "a", Equals: long}} }, "match.header[0]: asks for 257 characters, at most 256 are allowed"},
		{"many headers", func(p *v1alpha1.ErrorPattern) { p.Match.Header = make([]v1alpha1.HeaderMatch, 17) }, "match.header: has 17 elements, at most 16 are allowed"},
		{"a pointer without a slash", func(p *v1alpha1.ErrorPattern) {
			p.Match.JSONField = []v1alpha1.JSONFieldMatch{{Pointer: "error.code", In: []string{"a"}}}
		}, `match.jsonField[0].pointer: "error.code" is no RFC 6901 pointer; write for example /error/code`},
		{"a pointer with a bad escape", func(p *v1alpha1.ErrorPattern) {
			p.Match.JSONField = []v1alpha1.JSONFieldMatch{{Pointer: "/a~2", In: []string{"a"}}}
		}, `match.jsonField[0].pointer: "/a~2" is no RFC 6901 pointer; write for example /error/code`},
		{"a field without values", func(p *v1alpha1.ErrorPattern) { p.Match.JSONField = []v1alpha1.JSONFieldMatch{{Pointer: "/a"}} }, "match.jsonField[0].in: is required; list the values of which one must stand there"},
		{"a long code", func(p *v1alpha1.ErrorPattern) { p.Match.ErrorCode += "a" }, "match.errorCode: has 129 characters, at most 128 are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := *valid.DeepCopy()
			tc.change(&p)
			if diff := cmp.Diff(tc.want, strings.Join(Validate(p), "|")); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessagesStayShortAndPrintable: they become the text of a condition.
func TestMessagesStayShortAndPrintable(t *testing.T) {
	hostile := strings.Repeat("\x1b[31mä\xff", 100_000)
	p := v1alpha1.ErrorPattern{
		ID: v1alpha1.PatternID(hostile), Signature: v1alpha1.ErrorSignature(hostile[:100]), Before: v1alpha1.PatternID(hostile),
		Classification: v1alpha1.Classification(hostile), HealthAction: v1alpha1.HealthAction(hostile), Cooldown: "header:" + hostile, Note: hostile,
		Match: v1alpha1.ErrorMatch{ErrorCode: hostile, ExceptionType: texts(hostile + "."), BodyContains: subs(hostile)},
	}
	_, problems := Compile(layer("p", p))
	if len(problems) != 1 {
		t.Fatalf("%d problems, want 1", len(problems))
	}
	text := problems[0].String()
	if len(text) > 4096 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
