package classify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWaitText bounds what is read of a text in search of a wait, in bytes: as much as a report's body may have.
const maxWaitText = 64 << 10

// lexKind is a kind of lexeme.
type lexKind int

const (
	lexEnd lexKind = iota
	lexWord
	lexNumber
	lexMark
)

// lexeme is a word, a number or a mark of a text, with what is needed to read on behind it.
type lexeme struct {
	kind lexKind
	// word is the word in lower case if it is one that means something here, else empty.
	word string
	// whole and fraction are the digits of a number.
	whole, fraction string
	// mark is any other character.
	mark       rune
	start, end int
}

// lex reads the lexeme that begins at or behind a place of a text. It depends on nothing before that place. A word
// ends where a capital letter follows a small one, so that retryAfter is two words. White space and its escapes in
// JSON stand between lexemes.
func lex(text string, at int) lexeme {
	at = skipSpace(text, at)
	if at >= len(text) {
		return lexeme{start: at, end: at}
	}
	if c := text[at]; '0' <= c && c <= '9' {
		return lexNumberAt(text, at)
	}
	r, size := utf8.DecodeRuneInString(text[at:])
	if !unicode.IsLetter(r) {
		return lexeme{kind: lexMark, mark: r, start: at, end: at + size}
	}
	end, small := at, false
	for end < len(text) {
		r, size = utf8.DecodeRuneInString(text[end:])
		if !unicode.IsLetter(r) || small && unicode.IsUpper(r) {
			break
		}
		small = unicode.IsLower(r)
		end += size
	}
	return lexeme{kind: lexWord, word: known(text[at:end]), start: at, end: end}
}

func skipSpace(text string, at int) int {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case unicode.IsSpace(r):
			at += size
		case r == '\\' && at+1 < len(text) && strings.IndexByte("nrt", text[at+1]) >= 0:
			at += 2
		case r == '\\':
			at++
		default:
			return at
		}
	}
	return at
}

// lexNumberAt reads digits, with commas between groups of three and a fraction.
func lexNumberAt(text string, at int) lexeme {
	end := digitsEnd(text, at)
	whole := text[at:end]
	for len(whole) <= maxDelta && end < len(text) && text[end] == ',' && digitsEnd(text, end+1) == end+4 {
		whole += text[end+1 : end+4]
		end += 4
	}
	l := lexeme{kind: lexNumber, whole: whole, start: at}
	if end < len(text) && text[end] == '.' {
		if stop := digitsEnd(text, end+1); stop > end+1 {
			l.fraction, end = text[end+1:stop], stop
		}
	}
	l.end = end
	return l
}

func digitsEnd(text string, at int) int {
	for at < len(text) && '0' <= text[at] && text[at] <= '9' {
		at++
	}
	return at
}

// known is a word in lower case if it is one of the vocabulary's.
func known(word string) string {
	var lower [maxKnown]byte
	if len(word) > len(lower) {
		return ""
	}
	for i := range len(word) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return vocabulary[string(lower[:len(word)])]
}

// cursor reads a text on.
type cursor struct {
	text string
	at   int
	// lookups is how many more time zones may be looked up, in all copies of the cursor.
	lookups *int
}

func (c *cursor) peek() lexeme {
	return lex(c.text, c.at)
}

// skipWords passes over at most some words of a list, and the marks that may stand between a name and its value.
func (c *cursor) skipWords(list words, most int) {
	for range most {
		l := c.peek()
		isListed := l.kind == lexWord && list[l.word]
		isMark := l.kind == lexMark && strings.ContainsRune("\"'`:=(*_-~≈", l.mark)
		if !isListed && !isMark {
			return
		}
		if l.mark == '-' && l.end < len(c.text) && '0' <= c.text[l.end] && c.text[l.end] <= '9' {
			return // a negative number
		}
		c.at = l.end
	}
}

// take passes over a word of a list and gives it.
func (c *cursor) take(list words) (string, bool) {
	l := c.peek()
	if l.kind != lexWord || !list[l.word] {
		return "", false
	}
	c.at = l.end
	return l.word, true
}

// mark passes over a character.
func (c *cursor) mark(r rune) bool {
	l := c.peek()
	if l.kind != lexMark || l.mark != r {
		return false
	}
	c.at = l.end
	return true
}
