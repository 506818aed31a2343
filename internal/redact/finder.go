package redact

import "math"

// finder finds all places of many short texts in one pass, upper and lower case of ASCII alike. The scanner of
// internal/classify/scan is faster, but says only whether a text occurs, and belongs to a package above this one.
type finder struct {
	texts []string
	// triples says, a bit each, which three kinds of bytes a text may begin with, and begun which texts begin so. The
	// first is small enough to stay near at hand.
	triples [1 << (3 * kindBits) / 64]uint64
	begun   [1 << (3 * kindBits)]beginning
}

// beginning are the texts that begin with the same kinds of bytes.
type beginning struct {
	ids []int
	// fourth says, a bit each, which kinds of bytes may follow.
	fourth uint32
}

const (
	kindBits = 5
	minText  = 2
)

// fold puts ASCII letters in lower case.
var fold = func() (table [256]byte) {
	for b := range table {
		table[b] = byte(b)
		if 'A' <= b && b <= 'Z' {
			table[b] += 'a' - 'A'
		}
	}
	return table
}()

// kinds divides bytes into kinds: each letter is one, other bytes share some.
var kinds = func() (table [256]uint16) {
	for b := range table {
		switch c := fold[b]; {
		case 'a' <= c && c <= 'z':
			table[b] = uint16(c - 'a')
		case '0' <= c && c <= '9':
			table[b] = 26 + uint16(c)%2
		default:
			table[b] = 28 + uint16(c)%4
		}
	}
	return table
}()

// then is the triple that follows one with the next byte.
func then(triple uint16, next byte) uint16 { return triple>>kindBits | kinds[next]<<(2*kindBits) }

// newFinder returns a finder of texts in lower case, of two bytes at least.
func newFinder(texts []string) *finder {
	f := &finder{texts: texts}
	for id, text := range texts {
		begins := then(then(0, text[0]), text[1])
		if len(text) > minText {
			f.add(then(begins, text[2]), id)
			continue
		}
		for kind := range uint16(1 << kindBits) {
			f.add(begins>>kindBits|kind<<(2*kindBits), id)
		}
	}
	return f
}

func (f *finder) add(triple uint16, id int) {
	f.triples[triple/64] |= 1 << (triple % 64)
	b := &f.begun[triple]
	b.ids = append(b.ids, id)
	if text := f.texts[id]; len(text) > 3 {
		b.fourth |= 1 << kinds[text[3]]
	} else {
		b.fourth = math.MaxUint32
	}
}

// find calls hit for each place of each text, in ascending order of places.
func (f *finder) find(s string, hit func(id, at int)) {
	if len(s) < minText {
		return
	}
	triple := then(then(0, s[0]), s[1])
	for i := 2; i < len(s); i++ {
		triple = then(triple, s[i])
		if f.triples[triple/64]>>(triple%64)&1 != 0 {
			f.findAt(s, i-2, &f.begun[triple], hit)
		}
	}
	f.findAt(s, len(s)-2, &f.begun[then(triple, 0)], hit)
}

// findAt is find for one place and the texts that may begin there.
func (f *finder) findAt(s string, at int, b *beginning, hit func(id, at int)) {
	if at+3 < len(s) && b.fourth>>kinds[s[at+3]]&1 == 0 {
		return
	}
	for _, id := range b.ids {
		if text := f.texts[id]; at+len(text) <= len(s) && foldedEqual(s[at:at+len(text)], text) {
			hit(id, at)
		}
	}
}

// foldedEqual compares a text with one of the same length in lower case.
func foldedEqual(s, lower string) bool {
	for i := range len(s) {
		if fold[s[i]] != lower[i] {
			return false
		}
	}
	return true
}

// isWordByte reports whether \b takes a byte for part of a word.
func isWordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= fold[b] && fold[b] <= 'z'
}
