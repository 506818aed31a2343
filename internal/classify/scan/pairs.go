package scan

const (
	pairWindow = 2
	pairStride = 3
	// pairClasses is how many bits the tables have.
	pairClasses = 32
)

// pairTables tell for short needles, in which a window is little to go by, whether one may stand at a position, from
// two bytes there and their neighbours. Windows of two bytes at every third position suffice for needles from 4
// bytes on, and one load covers three of them.
//
// The registered windows are dealt to 32 classes, each a bit in every table. One may be there only if the bits of a
// class are in all that is looked up: for the two bytes themselves, and for the bytes before and after them.
type pairTables struct {
	pair [1 << 16]uint32
	// before and after are for the next byte on either side.
	before, after byteTable
}

type byteTable [1 << 8]uint32

func newPairTables(needles []string, candidates []candidate) *pairTables {
	p := &pairTables{}
	for i, c := range candidates {
		class := uint32(1) << (i % pairClasses)
		needle, offset := needles[c.needle], int(c.offset)
		p.pair[uint16(c.word)] |= class
		p.before.allow(needle, offset-1, class)
		p.after.allow(needle, offset+pairWindow, class)
	}
	return p
}

// allow lets a class pass for the byte of a needle at an index, and for every byte if there is none.
func (t *byteTable) allow(needle string, index int, class uint32) {
	if 0 <= index && index < len(needle) {
		t[roughByte(needle[index])] |= class
		return
	}
	for b := range t {
		t[b] |= class
	}
}

// searchPairs is searchHashes for short needles.
func (f *filter) searchPairs(r *run, start int) int {
	const block = 3 * pairStride
	text, p := r.text, f.pairs
	pos, length := uint(start), uint(len(text))
	before := ^uint32(0) // what the byte before the block allows
	for ; pos+block <= length; pos += block {
		t := text[pos : pos+block]
		w := load(t) | roughFold
		third, sixth, ninth := uint8(w>>16), uint8(w>>40), roughByte(t[8])
		first := before & p.pair[uint16(w)] & p.after[third]
		middle := p.before[third] & p.pair[uint16(w>>24)] & p.after[sixth]
		last := p.before[sixth] & p.pair[uint16(w>>48)] & p.after[ninth]
		before = p.before[ninth]
		if first|middle|last == 0 {
			continue
		}
		if first != 0 {
			f.probe(r, int(pos))
		}
		if middle != 0 {
			f.probe(r, int(pos+pairStride))
		}
		if last != 0 {
			f.probe(r, int(pos+2*pairStride))
		}
		if next := int(pos + block); r.left == 0 || r.overBudget(next) {
			return next
		}
	}
	return int(pos)
}
