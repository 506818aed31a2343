package scan

import "math/bits"

// filter finds needles by windows at sampled positions.
type filter struct {
	plan
	// multiplier makes hashes of windows.
	multiplier uint64
	// bitmap has a bit for each hash of a registered window.
	bitmap [bitmapBits / 64]uint64
	// buckets are the registered windows in the order of their hashes. Those whose hash, without its lowest
	// bucketShift bits, is b are at starts[b] to starts[b+1].
	buckets     []candidate
	starts      []uint32
	bucketShift int
	needles     []string
	// pairs and grams are nil unless the plan says so.
	pairs *pairTables
	grams *gramTable
}

const (
	bitmapBits = 1 << hashBits
	// hashBits makes a bitmap of 32 KiB.
	hashBits = 18
)

// candidate is a registered window of a needle.
type candidate struct {
	// word is what stands in the needle from the window on, up to 8 bytes, roughly folded; mask covers them.
	word, mask uint64
	needle     int32
	// offset of the window in the needle.
	offset int32
}

// hash is the hash of the first bytes of a word, as many as a window has. Multiplication by a shifted number drops
// the others.
func (p plan) hash(word uint64) uint64 {
	return (word | roughFold) * p.hashMultiplier() >> (64 - hashBits)
}

func (p plan) hashMultiplier() uint64 {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: Knuth's multiplicative hashing.
	return golden << (8 * (maxWindow - p.window))
}

// newFilter registers a window for each residue and each needle of a tier.
func newFilter(needles []string, t tier) *filter {
	p := t.plan
	f := &filter{plan: p, multiplier: p.hashMultiplier(), needles: needles}
	count := len(t.ids) * p.stride
	f.bucketShift = max(0, hashBits-bits.Len(uint(count)))
	f.starts = make([]uint32, bitmapBits>>f.bucketShift+1)
	f.buckets = make([]candidate, count)

	candidates := make([]candidate, 0, count)
	taken := make([]uint16, bitmapBits)
	for _, id := range t.ids {
		needle := needles[id]
		for residue := range p.stride {
			offset := p.rarest(needle, residue, taken)
			word := loadShort(needle[offset:])
			hash := p.hash(word)
			taken[hash] += min(1, ^taken[hash])
			f.bitmap[hash/64] |= 1 << (hash % 64)
			f.starts[hash>>f.bucketShift+1]++
			candidates = append(candidates, candidate{
				word: word | roughFold, mask: ^uint64(0) >> (8 * max(0, 8-(len(needle)-offset))),
				needle: id, offset: int32(offset),
			})
		}
	}
	f.sortIntoBuckets(candidates)
	switch {
	case p.pairs:
		f.pairs = newPairTables(needles, candidates)
	case p.grams:
		f.grams = newGramTable(needles, candidates)
	}
	return f
}

// sortIntoBuckets finishes starts, which counts the candidates of each bucket in the place of the next one.
func (f *filter) sortIntoBuckets(candidates []candidate) {
	for b := range len(f.starts) - 1 {
		f.starts[b+1] += f.starts[b]
	}
	next := append([]uint32(nil), f.starts...)
	for _, c := range candidates {
		b := f.hash(c.word) >> f.bucketShift
		f.buckets[next[b]] = c
		next[b]++
	}
}

// search looks from a sampled position on and answers the position at which the budget is spent, also a sampled one,
// or the length of the text.
func (f *filter) search(r *run, start int) int {
	var pos int
	switch {
	case f.pairs != nil:
		pos = f.searchPairs(r, start)
	case f.grams != nil:
		pos = f.searchGrams(r, start)
	default:
		pos = f.searchHashes(r, start)
	}
	r.work.samples += (pos - start) / f.stride
	if r.left == 0 {
		return len(r.text)
	}
	if r.overBudget(pos) {
		return min(pos, len(r.text))
	}
	for ; pos+f.window <= len(r.text); pos += f.stride {
		r.work.samples++
		f.probe(r, pos)
	}
	return len(r.text)
}

// searchHashes is the loop that reads almost everything. It answers the first sampled position that it leaves: it
// stops before the last samples, and where the budget is spent or nothing is left to find.
func (f *filter) searchHashes(r *run, start int) int {
	text, bitmap, multiplier := r.text, &f.bitmap, f.multiplier
	// Unsigned numbers and slices that start at pos spare most of the bounds checks.
	stride, pos, length := uint(f.stride), uint(start), uint(len(text))
	for ; pos+3*stride+8 <= length; pos += 4 * stride {
		t := text[pos:]
		a := (load(t) | roughFold) * multiplier >> (64 - hashBits)
		b := (load(t[stride:]) | roughFold) * multiplier >> (64 - hashBits)
		c := (load(t[2*stride:]) | roughFold) * multiplier >> (64 - hashBits)
		d := (load(t[3*stride:]) | roughFold) * multiplier >> (64 - hashBits)
		if (bitmap[a/64]>>(a%64)|bitmap[b/64]>>(b%64)|bitmap[c/64]>>(c%64)|bitmap[d/64]>>(d%64))&1 == 0 {
			continue
		}
		for i := range uint(4) {
			f.probe(r, int(pos+i*stride))
		}
		if next := int(pos + 4*stride); r.left == 0 || r.overBudget(next) {
			return next
		}
	}
	return int(pos)
}

// probe verifies the needles of which a window may stand at a position.
func (f *filter) probe(r *run, pos int) {
	word := loadShort(r.text[pos:]) | roughFold
	hash := word * f.multiplier >> (64 - hashBits)
	if f.bitmap[hash/64]>>(hash%64)&1 == 0 {
		return
	}
	bucket := hash >> f.bucketShift
	candidates := f.buckets[f.starts[bucket]:f.starts[bucket+1]]
	r.work.verification += len(candidates)
	for i := range candidates {
		c := &candidates[i]
		if (word^c.word)&c.mask != 0 || pos < int(c.offset) || r.has(c.needle) {
			continue
		}
		ok, words := hasFoldedPrefix(r.text[pos-int(c.offset):], f.needles[c.needle])
		r.work.verification += words
		if ok {
			r.report(c.needle)
		}
	}
}
