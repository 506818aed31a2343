package classify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// FuzzParse: whatever the file, nothing panics, what is read is in force, and what is said about it is bounded.
func FuzzParse(f *testing.F) {
	f.Add(bundledFile)
	for _, seed := range []string{
		"", "{}", "patterns:", "patterns: []", "patterns: [{}]", "patterns: [[]]", "a: &a {b: *a}\npatterns: *a", "--- \n---\n...",
		"patterns:\n- {id: x, match: {httpStatus: 4e2}, signature: s, classification: UNCLEAR, cooldown: PT}",
		"patterns:\n- {id: x, match: {<<: {errorCode: a}}, signature: !!binary aGk=, classification: !x UNCLEAR}",
		"? [a]\n: b\n", "\xff\xfep\x00", "%YAML 1.1\n---\npatterns: |\n  x", "patterns:\n- id: \"\\x1b[31m\\u2028\"\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, problems := Parse(data)
		if len(entries) > maxEntries || len(problems) > maxProblems {
			t.Fatalf("%d entries, %d problems", len(entries), len(problems))
		}
		for _, p := range problems {
			if text := p.String(); len(text) > 4096 || !utf8.ValidString(text) {
				t.Fatalf("problem of %d bytes: %q", len(text), text)
			}
		}
		seen := map[v1alpha1.PatternID]bool{}
		for _, e := range entries {
			if wrong := Validate(e.Pattern); len(wrong) > 0 {
				t.Fatalf("an entry that is not valid: %q", wrong)
			}
			seen[e.Pattern.ID] = true
		}
		rules, _ := Compile(Layer{Name: "file", Entries: entries})
		if len(rules.Entries()) != len(seen) {
			t.Fatalf("%d rules of %d ids", len(rules.Entries()), len(seen))
		}
	})
}

// FuzzParseDuration: what is accepted is not negative and written back by its parts reads the same.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{
		"", "P", "PT", "PT5M", "P1DT2H3M4.5S", "P2W", "PT0.000000001S", "-PT1S", "PT9223372036.854775807S", "P106751DT23H47M16S", "PT1e9S", "P1Y", "PT٣S",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			if d != 0 || len(err.Error()) > 1024 {
				t.Fatalf("%v with an error of %d bytes", d, len(err.Error()))
			}
			return
		}
		if d < 0 || len(s) < 3 || s[0] != 'P' {
			t.Fatalf("ParseDuration(%q) = %v", s, d)
		}
		again, err := ParseDuration("PT" + seconds(d) + "S")
		if err != nil || again != d {
			t.Fatalf("ParseDuration(%q) = %v, but its seconds read %v, %v", s, d, again, err)
		}
	})
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

// FuzzJSON: what is read at a place is what the standard library reads there, and a text that it refuses is no JSON.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"error":{"code":"E1"}}`, `{"error":{"code":-32603.5e+1}}`, `[{"a":1}]`, `{"a":1,"a":{"b":2}}`, `{"a":{"b":2},"a":1}`, `{"a":{"b":{"c":2}},"a":{"b":{}},"a":{}}`, `[{"a":{"b":1},"a":{}}]`, `{"a/b":{"~c":"\u00e4\n"}}`,
		`"x`, `{"a":01}`, `{"a":tru}`, `{"a":1,}`, `{"\ud800":"\ud800"}`, "{\"a\":\"\x01\"}", "\xff", `{"a":"\x"}`, "data: {\"a\":1}\n\n", "[[[[[[[[[[",
	} {
		f.Add(seed)
	}
	pointers := []string{"/a", "/a/b", "/a/b/c", "/error/code", "/0/a", "/0/a/b", "/a~1b/~0c", "/"}
	var p places
	for _, pointer := range pointers {
		p.add(pointer)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p.read(text)
		found := make([]scalar, p.count)
		ok := p.scan(text, found)
		var doc any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		valid := json.Valid([]byte(text)) && decoder.Decode(&doc) == nil
		if ok != valid {
			if valid && strings.Count(text, "[")+strings.Count(text, "{") > maxJSONDepth {
				return
			}
			t.Fatalf("scan(%q) = %v, json.Valid = %v", text, ok, valid)
		}
		if !ok || !utf8.ValidString(text) { // The standard library replaces what is not UTF-8; the scanner leaves it.
			return
		}
		for i, pointer := range pointers {
			if want := lookUp(doc, pointer); found[i] != want {
				t.Fatalf("%q at %s: %+v, want %+v", text, pointer, found[i], want)
			}
		}
	})
}

