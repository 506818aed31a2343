package diagnose

import (
	"strings"

	"github.com/agrajag-dev/agrajag/internal/redact"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// Bounds of a verdict's text, in bytes (specification §5.3).
const (
	maxNote = 500
	maxHint = 200
	// maxReasons leaves room in the note for what the model said.
	maxReasons = 400
)

// note returns what the model said and what was changed about it. The reasons are never cut off by the model's words.
func (v *verdict) note() string {
	said := tame(v.asked.HumanNote, maxNote)
	if len(v.reasons) == 0 {
		return said
	}
	reasons := tame("["+strings.Join(v.reasons, "; ")+"]", maxReasons)
	return strings.TrimSpace(text.Plain(said, maxNote-len(reasons)-1) + " " + reasons)
}

// maxTamed bounds what of a field of text is searched for links, in bytes. It is so much less than maxField that redact.Cut
// sees where more was said, and drops the end of what it has read.
const maxTamed = 1 << 10

// tame returns text of a model as one plain line without secrets and links, of at most limit bytes.
func tame(s string, limit int) string {
	return text.Plain(without(link, text.Plain(redact.Cut(s, maxTamed), maxTamed), nothingStays), limit)
}

// tameHint is tame for what a user is asked to do: there a host alone is a place to be sent to. The tool's own name
// stays, even where it looks like one.
func tameHint(s string, in Input) string {
	return text.Plain(without(host, tame(s, maxTamed), in.staysInHint()), maxHint)
}
