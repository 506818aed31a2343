package classify

import (
	"strings"
	"sync"

	"github.com/agrajag-dev/agrajag/internal/classify/scan"
)

// needles are the texts that the rules look for, each once, in lower case. A needle's number is its place here.
type needles struct {
	texts  []string
	number map[string]int32
	// set finds them all in one pass over a text, once compile has been called.
	set *scan.Set
}

// add gives the number of a needle.
func (n *needles) add(text string) int32 {
	text = strings.ToLower(text)
	if id, ok := n.number[text]; ok {
		return id
	}
	if n.number == nil {
		n.number = map[string]int32{}
	}
	id := int32(len(n.texts)) // Compile bounds the entries, so it never overflows.
	n.texts = append(n.texts, text)
	n.number[text] = id
	return id
}

// compile makes the needles ready to be looked for. None is added after that.
func (n *needles) compile() { n.set = scan.Compile(n.texts) }

// find looks for the needles in a text, upper and lower case alike.
func (n *needles) find(text string, f *found) {
	if !isASCII(text) {
		text = strings.ToLower(text) // The search itself knows the letters of ASCII alone.
	}
	n.set.Find(text, &f.Found)
}

// isASCII reads 32 bytes at a time: bodies are long, and this is read before anything else of them.
func isASCII(text string) bool {
	const high = 0x8080808080808080
	for len(text) >= 32 {
		if (word(text)|word(text[8:])|word(text[16:])|word(text[24:]))&high != 0 {
			return false
		}
		text = text[32:]
	}
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// word is the first eight bytes of a text, in a form that compiles to one load.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// found says which needles stand in one text.
type found struct{ scan.Found }

// textSearch says what stands in the texts of one report, as far as a rule has asked.
type textSearch struct {
	readMessage, readBody bool
	message, body         found
}

// textsPool keeps what searches need between reports, so that a report costs no allocation.
var textsPool = sync.Pool{New: func() any { return new(textSearch) }}

// hasAny reports whether any of the needles stands in the text; without needles, that nothing is asked.
func (f *found) hasAny(ids []int32) bool {
	for _, id := range ids {
		if f.Has(int(id)) {
			return true
		}
	}
	return len(ids) == 0
}

func (f *found) hasAll(ids []int32) bool {
	for _, id := range ids {
		if !f.Has(int(id)) {
			return false
		}
	}
	return true
}
