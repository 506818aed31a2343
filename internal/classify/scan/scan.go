// Package scan finds which of many short texts ("needles") occur in a long one, in a fraction of the time that one
// search per needle takes, because every reported body is compared with every `bodyContains` of every rule.
//
// # What occurs
//
// Find reports needle i exactly if strings.Contains(Fold(text), Fold(needles[i])). Fold puts the 26 ASCII letters in
// lower case; every other byte, of UTF-8 or not, stands for itself. So "É" and "é" differ, and invalid UTF-8 is
// nothing special. A caller that wants more passes needles and text through strings.ToLower: Find of lowered texts is
// strings.Contains of lowered texts. The empty needle occurs everywhere.
//
// # How
//
// A filter reads the text only at positions a stride of s bytes apart, and at each only a window of q bytes. Let a
// needle have at least q+s-1 bytes. Wherever it occurs, s successive windows lie within it, and one of these starts at
// a sampled position. So it is enough to register, for each of the s residues of an offset modulo s, one window of the
// needle: the one whose bytes are rarest in logs, JSON and HTML. Registered windows are hashed into a bitmap of 32 KiB,
// which stays in the nearest cache. A sample costs one load of 8 bytes, one multiplication and one test; four are
// tested with one branch (filter.go). With a stride of 8 that is some 8 GB/s. Letter case is ignored by setting bit 5
// of every byte, which also merges a few other bytes: a filter may err to one side only.
//
// A large window is rare and a large stride is fast; the shortest needle limits their sum. Compile estimates what each
// choice costs on ordinary text, and may give short needles a filter of their own, so that they do not slow down the
// search for the others (plan.go): for few of them one that looks at pairs of bytes (pairs.go), for many one that looks
// at all of them (grams.go).
//
// Where a filter has a hit, the registered windows of that hash are compared, and if one is equal the needle itself.
// This costs work, and whoever writes the body decides how much: it may consist of nothing but windows of needles. So
// verification has a budget, half a unit per byte of text read. Where it is spent, an Aho-Corasick automaton
// (automaton.go) takes over for a block of text, starting early enough to miss nothing, while the budget grows again.
// It needs at most two steps a byte, whatever it reads. Find is thus linear in the length of the text. Needles already
// found cost no verification.
//
// A needle of one byte leaves nothing to sample, and a set with one is searched by the automaton alone; so is a set in
// which a filter would hardly ever pass anything by. Both are some ten times slower.
//
// Wu and Manber's method and Hyperscan's FDR also look at blocks of bytes; choosing the rarest window for each residue,
// instead of tables of shifts, is what allows a fixed stride and with it a loop without dependencies.
package scan

import "slices"

// Set is a compiled set of needles. It does not change: any number of goroutines may search with it.
type Set struct {
	// unique are the folded needles, each once, in ascending order.
	unique []string
	// ids are, for the needles as given, the indices in unique.
	ids []int32
	// suffix is, for each of unique, the longest other one that it ends with, or none.
	suffix []int32
	// filters look for a part of the needles each. Where there are none, the automaton searches alone.
	filters   []*filter
	automaton *automaton
	longest   int
	hasEmpty  bool
}

// none stands for the absence of a needle.
const none = -1

// Compile prepares a set for searching. The needle needles[i] has the id i. Two that are equal, or become so by
// folding, are searched once and found together.
//
// Any needles are allowed, though less than 2 GiB in total. The set keeps at most some 14 bytes for each byte of them,
// 32 bytes times the stride (1 to 16) for each, and below 1 MiB for all; making it takes about three times as much.
func Compile(needles []string) *Set {
	folded := make([]string, len(needles))
	for i, needle := range needles {
		folded[i] = Fold(needle)
	}
	s := &Set{unique: slices.Clone(folded), ids: make([]int32, len(needles))}
	slices.Sort(s.unique)
	s.unique = slices.Compact(s.unique)
	if len(s.unique) > 0 && s.unique[0] == "" {
		s.hasEmpty = true
		s.unique = s.unique[1:]
	}
	for i, needle := range folded {
		id, ok := slices.BinarySearch(s.unique, needle)
		if !ok { // The empty one.
			id = none
		}
		s.ids[i] = int32(id)
	}
	for _, needle := range s.unique {
		s.longest = max(s.longest, len(needle))
	}
	s.automaton, s.suffix = newAutomaton(s.unique)
	if len(s.unique) > 0 {
		for _, t := range chooseTiers(s.unique) {
			s.filters = append(s.filters, newFilter(s.unique, t))
		}
	}
	return s
}

