package diagnose

import (
	"regexp"
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

const removed = "[link removed]"

// link finds addresses, with or without a scheme, and Markdown's links, so that no text leads a reader somewhere.
var link = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*:(?:/+|\\{2,})\S*` +
	`|(?:(?:mailto|javascript|tel|file):|data:[a-z]+/)\S+` +
	`|\]\s?\([^)]*\)?` +
	`|www\.\S+` +
	`|//[\p{L}\p{N}-]+\.\S+` +
	`|[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}(?::[0-9]+)?[/?#]\S*` +
	`|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?[/?#]\S*`)

// host finds what may be the name or the address of a host.
var host = regexp.MustCompile(`[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*\.(?:\p{L}{2,}|[0-9]+)`)

// tame returns text of a model as one plain line without secrets and links, of at most limit bytes.
func tame(s string, limit int) string {
	return text.Plain(link.ReplaceAllString(text.Plain(redact.Cut(s, maxTamed), maxTamed), removed), limit)
}

// tameHint is tame for what a user is asked to do: there a host alone is a place to be sent to. The tool's own name
// stays, even where it looks like one.
func tameHint(s string, in Input) string {
	own := string(in.Job.Spec.ToolName)
	s = host.ReplaceAllStringFunc(tame(s, maxTamed), func(found string) string {
		if strings.Contains(own, found) {
			return found
		}
		return removed
	})
	return text.Plain(s, maxHint)
}
