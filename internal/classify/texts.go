package classify

import (
	"strings"
	"sync"

	"github.com/agrajag-dev/agrajag/internal/classify/scan"
	"github.com/agrajag-dev/agrajag/internal/text"
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
func (n *needles) find(body string, f *found) {
	if !text.IsASCII(body) {
		body = strings.ToLower(body) // The search itself knows the letters of ASCII alone.
	}
	n.set.Find(body, &f.Found)
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
