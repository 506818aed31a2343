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
		return valid(s)
	}
	keep := limit - len(ellipsis)
	mark := ellipsis
	if keep < 0 {
		keep, mark = max(limit, 0), ""
	}
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return valid(s[:keep]) + mark
}

// valid drops invalid bytes.
func valid(s string) string {
	if utf8.ValidString(s) { // It is the rule, and seen far faster than by dropping what is not there.
		return s
	}
	return strings.ToValidUTF8(s, "")
}

// Plain returns s as one line of at most limit bytes without escape sequences of terminals, control characters,
// characters that show nothing (such as those that turn the writing direction) and runs of space.
func Plain(s string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range Shown(within(s, limit)) {
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return Cut(b.String(), limit)
}

// newlines are what separates lines, as one of them.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Lines is Plain for a text of several lines, such as what a tool answered: lines and their indentation stay.
func Lines(s string, limit int) string {
	return Cut(newlines.Replace(Shown(within(s, limit))), limit)
}

// within cuts off what is not worth cleaning: four bytes a character leave room for what is dropped.
func within(s string, limit int) string { return Cut(s, 4*limit+len(ellipsis)) }

// shows reports whether a character can be seen. Others could carry a message past a reader to a model.
func shows(r rune) bool {
	if r < utf8.RuneSelf {
		return true
	}
	return r != utf8.RuneError && !unicode.In(r, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
