package fingerprint

import (
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
	// unclosed says for each quote up to where the input holds none that closes, so that looking for it costs
	// little however many open.
	unclosed map[string]int
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

// closers are the quotes that end what others begin.
var closers = map[rune]rune{'“': '”', '‘': '’', '«': '»', '„': '“'}

// isQuote reports whether a text begins with a quote, with or without a backslash.
func isQuote(text string) bool {
	c := text[0]
	if c == '\\' && len(text) > 1 {
		c = text[1]
		return c == '"' || c == '\'' || c == '`'
	}
	if c < utf8.RuneSelf {
		return c == '"' || c == '\'' || c == '`'
	}
	r, _ := utf8.DecodeRuneInString(text)
	_, opens := closers[r]
	return opens || r == '”' || r == '’' || r == '»'
}

// quote reads a quote and, as a rule, what it quotes. Quotes never reach the output: one that closes nothing is a
// space.
func (n *normaliser) quote(rest string) {
	opening, closing := quotesOf(rest)
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
	default:
		end := n.closing(opening, closing)
		if end > 0 && (q.open != "" || !isProse(rest[:end])) {
			n.at += end
			n.place(quoted)
			return
		}
		if end > 0 {
			q.open = closing
		}
	}
	n.at += len(opening)
	n.space()
}

// isProse reports whether a quoted text is a sentence, as another error's message is, rather than a value.
func isProse(text string) bool {
	const words = 5
	return len(strings.Fields(text)) >= words
}

// quotesOf is the quote at the beginning of a text, with its backslash, and the one that closes it; empty: none.
func quotesOf(text string) (opening, closing string) {
	if text[0] == '\\' {
		return text[:2], text[:2]
	}
	r, size := utf8.DecodeRuneInString(text)
	if r < utf8.RuneSelf {
		return text[:1], text[:1]
	}
	if c, ok := closers[r]; ok {
		return text[:size], string(c)
	}
	return text[:size], ""
}

// isName reports whether a quote begins the name of a JSON value: it stands behind a brace or a comma, and a colon
// behind it.
func (n *normaliser) isName(rest, opening string) bool {
	before := strings.TrimRight(string(n.out[max(0, len(n.out)-2):]), " ")
	if !strings.HasSuffix(before, "{") && !strings.HasSuffix(before, ",") {
		return false
	}
	name := rest[len(opening):min(len(rest), len(opening)+maxName)]
	_, behind, ok := strings.Cut(name, opening)
	return ok && strings.HasPrefix(strings.TrimLeft(behind, " \t\r\n"), ":")
}

// closing is the length of the quoted value that begins here, with its quotes, or 0.
func (n *normaliser) closing(opening, closing string) int {
	if closing == "" || opening == "'" && isWord(n.last()) {
		return 0 // it closes something, or is an apostrophe
	}
	from := max(n.at+len(opening), n.quotes.unclosed[opening])
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
	if n.quotes.unclosed == nil {
		n.quotes.unclosed = map[string]int{}
	}
	n.quotes.unclosed[opening] = max(at, from)
	return 0
}
