package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown returns s without what does not show: escape sequences of terminals, control characters but white space,
// characters without width or meaning of their own, and invalid bytes. Whoever drops them later would join what they
// divide, such as the halves of a secret: after Shown, Plain and Lines change white space alone.
func Shown(s string) string {
	n := shownPrefix(s)
	if n == len(s) {
		return s
	}
	return s[:n] + strings.Map(func(r rune) rune {
		if isShown(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(StripANSI(s[n:]), ""))
}

// isShown reports whether a character shows, or is white space.
func isShown(r rune) bool { return unicode.IsSpace(r) || !unicode.IsControl(r) && shows(r) }

// shownPrefix is the length of the longest beginning of a text of which all shows. Bodies are long, and this is asked
// before anything else is read of them, so that it reads eight bytes at a time.
func shownPrefix(s string) int {
	for i := 0; i < len(s); {
		if len(s)-i >= 8 && isPrintable(Word(s[i:])) {
			i += 8
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError || !isShown(r) {
			return i
		}
		i += size
	}
	return len(s)
}

// isPrintable reports whether eight bytes are ASCII that shows. Of few that do it says that they do not.
func isPrintable(w uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	control := w - ' '*ones       // sets the high bit of what is less than a space, and perhaps of what stands behind it
	del := (w ^ 0x7f*ones) - ones // sets it of what is a delete
	return (w|control|del)&high == 0
}
