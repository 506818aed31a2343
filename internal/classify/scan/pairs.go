package scan

const (
	pairWindow = 2
	pairStride = 3
)

// pairTables tell for short needles, in which a window is little to go by, whether one may stand at a position, from
// two bytes there and their neighbours. Windows of two bytes at every third position suffice for needles from 4
// bytes on, and one load covers three of them.
//
// The registered windows are dealt to 8 classes, each a bit in every table. One may be there only if the bits of a
// class are in all that is looked up: for the two bytes themselves, and for the byte before or after them.
type pairTables struct {
	pair          [1 << 16]uint8
	before, after [1 << 8]uint8
}

func newPairTables(needles []string, candidates []candidate) *pairTables {
	p := &pairTables{}
	for i, c := range candidates {
		class := uint8(1) << (i % 8)
		needle, offset := needles[c.needle], int(c.offset)
		p.pair[uint16(c.word)] |= class
		allow(&p.before, needle, offset-1, class)
		allow(&p.after, needle, offset+pairWindow, class)
	}
	return p
}

// allow lets a class pass for the byte of a needle at an index, and for every byte if there is none.
func allow(table *[1 << 8]uint8, needle string, index int, class uint8) {
	if 0 <= index && index < len(needle) {
		table[roughByte(needle[index])] |= class
		return
	}
	for b := range table {
		table[b] |= class
	}
}

// searchPairs is searchHashes for short needles.
func (f *filter) searchPairs(r *run, start int) int {
	const block = 3 * pairStride
	text, p := r.text, f.pairs
	pos, length := uint(start), uint(len(text))
	for ; pos+block <= length; pos += block {
		w := load(text[pos:]) | roughFold
		second, fifth := uint8(w>>16), uint8(w>>40)
		if p.pair[uint16(w)]&p.after[second]|
			p.pair[uint16(w>>24)]&p.before[second]&p.after[fifth]|
			p.pair[uint16(w>>48)]&p.before[fifth] == 0 {
			continue
		}
		for i := range uint(3) {
			f.probe(r, int(pos+i*pairStride))
		}
		if next := int(pos + block); r.left == 0 || r.overBudget(next) {
			return next
		}
	}
	return int(pos)
}
