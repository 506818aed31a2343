package restapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// decode reads JSON into a value, and refuses fields that it does not know: a typing error would be a report that
// says less than it seems to.
func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return problem(http.StatusBadRequest, "json", "the body cannot be read: %s", wrongJSON(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return problem(http.StatusBadRequest, "json", "the body holds more than one JSON value")
	}
	return nil
}

// unknownField begins what encoding/json says of a field that it does not know. It has no type of its own for it.
const unknownField = `json: unknown field "`

// wrongJSON says what is wrong with a body, and quotes no value of it: that may be a secret.
func wrongJSON(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var at *time.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends in the middle"
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is no JSON from byte %d on", syntax.Offset)
	case errors.As(err, &kind):
		where := "it"
		if kind.Field != "" {
			where = kind.Field
		}
		return fmt.Sprintf("%s must be %s, not %s", where, kindOf(kind.Type), strings.Fields(kind.Value + " ")[0])
	case errors.As(err, &at):
		return "a time must be written as 2026-05-23T15:00:00Z"
	case strings.HasPrefix(err.Error(), unknownField):
		return "there is no such field" + quoted(strings.TrimSuffix(strings.TrimPrefix(err.Error(), unknownField), `"`))
	default:
		return "a value is not of its kind"
	}
}

// kindOf names a type as people who write JSON do.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number"
	}
}

// word is a name that is no secret.
var word = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// quoted quotes a name that a caller made up, after a space; empty: it is no plain word, and might be anything.
func quoted(name string) string {
	if !word.MatchString(name) {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}
