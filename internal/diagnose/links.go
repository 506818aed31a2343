package diagnose

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// removed stands where a link was.
const removed = "[link removed]"

// Parts of what link and host find.
const (
	label = `[\p{L}\p{M}\p{N}_-]+`
	// lastLabel is that of a name which may exist: letters, or Punycode.
	lastLabel = `(?:xn--[a-z0-9-]+|[\p{L}\p{M}]{2,})`
	port      = `(?::[0-9]+)?`
	// rest is the remainder of what is found. It ends before removed, and where another script begins, which may need no space.
	rest = `[!-Z\\-~]*`
)

// link finds addresses, with or without a scheme, and Markdown's links, so that no text leads a reader somewhere. A scheme that
// is not known counts where what follows looks like an address: "code:x" may be anything.
var link = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*:/\S*` +
	`|[a-z][a-z0-9+.-]+:\\\S*` + // No drive of Windows.
	`|\b(?:h(?:tt|xx)ps?|ftps?|wss?|file|mailto|tel|sms(?:to)?|callto|facetime|skype|whatsapp|sips?|xmpp|tg|magnet|intent|javascript|vbscript|view-source|blob):\S+` +
	`|\b[a-z][a-z0-9+.-]+:[^\s\]]*[/\\?@=%]\S*` +
	`|\](?:\s?\([^)]*\)?)+` +
	`|www\.\S+` +
	`|://\S*` +
	`|//` + label + `\.\S+` +
	`|` + label + `(?:\.` + label + `)*\.` + lastLabel + `\.?` + port + `[/\\?#]\S*` +
	`|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}` + port + `[/\\?#]\S*` +
	`|\[[0-9a-f]*:[0-9a-f:.]+\]` + port + `[/\\?#]\S*`)

// host finds what may be a place to go to besides: a host's name or address, a path on a host without dots, and whatever
// stands behind a colon without a space.
var host = regexp.MustCompile(`(?i)[\p{L}\p{M}\p{N}_.-]*[\p{L}\p{M}_][\p{L}\p{M}\p{N}_.-]*[/\\][\p{L}\p{M}\p{N}_-]` + rest +
	`|\b(?:[a-z_][\w+.-]*|[0-9][\w.-]*[a-z_]):[!-~]` + rest +
	`|` + label + `(?:\.` + label + `)*\.(?:` + lastLabel + `|[0-9]+)` + rest +
	`|\b(?:0x[0-9a-f]{5,}|[0-9]{8,}[/\\:])` + rest +
	`|(?:[0-9a-f]{0,4}:){3,}` + rest + `|::[0-9a-f]` + rest)

// noHost is what host finds that is none: the mark of a secret, and words that are often written so.
var noHost = regexp.MustCompile(`(?i)^(?:redacted:[0-9a-f]{6}\]|and/or|und/oder|n/a)$`)

// without returns s without what a pattern finds in it as browsers read it: in whatever form letters, slashes and dots are
// written. What stays is not removed, and a text of which nothing is removed is left as it is written.
func without(pattern *regexp.Regexp, s string, stays func(found string) bool) string {
	read := dotted(norm.NFKC.String(s))
	read = text.Plain(read, len(read))
	changed := false
	read = pattern.ReplaceAllStringFunc(read, func(found string) string {
		if stays(found) {
			return found
		}
		changed = true
		return removed
	})
	if !changed {
		return s
	}
	return read
}

// nothingStays is for texts in which no link is wanted.
func nothingStays(string) bool { return false }

// staysInHint returns what may stand in a hint though it looks like a place: the tool's own name, and what is none.
func (in Input) staysInHint() func(found string) bool {
	own := norm.NFKC.String(string(in.Job.Spec.ToolName))
	return func(found string) bool {
		found = strings.TrimRight(found, ".,;:!?)")
		return strings.Contains(own, found) || noHost.MatchString(found)
	}
}

// stop is the full stop of Chinese and Japanese. Browsers take it for a dot in a host's name (UTS 46), as they do the other
// dots that are not ASCII; those norm.NFKC makes one.
const stop = '。'

// dotted turns each stop into a dot that may stand in a host's name.
func dotted(s string) string {
	if !strings.ContainsRune(s, stop) {
		return s
	}
	runes := []rune(s)
	for i := 1; i+1 < len(runes); i++ {
		if runes[i] == stop && joins(runes[i-1], runes[i+1:]) {
			runes[i] = '.'
		}
	}
	return string(runes)
}

// joins reports whether a stop between a character and what follows may join labels of a name. Else it ends a sentence, as
// between two words of the scripts that use it, or before a longer word: no space follows there. A path tells them apart.
func joins(before rune, after []rune) bool {
	if unicode.IsNumber(after[0]) {
		return unicode.IsNumber(before)
	}
	n := 0
	for n < len(after) && (unicode.IsLetter(after[n]) || unicode.IsMark(after[n])) {
		n++
	}
	switch {
	case n == 0:
		return false
	case n < len(after) && strings.ContainsRune(`/\#`, after[n]):
		return true
	case usesStop(before) && usesStop(after[0]):
		return false
	case usesStop(before) || usesStop(after[0]):
		return n >= 2 && n <= 4 // As long as com, or most names of countries and the like.
	default:
		return true
	}
}

// usesStop reports whether a character is of a script that ends its sentences with a stop.
func usesStop(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー'
}
