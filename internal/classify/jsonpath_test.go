package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		name, body, pointer string
		want                string
		wantKind            kind
	}{
		{"text", `{"a":"b"}`, "/a", "b", textual},
		{"empty text", `{"a":""}`, "/a", "", textual},
		{"escaped text", `{"a":"\u00fc\"\\"}`, "/a", `ü"\`, textual},
		{"an escaped key", `{"\u0061":"b"}`, "/a", "b", textual},
		{"a whole number", `{"a":-32603}`, "/a", "-32603", numeric},
		{"a number as it is written", `{"a":1.50e+3}`, "/a", "1.50e+3", numeric},
		{"true", `{"a":true}`, "/a", "true", literal},
		{"null", `{"a":null}`, "/a", "null", literal},
		{"an object is no scalar", `{"a":{}}`, "/a", "", absent},
		{"a list is no scalar", `{"a":[1]}`, "/a", "", absent},
		{"a member of a member", `{"a":{"b":{"c":1}}}`, "/a/b/c", "1", numeric},
		{"an element", `{"a":[1,{"b":2}]}`, "/a/1/b", "2", numeric},
		{"an element of the root", `[{"a":1}]`, "/0/a", "1", numeric},
		{"an element with a leading zero", `{"a":[1,2]}`, "/a/01", "", absent},
		{"the element behind the last", `{"a":[1,2]}`, "/a/-", "", absent},
		{"a member with a number as name", `{"a":{"0":1}}`, "/a/0", "1", numeric},
		{"a name with a slash and a tilde", `{"a/b~c":1}`, "/a~1b~0c", "1", numeric},
		{"a tilde before a one", `{"~1":1}`, "/~01", "1", numeric},
		{"an empty name", `{"":1}`, "/", "1", numeric},
		{"of two members the last", `{"a":1,"a":2}`, "/a", "2", numeric},
		{"an object over a scalar", `{"a":1,"a":{}}`, "/a", "", absent},
		{"a scalar over an object", `{"a":{"b":1},"a":2}`, "/a/b", "", absent},
		{"a member of the first of two members", `{"a":{"b":1},"a":{"c":2}}`, "/a/b", "", absent},
		{"a member of an element of the first of two members", `{"a":[{"b":1}],"a":[{}]}`, "/a/0/b", "", absent},
		{"deep in the first of three members", `{"a":{"b":{"c":1}},"a":{},"a":{"b":{}}}`, "/a/b/c", "", absent},
		{"deep in the last of two members", `{"a":1,"a":{"b":{"c":1},"b":{"c":2}}}`, "/a/b/c", "2", numeric},
		{"a byte order mark before it", "\ufeff{\"a\":1}", "/a", "1", numeric},
		{"a byte order mark in it", "{\ufeff\"a\":1}", "/a", "", absent},
		{"white space", " {\t\"a\" :\r\n1 } ", "/a", "1", numeric},

		{"no JSON", `a`, "/a", "", absent},
		{"nothing", ``, "/a", "", absent},
		{"two documents", `{"a":1}{"a":2}`, "/a", "", absent},
		{"a number and words", `404 {"a":1}`, "/a", "", absent},
		{"an end too early", `{"a":1`, "/a", "", absent},
		{"a comma too much", `{"a":1,}`, "/a", "", absent},
		{"a key without quotes", `{a:1}`, "/a", "", absent},
		{"a bad escape", `{"a":"\x"}`, "/a", "", absent},
		{"a control character", "{\"a\":\"\n\"}", "/a", "", absent},
		{"not a number", `{"a":NaN}`, "/a", "", absent},
		{"deep", strings.Repeat(`[`, 99) + strings.Repeat(`]`, 99), "/a", "", absent},
		{"too deep", `{"a":1,"b":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`, "/a", "", absent},
		{"too large", `{"a":1,"b":"` + strings.Repeat(`x`, maxJSON) + `"}`, "/a", "", absent},

		{"an event", "event: message\ndata: {\"a\":1}\n\n", "/a", "1", numeric},
		{"an event behind a byte order mark", "\ufeffdata: {\"a\":1}\n\n", "/a", "1", numeric},
		{"nothing from an event before the last", "data: {\"a\":1}\n\ndata: {}\n\n", "/a", "", absent},
		{"nothing from an event that breaks off", "data: {\"b\":1}\n\ndata: {\"a\":1\n\n", "/a", "", absent},
		{"an event without an end", "data:{\"a\":1}", "/a", "1", numeric},
		{"an event in two lines", "data: {\"a\":\ndata: 1}\r\n\r\n", "/a", "1", numeric},
		{"the last of two events", "data: {\"a\":1}\n\ndata: {\"a\":2}\n\n", "/a", "2", numeric},
		{"the last event that is JSON", "data: {\"a\":1}\n\ndata: [DONE]\n\n", "/a", "1", numeric},
		{"an event that is no JSON", "data: hello\n\n", "/a", "", absent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p places
			at := p.add(tc.pointer)
			var got scalar
			if values := p.read(tc.body); values != nil {
				got = values[at]
			}
			if diff := cmp.Diff(scalar{tc.want, tc.wantKind}, got, cmp.AllowUnexported(scalar{})); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlacesShareOneReading: however many places rules ask for, the body is read once.
func TestPlacesShareOneReading(t *testing.T) {
	var p places
	pointers := []string{"/a", "/b/c", "/b/d/0", "/a"}
	var ids []int
	for _, pointer := range pointers {
		ids = append(ids, p.add(pointer))
	}
	if diff := cmp.Diff([]int{0, 1, 2, 0}, ids); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	var got []string
	for _, v := range p.read(`{"b":{"d":["z"],"c":"y"},"a":"x"}`) {
		got = append(got, v.text)
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestRepeatedMembersCostNoMore: to repeat a member or an event under which rules ask for thousands of places costs
// about what one costs that no rule asks for. A walk of its places with each repetition would cost 500 times that.
func TestRepeatedMembersCostNoMore(t *testing.T) {
	var p places
	for i := range 16_000 {
		p.add(fmt.Sprintf("/e/%d", i))
	}
	best := func(body string) time.Duration {
		least := time.Hour
		for range 7 {
			start := time.Now()
			if p.read(body) == nil {
				t.Fatal("it is no JSON")
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	object := func(member string) string {
		return "{" + strings.TrimSuffix(strings.Repeat(member, 16<<10/len(member)), ",") + "}"
	}
	unknown := best(object(`"f":1,`))
	for name, body := range map[string]string{
		"a scalar": object(`"e":1,`), "an object": object(`"e":{},`), "a place": object(`"e":{"7":1},`),
		"events": strings.Repeat("data: {\"e\":1}\n\n", 1000),
	} {
		took := best(body)
		t.Logf("%s: %.1f times the %v of an unknown member", name, float64(took)/float64(unknown), unknown)
		if took > 20*unknown {
			t.Errorf("%s: took %v, an unknown member %v", name, took, unknown)
		}
	}
}
