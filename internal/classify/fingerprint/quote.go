package fingerprint

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// maxQuoted is the longest quoted value, in bytes. Longer text between two quotes is more likely between two values.
	maxQuoted = 256
	// maxName is the longest quoted name of a JSON value.
	maxName = 64
)

// quoteState is what is known about quotes.
type quoteState struct {
	// open is the quote that ends the quoted text that is being read: of JSON, or of prose; empty: none.
	open string
	json jsonPlace
	// unclosed says for each quote of openers up to where the input holds none that closes, so that looking for it
	// costs little however many open.
	unclosed [len(openers)]int
}

// jsonPlace is where in a JSON object the reader is, as far as it matters for quotes.
type jsonPlace int

const (
	outside jsonPlace = iota
	inName
	behindName
	beforeValue
	inValue
)

// pass takes note of a character that is neither a quote nor white space.
func (q *quoteState) pass(c byte) {
	switch {
	case q.json == behindName && c == ':':
		q.json = beforeValue
	case q.json == behindName || q.json == beforeValue:
		q.json = outside
	}
}

// openers are the quotes that begin something, and closers those that end it.
var (
	openers = [...]string{`"`, "'", "`", `\"`, `\'`, "\\`", "“", "‘", "«", "„"}
	closers = [len(openers)]string{`"`, "'", "`", `\"`, `\'`, "\\`", "”", "’", "»", "“"}
)

// onlyClosing are the quotes that end something and begin nothing.
var onlyClosing = [...]string{"”", "’", "»"}

// quoteAt is the number of the quote of openers at the beginning of a text, or -1, and how long what stands there is:
// 0 if it is no quote at all.
func quoteAt(text string) (opener, length int) {
	if c := text[0]; c < utf8.RuneSelf && strings.IndexByte("\"'`\\", c) < 0 {
		return -1, 0
	}
	for i, quote := range openers {
		if strings.HasPrefix(text, quote) {
			return i, len(quote)
		}
	}
	for _, quote := range onlyClosing {
		if strings.HasPrefix(text, quote) {
			return -1, len(quote)
		}
	}
	return -1, 0
}

// quote reads a quote and, as a rule, what it quotes. Quotes never reach the output: one that closes nothing is a
// space.
func (n *normaliser) quote(rest string, opener, length int) {
	opening := rest[:length]
	q := &n.quotes
	switch {
	case q.open == opening:
		q.open = ""
		if q.json == inName {
			q.json = behindName
		} else {
			q.json = outside
		}
	case q.open == "" && q.json == beforeValue:
		q.open, q.json = opening, inValue
	case q.open == "" && n.isName(rest, opening):
		q.open, q.json = opening, inName
	case opener >= 0:
		end := n.closing(opener)
		if end > 0 && (q.open != "" || !isProse(rest[:end])) {
			n.at += end
			n.place(quoted)
			return
		}
		if end > 0 {
			q.open = closers[opener]
		}
	}
	n.at += length
	n.space()
}

// isProse reports whether a quoted text is a sentence, as another error's message is, rather than a value.
func isProse(text string) bool {
	const words = 5
	count := 0
	for range strings.FieldsSeq(text) {
		count++
	}
	return count >= words
}

// isName reports whether a quote begins the name of a JSON value: it stands behind a brace or a comma, and a colon
// behind it.
func (n *normaliser) isName(rest, opening string) bool {
	if before := bytes.TrimRight(n.out, " "); len(before) == 0 || before[len(before)-1] != '{' && before[len(before)-1] != ',' {
		return false
	}
	name := rest[len(opening):min(len(rest), len(opening)+maxName)]
	_, behind, ok := strings.Cut(name, opening)
	return ok && strings.HasPrefix(strings.TrimLeft(behind, " \t\r\n"), ":")
}

// closing is the length of the quoted value that begins here, with its quotes, or 0.
func (n *normaliser) closing(opener int) int {
	opening, closing := openers[opener], closers[opener]
	if opening == "'" && isWord(n.last()) {
		return 0 // it closes something, or is an apostrophe
	}
	from := max(n.at+len(opening), n.quotes.unclosed[opener])
	limit := min(len(n.in), n.at+len(opening)+maxQuoted)
	at := from
	for ; at < limit; at++ {
		if open := n.quotes.open; open != "" && strings.HasPrefix(n.in[at:], open) {
			break
		}
		if !strings.HasPrefix(n.in[at:], closing) || len(opening) == 1 && n.in[at-1] == '\\' {
			continue
		}
		end := at + len(closing)
		if opening == "'" && end < len(n.in) && isWord(n.in[end]) {
			continue
		}
		return end - n.at
	}
	n.quotes.unclosed[opener] = max(at, from)
	return 0
}
