package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// A server writes the schema, so what checking by it may cost is bounded before it is checked by: without references a
// schema is a tree, and each of its nodes is held at most once against each part of the input.
const (
	// maxSchemaNodes bounds a schema's nodes once its references are replaced by what they name.
	maxSchemaNodes = 1000
	// maxSchemaDepth bounds how deep they are nested.
	maxSchemaDepth = 32
	// maxSchemaBytes bounds its size as JSON.
	maxSchemaBytes = 256 << 10
	// maxPatternSize bounds its regular expressions together, in steps with each repetition counted as often as it may
	// repeat. Go's expressions take time in proportion to it, never more.
	maxPatternSize = 5000
)

var (
	// errUncheckable means that a schema is no use for checking: it is no schema, or not one that we check by.
	errUncheckable = errors.New("the tool's input schema cannot be checked by")
	// errMisfit means that an input does not fit the schema.
	errMisfit = errors.New("the input does not fit the tool's input schema")
)

// fits returns nil if the input fits the schema, else errMisfit or errUncheckable. No reference to another document is
// ever followed.
func fits(schema any, input Input) error {
	root, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%w: it is no object", errUncheckable)
	}
	f := flattener{root: root}
	flat, err := f.flatten(root, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errUncheckable, err)
	}
	data, err := json.Marshal(flat)
	if err != nil || len(data) > maxSchemaBytes {
		return fmt.Errorf("%w: it is larger than %d KiB", errUncheckable, maxSchemaBytes>>10)
	}
	var parsed jsonschema.Schema
	if err := json.Unmarshal(data, &parsed); err != nil {
		return fmt.Errorf("%w: it is no JSON Schema", errUncheckable)
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		return fmt.Errorf("%w: it is no valid JSON Schema", errUncheckable)
	}
	args := map[string]any{}
	if len(input.JSON) > 0 {
		if err := json.Unmarshal(input.JSON, &args); err != nil {
			return fmt.Errorf("%w: %s", errMisfit, text.Plain(err.Error(), 200))
		}
	}
	if err := resolved.Validate(args); err != nil {
		return fmt.Errorf("%w: %s", errMisfit, whereOf(err))
	}
	return nil
}

var (
	validating = regexp.MustCompile(`validating (\S+): `)
	keyword    = regexp.MustCompile(`^[A-Za-z]+`)
)

// whereOf says where an input does not fit: at which place of the schema, and by which keyword. The library's text
// quotes both the schema and the input, of any length.
func whereOf(err error) string {
	message, place := err.Error(), "the root"
	if at := validating.FindAllStringSubmatchIndex(message, -1); len(at) > 0 {
		last := at[len(at)-1]
		place, message = strings.ReplaceAll(message[last[2]:last[3]], "root", "the root"), message[last[1]:]
	}
	if strings.HasPrefix(message, "required: ") || strings.HasPrefix(message, "unexpected additional properties") {
		return text.Plain(fmt.Sprintf("at %s: %s", place, message), 200) // Both end in names of arguments.
	}
	return text.Plain(fmt.Sprintf("at %s: %s", place, keyword.FindString(message)), 200)
}

// Keywords whose values are schemas, lists of schemas, and objects that hold schemas by name (JSON Schema 2020-12 and
// draft 7). What stands under any other keyword is copied as it is.
var (
	oneSchema = set("items additionalItems unevaluatedItems contains additionalProperties unevaluatedProperties propertyNames not if then else contentSchema")
	schemas   = set("allOf anyOf oneOf prefixItems items")
	byName    = set("properties patternProperties dependentSchemas dependencies")
	// dropped are the keywords by which schemas are named: once references are replaced nothing needs them.
	dropped = set("$ref $defs definitions $id id $anchor $comment")
)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}

// flattener replaces references by what they name.
type flattener struct {
	root     map[string]any
	nodes    int
	patterns int
}

// flatten returns a copy of a schema without references.
func (f *flattener) flatten(schema any, depth int) (any, error) {
	if f.nodes++; f.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		return nil, errors.New("it is too large, or refers to itself")
	}
	object, ok := schema.(map[string]any)
	if !ok {
		return schema, nil // true and false are schemas; what is none, the library refuses
	}
	flat := make(map[string]any, len(object))
	for name, value := range object {
		// The library refuses the drafts between 7 and 2020-12, which differ in nothing that matters here.
		if dropped[name] || name == "$schema" && !strings.Contains(fmt.Sprint(value), "draft-07") {
			continue
		}
		value, err := f.keyword(name, value, depth+1)
		if err != nil {
			return nil, err
		}
		flat[name] = value
	}
	if _, ok := object["$ref"]; !ok {
		return flat, nil
	}
	named, err := f.named(object["$ref"])
	if err != nil {
		return nil, err
	}
	target, err := f.flatten(named, depth+1)
	if err != nil {
		return nil, err
	}
	all, _ := flat["allOf"].([]any)
	flat["allOf"] = append(all, target)
	return flat, nil
}

// keyword returns the value of a keyword without references.
func (f *flattener) keyword(name string, value any, depth int) (any, error) {
	switch list, isList := value.([]any); {
	case name == "$dynamicRef" || name == "$recursiveRef":
		return nil, fmt.Errorf("it uses %s", name)
	case name == "pattern":
		return value, f.pattern(value)
	case schemas[name] && isList:
		flat := make([]any, 0, len(list))
		for _, schema := range list {
			next, err := f.flatten(schema, depth)
			if err != nil {
				return nil, err
			}
			flat = append(flat, next)
		}
		return flat, nil
	case oneSchema[name]:
		return f.flatten(value, depth)
	case byName[name]:
		return f.members(name, value, depth)
	}
	return value, nil
}

// members returns an object that holds schemas by name, without references.
func (f *flattener) members(keyword string, value any, depth int) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return value, nil
	}
	flat := make(map[string]any, len(object))
	for name, schema := range object {
		if keyword == "patternProperties" {
			if err := f.pattern(name); err != nil {
				return nil, err
			}
		}
		if _, isList := schema.([]any); isList {
			flat[name] = schema // draft 7's dependencies may be lists of names
			continue
		}
		next, err := f.flatten(schema, depth)
		if err != nil {
			return nil, err
		}
		flat[name] = next
	}
	return flat, nil
}

// named returns what a reference names: the root, or a place in it by JSON Pointer (RFC 6901).
func (f *flattener) named(ref any) (any, error) {
	pointer, ok := ref.(string)
	if !ok || !strings.HasPrefix(pointer, "#") {
		return nil, errors.New("it refers to another document")
	}
	var found any = f.root
	pointer, err := url.PathUnescape(pointer[1:])
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, errors.New("it refers to an anchor")
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		object, _ := found.(map[string]any)
		if found, ok = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]; !ok {
			return nil, errors.New("it refers to what is not in it")
		}
	}
	return found, nil
}

// pattern counts a regular expression.
func (f *flattener) pattern(value any) error {
	expression, ok := value.(string)
	if !ok || len(expression) > maxPatternSize {
		return errors.New("it holds a regular expression that is too large")
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return errors.New("it holds a regular expression that Go does not know")
	}
	if f.patterns += sizeOf(parsed); f.patterns > maxPatternSize {
		return errors.New("its regular expressions are too large")
	}
	return nil
}

// sizeOf returns about how many steps a regular expression has once its repetitions are written out.
func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxPatternSize+1)
}
