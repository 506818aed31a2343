package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func schemaOf(t *testing.T, text string) any {
	t.Helper()
	var schema any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return schema
}

func TestFits(t *testing.T) {
	const search = `{"type":"object","properties":{"q":{"type":"string","minLength":1},"n":{"type":"integer","minimum":1}},"required":["q"],"additionalProperties":false}`
	const refs = `{"type":"object","$defs":{"a/b":{"type":"string","enum":["x","y"]},"pair":{"type":"array","prefixItems":[{"$ref":"#/$defs/a~1b"},{"$ref":"#/$defs/a~1b"}]}},
		"properties":{"p":{"$ref":"#/$defs/pair"},"q":{"$ref":"#/%24defs/a~1b","description":"beside"},"$ref":{"type":"number"}}}`
	for _, tc := range []struct {
		name, schema, input string
		want                error
		wantText            string
	}{
		{"as it should be", search, `{"q":"towel","n":3}`, nil, ""},
		{"what is missing is named", search, `{}`, errMisfit, `at the root: required: missing properties: ["q"]`},
		{"no input at all", search, ``, errMisfit, `["q"]`},
		{"of another type", search, `{"q":7}`, errMisfit, "at /properties/q: type"},
		{"too short", search, `{"q":""}`, errMisfit, "at /properties/q: minLength"},
		{"too small", search, `{"q":"a","n":0}`, errMisfit, "at /properties/n: minimum"},
		{"a fraction", search, `{"q":"a","n":1.5}`, errMisfit, "at /properties/n: type"},
		{"what is not asked for", search, `{"q":"a","secret":"x"}`, errMisfit, `unexpected additional properties ["secret"]`},
		{"a number too large for any", search, `{"q":"a","n":1e999999999}`, errMisfit, ""},
		{"any object", `{}`, `{"a":1}`, nil, ""},
		{"references", refs, `{"p":["x","y"],"q":"y","$ref":1}`, nil, ""},
		{"against a reference", refs, `{"q":"z"}`, errMisfit, "enum"},
		{"against a reference in a reference", refs, `{"p":["x","z"]}`, errMisfit, "enum"},
		{"a property that is called like a keyword", refs, `{"$ref":"x"}`, errMisfit, "at /properties/$ref: type"},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"properties":{"a":{"const":1}}}`, `{"a":2}`, errMisfit, "const"},
		{"a draft between", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"const":1}}}`, `{"a":1}`, nil, ""},
		{"no schema", `[]`, `{}`, errUncheckable, "no object"},
		{"nothing", `null`, `{}`, errUncheckable, "no object"},
		{"no valid schema", `{"type":7}`, `{}`, errUncheckable, "no JSON Schema"},
		{"a null schema", `{"properties":{"a":null}}`, `{"a":1}`, errUncheckable, ""},
		{"a reference to another host", `{"$ref":"http://127.0.0.1:1/schema"}`, `{}`, errUncheckable, "another document"},
		{"a reference to a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `{}`, errUncheckable, "another document"},
		{"a reference beside it", `{"$ref":"other.json"}`, `{}`, errUncheckable, "another document"},
		{"a reference to an anchor", `{"$ref":"#here"}`, `{}`, errUncheckable, "anchor"},
		{"a reference to nothing", `{"$ref":"#/$defs/none"}`, `{}`, errUncheckable, "not in it"},
		{"a reference that is none", `{"$ref":7}`, `{}`, errUncheckable, "another document"},
		{"a schema that is itself", `{"$ref":"#"}`, `{}`, errUncheckable, "refers to itself"},
		{"schemas that are each other", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`, errUncheckable, "refers to itself"},
		{"a tree", `{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, `{"left":{"right":{}}}`, errUncheckable, "refers to itself"},
		{"a dynamic reference", `{"$dynamicRef":"#x","$dynamicAnchor":"x"}`, `{}`, errUncheckable, "$dynamicRef"},
		{"a billion laughs", laughs(30), `{}`, errUncheckable, "too large"},
		{"a deep schema", strings.Repeat(`{"not":`, 5000) + "{}" + strings.Repeat("}", 5000), `{}`, errUncheckable, "too large"},
		{"a wide schema", `{"anyOf":[` + strings.Repeat(`{},`, 5000) + `{}]}`, `{}`, errUncheckable, "too large"},
		{"a long schema", `{"title":"` + strings.Repeat("x", maxSchemaBytes) + `"}`, `{}`, errUncheckable, "larger than"},
		{"a pattern", `{"properties":{"a":{"pattern":"^[a-z]{1,20}$"}}}`, `{"a":"A"}`, errMisfit, "pattern"},
		{"a pattern that backtracks elsewhere", `{"properties":{"a":{"pattern":"^(a+)+$"}}}`, `{"a":"` + strings.Repeat("a", 10000) + `!"}`, errMisfit, "pattern"},
		{"a pattern that multiplies", `{"properties":{"a":{"pattern":"((((a{1,30}){1,30}){1,30}){1,30})x"}}}`, `{"a":"a"}`, errUncheckable, "regular expression"},
		{"many large patterns", `{"patternProperties":{` + strings.TrimSuffix(strings.Repeat(`"a{900}":{},`, 1), ",") + `,"b{900}":{},"c{900}":{},"d{900}":{},"e{900}":{},"f{900}":{}}}`, `{}`, errUncheckable, "too large"},
		{"a pattern that is none", `{"properties":{"a":{"pattern":"("}}}`, `{"a":"a"}`, errUncheckable, "does not know"},
		{"a pattern that looks back", `{"properties":{"a":{"pattern":"(?<=x)y"}}}`, `{"a":"a"}`, errUncheckable, "does not know"},
		{"a deep input", `{"properties":{"a":{"items":{}}}}`, `{"a":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + `}`, nil, ""},
		{"a deep input, compared", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `,1]}`, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			err := fits(schemaOf(t, tc.schema), Input{JSON: json.RawMessage(tc.input)})
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.wantText)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("the text has %d bytes", len(err.Error()))
			}
			if took := time.Since(start); took > hangs {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// laughs returns a small schema that means 2^n schemas.
func laughs(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"%d":{}}}`, n)
	return b.String()
}

