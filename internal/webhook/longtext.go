package webhook

import (
	"bytes"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/redact"
)

// readError reads a reported error, of its body no more than is looked at.
func readError(dec *jsontext.Decoder, e *v1alpha1.ToolError) error {
	wire := struct {
		*v1alpha1.ToolError
		Body longText `json:"body"`
	}{ToolError: e}
	err := jsonv2.UnmarshalDecode(dec, &wire)
	e.Body = string(wire.Body)
	return err
}

// longText is a text that may be much longer than what is looked at of it. Decoding the escapes of JSON is most of the work
// of reading one.
type longText string

// chunk is how much of a text is decoded at once, in bytes as they came.
const chunk = 8 << 10

// UnmarshalJSONFrom reads a text until there is as much as is looked at.
func (t *longText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if len(raw) <= redact.ReadOfBody || raw.Kind() != '"' {
		return jsonv2.Unmarshal(raw, (*string)(t), dec.Options())
	}
	raw = raw[1 : len(raw)-1]
	decoded := make([]byte, 0, redact.ReadOfBody+2*chunk)
	quoted := make([]byte, 0, 2*chunk)
	for len(raw) > 0 && len(decoded) <= redact.ReadOfBody {
		n := whole(raw, chunk)
		quoted = append(append(append(quoted[:0], '"'), raw[:n]...), '"')
		decoded, _ = jsontext.AppendUnquote(decoded, quoted) // The decoder has found no fault but invalid UTF-8, which is replaced.
		raw = raw[n:]
	}
	*t = longText(decoded)
	return nil
}

// longestEscape is the length of two escapes that stand for one character.
const longestEscape = len(`\ud83d\ude00`)

// whole returns where the inside of a string of JSON can be divided, about n bytes from its beginning: in no character and
// in no escape. Where there is no such place nearby, that is its end.
func whole(raw []byte, n int) int {
	for i := n; i > n/2 && n < len(raw); i-- {
		if utf8.RuneStart(raw[i]) && bytes.IndexByte(raw[i-longestEscape:i], '\\') < 0 {
			return i
		}
	}
	return len(raw)
}
