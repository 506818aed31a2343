// Package text makes text that strangers wrote fit for status fields: valid, plain and bounded.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis marks a cut, so that nobody takes a part for the whole.
const ellipsis = "…"

// Cut returns s as valid UTF-8 of at most limit bytes. A longer text ends with "…", where limit leaves room.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "")
	}
	keep := limit - len(ellipsis)
	mark := ellipsis
	if keep < 0 {
		keep, mark = max(limit, 0), ""
	}
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return strings.ToValidUTF8(s[:keep], "") + mark
}

// Plain returns s as one line of at most limit bytes without control characters, format characters (such as
// those that turn the writing direction) and runs of space.
func Plain(s string, limit int) string {
	// What is cut off at the end is not worth cleaning; four bytes a character leave room for what is dropped.
	s = Cut(s, 4*limit+len(ellipsis))
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = b.Len() > 0
		case unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
		default:
			if space {
				b.WriteByte(' ')
				space = false
			}
			b.WriteRune(r)
		}
	}
	return Cut(b.String(), limit)
}