// Len is the number of needles given to Compile.
func (s *Set) Len() int { return len(s.ids) }

// Find notes in found which needles occur in text, and forgets what it held before. The time is linear in the length
// of the text. It allocates nothing, unless found was never used with a set of this size.
func (s *Set) Find(text string, found *Found) {
	s.find(text, found)
}

// find is Find and says how much work that was.
func (s *Set) find(text string, found *Found) work {
	found.reset(s)
	r := run{text: text, set: s, found: found.bits, left: len(s.unique)}
	if len(s.filters) == 0 && r.left > 0 {
		s.automaton.search(&r, 0, len(text))
	}
	for _, f := range s.filters {
		r.earlier = r.work.verification
		for pos := 0; pos < len(text) && r.left > 0; {
			if pos = f.search(&r, pos); pos < len(text) {
				pos = r.bridge(f.stride, pos)
			}
		}
	}
	return r.work
}

// run is one search.
type run struct {
	text string
	set  *Set
	// found has a bit for each unique needle. Invariant: with a needle, all needles that it ends with are found. So
	// whoever meets a found one need not look at these.
	found []uint64
	// left is the number of unique needles that are not found yet.
	left int
	work work
	// earlier is the verification that filters before this one did. Each has a budget of its own.
	earlier int
}

// work counts what a search did, in steps that each take bounded time.
type work struct {
	// samples, of the text by the filter.
	samples int
	// verification, in comparisons of a registered window, or of up to 8 bytes of a needle, with the text.
	verification int
	// transitions of the automaton.
	transitions int
}

// total is what linear means.
func (w work) total() int { return w.samples + w.verification + w.transitions }

// report notes that a needle occurs, and with it all that it ends with. Over a whole search this takes at most one
// step a needle besides the calls.
func (r *run) report(id int32) {
	for id != none && !r.has(id) {
		r.found[id/64] |= 1 << (id % 64)
		r.left--
		id = r.set.suffix[id]
	}
}

func (r *run) has(id int32) bool { return r.found[id/64]>>(id%64)&1 != 0 }

// Verification by one filter is limited to initialBudget at the start of a text, and half a unit for each byte that
// follows, which takes about as long as the automaton.
const initialBudget = 1024

func (r *run) overBudget(pos int) bool { return r.work.verification-r.earlier > initialBudget+pos/2 }

// withinBudget is a position at which what was spent is within the budget again.
func (r *run) withinBudget() int { return 2 * (r.work.verification - r.earlier - initialBudget) }

// bridgeLength is how many bytes the automaton reads at least before the filter tries again.
const bridgeLength = 4096

// bridge lets the automaton find what a filter, stopped at pos, would find at samples before the one it answers: the
// first after bridgeLength where verification is within its budget. An occurrence with a window among them may start
// up to a needle's length earlier, and end as much later.
func (r *run) bridge(stride, pos int) (next int) {
	reach := r.set.longest
	length := max(bridgeLength+4*reach, r.withinBudget()-pos)
	next = min(pos+(length+stride-1)/stride*stride, len(r.text))
	r.set.automaton.search(r, max(0, pos-reach), min(len(r.text), next+reach))
	return next
}

// Found is which needles a search found. The zero value is ready for use with any set, by one goroutine at a time,
// and is meant to be used again.
type Found struct {
	set  *Set
	bits []uint64
}

func (f *Found) reset(s *Set) {
	f.set = s
	words := (len(s.unique) + 63) / 64
	if cap(f.bits) < words {
		f.bits = make([]uint64, words)
	}
	f.bits = f.bits[:words]
	clear(f.bits)
}

// Has reports whether the latest search found the needle with an id. It panics if the set of that search has no such
// id, and if there was no search.
func (f *Found) Has(id int) bool {
	unique := f.set.ids[id]
	if unique == none {
		return true
	}
	return f.bits[unique/64]>>(unique%64)&1 != 0
}
