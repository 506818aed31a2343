package scan

const (
	gramWindow = 4
	// gramLayers is how many windows of 4 bytes that follow one another a needle is looked for by, at most: needles of
	// 6 bytes and more by three, and so by 6 of their bytes.
	gramLayers = 3
	// gramHashBits makes a table of 64 KiB.
	gramHashBits = 15
	gramShift    = 32 - gramHashBits
	// gramMultiplier makes hashes as in filter.go, of 4 bytes.
	gramMultiplier = 0x9e3779b1
	// gramMiss are the bits of the last layer.
	gramMiss = (1<<gramLayers - 1) << (gramLayers * (gramLayers - 1))
)

// gramTable is for many short needles, every part of which is frequent: it looks at every byte, and at all of a needle
// of 4 to 6 bytes, so that what does not occur is hardly ever verified.
//
// It is Baeza-Yates and Gonnet's Shift-Or with windows of 4 bytes for letters. An entry has three layers of three bits.
// A bit is for the needles that are looked for by one window, by two, or by three; it is 0 in a layer if the window
// stands there in such a needle, and in the layers that such needles do not have. While the text is read, a layer is
// shifted on to the next with each byte, so that a 0 reaches the last one only if each window was in its place.
type gramTable [1 << gramHashBits]uint16

func gramHash(word uint32) uint32 { return word * gramMultiplier >> gramShift }

func newGramTable(needles []string, candidates []candidate) *gramTable {
	t := &gramTable{}
	for i := range t {
		for windows := 1; windows < gramLayers; windows++ {
			for layer := range gramLayers {
				if layer < windows {
					t[i] |= 1 << (layer*gramLayers + windows - 1)
				}
			}
		}
		for layer := range gramLayers {
			t[i] |= 1 << (layer*gramLayers + gramLayers - 1)
		}
	}
	for _, c := range candidates {
		rest := needles[c.needle][c.offset:]
		windows := min(len(rest)-gramWindow+1, gramLayers)
		for layer := range windows {
			word := uint32(loadShort(rest[layer:]) | roughFold)
			t[gramHash(word)] &^= 1 << (layer*gramLayers + windows - 1)
		}
	}
	return t
}

// searchGrams is searchHashes for short needles that are many.
func (f *filter) searchGrams(r *run, start int) int {
	const block = 5 // windows of 4 in 8 bytes
	text, t := r.text, f.grams
	state := ^uint32(0)
	pos, length := uint(start), uint(len(text))
	for ; pos+8 <= length; pos += block {
		w := load(text[pos:]) | roughFold
		state = state<<gramLayers | uint32(t[gramHash(uint32(w))])
		seen := state
		state = state<<gramLayers | uint32(t[gramHash(uint32(w>>8))])
		seen &= state
		state = state<<gramLayers | uint32(t[gramHash(uint32(w>>16))])
		seen &= state
		state = state<<gramLayers | uint32(t[gramHash(uint32(w>>24))])
		seen &= state
		state = state<<gramLayers | uint32(t[gramHash(uint32(w>>32))])
		seen &= state
		if seen&gramMiss == gramMiss {
			continue
		}
		// The last layer was reached, so the first window stands two bytes before.
		first := max(start, int(pos)-gramLayers+1)
		for i := range block {
			f.probe(r, first+i)
		}
		if next := first + block; r.left == 0 || r.overBudget(next) {
			return next
		}
	}
	return max(start, int(pos)-gramLayers+1)
}