// TestTheDearestSchemaEnds holds the largest schema that is checked by against the largest input.
func TestTheDearestSchemaEnds(t *testing.T) {
	item := `{"anyOf":[` + strings.Repeat(`{"pattern":"a*c"},`, 80) + `{"type":"null"}]}`
	schema := schemaOf(t, `{"properties":{"a":{"items":{"oneOf":[`+strings.Repeat(item+",", 8)+item+`]}}}}`)
	input := `{"a":[` + strings.TrimSuffix(strings.Repeat(`"ab",`, 3200), ",") + `]}`
	start := time.Now()
	err := fits(schema, Input{JSON: json.RawMessage(input)})
	if took := time.Since(start); took > hangs || !errors.Is(err, errMisfit) || len(input) > MaxInput {
		t.Errorf("it took %s: %v", took, err)
	}
}

// FuzzFits: whatever a server calls a schema, checking by it ends without a panic.
func FuzzFits(f *testing.F) {
	for _, seed := range []string{`{"type":"object"}`, `{"$ref":"#"}`, `{"items":[{}],"dependencies":{"a":["b"],"c":{}}}`, `{"patternProperties":{"^a":false}}`,
		`{"if":{"const":1},"then":{"$ref":"#/else"},"else":{"minimum":1e308}}`, `{"multipleOf":0,"enum":[null,1e5]}`} {
		f.Add(seed, `{"a":1}`)
	}
	f.Fuzz(func(_ *testing.T, schema, input string) {
		var parsed any
		if json.Unmarshal([]byte(schema), &parsed) == nil && len(input) <= MaxInput {
			_ = fits(parsed, Input{JSON: json.RawMessage(input)})
		}
	})
}
