package redact

// finder finds all places of many short texts in one pass, upper and lower case of ASCII alike. The scanner of
// internal/classify/scan is faster, but says only whether a text occurs, and belongs to a package above this one.
type finder struct {
	texts []string
	// triples says which three bytes a text may begin with, pairs which texts begin with two bytes.
	triples [1 << tripleBits]bool
	pairs   map[uint16][]int
}

const (
	tripleBits = 15
	minText    = 2
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

func triple(a, b, c byte) uint { return (uint(a) ^ uint(b)<<5 ^ uint(c)<<10) % (1 << tripleBits) }

// newFinder returns a finder of texts in lower case, of two bytes at least.
func newFinder(texts []string) *finder {
	f := &finder{texts: texts, pairs: map[uint16][]int{}}
	for id, text := range texts {
		pair := uint16(text[0])<<8 | uint16(text[1])
		f.pairs[pair] = append(f.pairs[pair], id)
		if len(text) > minText {
			f.triples[triple(text[0], text[1], text[2])] = true
			continue
		}
		for c := range 256 {
			f.triples[triple(text[0], text[1], byte(c))] = true
		}
	}
	return f
}

// find calls hit for each place of each text, in ascending order of places.
func (f *finder) find(s string, hit func(id, at int)) {
	if len(s) < minText {
		return
	}
	a, b := fold[s[0]], fold[s[1]]
	for i := range len(s) - 1 {
		c := byte(0)
		if i+2 < len(s) {
			c = fold[s[i+2]]
		}
		if f.triples[triple(a, b, c)] {
			for _, id := range f.pairs[uint16(a)<<8|uint16(b)] {
				if text := f.texts[id]; i+len(text) <= len(s) && foldedEqual(s[i:i+len(text)], text) {
					hit(id, i)
				}
			}
		}
		a, b = b, c
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