// lookUp is the plain way: the value at a pointer of a decoded document.
func lookUp(doc any, pointer string) scalar {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := doc.(type) {
		case map[string]any:
			member, ok := v[token]
			if !ok {
				return scalar{}
			}
			doc = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(v) {
				return scalar{}
			}
			doc = v[i]
		default:
			return scalar{}
		}
	}
	switch v := doc.(type) {
	case string:
		return scalar{v, textual}
	case json.Number:
		return scalar{v.String(), numeric}
	case bool:
		return scalar{strconv.FormatBool(v), literal}
	case nil:
		return scalar{"null", literal}
	default:
		return scalar{}
	}
}

// FuzzClassify: whatever the report, the bundled rules give a complete verdict, and the same one twice.
func FuzzClassify(f *testing.F) {
	rules, _ := Compile(Bundled())
	f.Add(401, "token_expired", "", "", "", "Retry-After", "90", int64(0))
	f.Add(429, "", "", "", "", "retry-after", "Wed, 17 Jun 2026 08:02:00 GMT", int64(1))
	f.Add(0, "", "Manual not found: 'x'", "ToolException", "", "", "", int64(-1))
	f.Add(0, "", "connect ECONNREFUSED", "TypeError", "ECONNREFUSED", "date", "x", int64(1<<62))
	f.Add(-1, "\xff\xfe", "\xc3", "*.$:\\", "\x00", "RETRY-AFTER", "-1", int64(-1<<62))
	f.Fuzz(func(t *testing.T, status int, body, message, exception, code, header, value string, date int64) {
		e := v1alpha1.ToolError{Body: body, Message: message, ErrorCode: code,
			ExceptionTypes: []v1alpha1.MatchText{v1alpha1.MatchText(exception), v1alpha1.MatchText(message)},
			Headers:        map[string]v1alpha1.HeaderValue{header: v1alpha1.HeaderValue(value), "date": v1alpha1.HeaderValue(body)}}
		if status != 0 {
			e.HTTPStatus = ptr(int32(status))
		}
		if date != 0 {
			e.Date = &metav1.Time{Time: time.Unix(date, 0)}
		}
		v := rules.Classify(Call{Tool: "tool"}, &e, testNow)
		if v.RuleID == "" || v.Signature == "" || v.Class == "" || v.Action == "" {
			t.Fatalf("incomplete verdict %+v", v)
		}
		if v.Wait != 0 && (v.Wait < time.Second || v.Wait > MaxWait) {
			t.Fatalf("wait %v", v.Wait)
		}
		if again := rules.Classify(Call{Tool: "another"}, &e, testNow); again != v {
			t.Fatalf("%+v, then %+v", v, again)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	bundled, specified := compiled(b, Bundled()), compiled(b, twelve())
	body := make([]byte, 16<<10)
	for i := range body {
		body[i] = "Lorem ipsum "[i%12]
	}
	for _, bc := range []struct {
		name   string
		report v1alpha1.ToolError
	}{
		{"no-body-needed/status", v1alpha1.ToolError{HTTPStatus: ptr[int32](503), Body: string(body)}},
		{"no-body-needed/type", v1alpha1.ToolError{ExceptionTypes: texts("java.net.ConnectException")}},
		{"no-body-needed/fallback", v1alpha1.ToolError{Message: string(body[:4096])}},
		{"16KiB-body/401", v1alpha1.ToolError{HTTPStatus: ptr[int32](401), Body: string(body)}},
		{"16KiB-body/fallback", v1alpha1.ToolError{HTTPStatus: ptr[int32](200), ExceptionTypes: texts("TypeError"), Body: string(body)}},
	} {
		for name, rules := range map[string]*Rules{"bundled": bundled, "twelve": specified} {
			b.Run(bc.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					rules.Classify(Call{Tool: "tool"}, &bc.report, testNow)
				}
			})
		}
	}
}
