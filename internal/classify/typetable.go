package classify

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// typeTable tells which rules ask for a reported type. It is a hash table of the names that rules ask for and of their
// last segments. A bucket's first entry stands in it, so that most names are found with one look; where there are more, it
// is searched by halves, so that names that were chosen to share one cost little.
type typeTable struct {
	buckets []typeBucket
	shift   int
	entries []typeEntry
	// sets are the sets of rules that a name leads to, one behind the other, each of as many words. The first is empty.
	sets  []uint64
	words int
}

// typeEntry is a name and the numbers of two sets of rules.
type typeEntry struct {
	key  key
	name string
	// exact are the rules that ask for what agrees with the name.
	exact int32
	// bare are those that ask for the name without anything before it: what ends in it agrees with that.
	bare int32
}

// typeBucket are the entries of one hash.
type typeBucket struct {
	first typeEntry
	// from and to are where the entries stand in entries.
	from, to uint32
}

// key is the length and the first and last eight bytes of a text: all of it, where it has no more than wholeKey.
type key struct {
	length      int
	first, last uint64
}

const wholeKey = 16

func newKey(s string) key {
	k := key{length: len(s)}
	if len(s) >= 8 {
		k.first, k.last = text.Word(s), text.Word(s[len(s)-8:])
		return k
	}
	for i := range len(s) {
		k.last = k.last<<8 | uint64(s[i])
	}
	return k
}

func (k *key) hash() uint64 {
	const k1, k2 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // two odd numbers without a pattern
	return ((k.first+uint64(k.length))*k1 ^ k.last*k2) * k1
}

func newTypeTable(rules []rule, names *typeNames) typeTable {
	words := len(rules)/64 + 1
	asking := make([]ruleSet, len(names.names)) // for each name
	for i := range rules {
		for _, id := range rules[i].types {
			if asking[id] == nil {
				asking[id] = make(ruleSet, words)
			}
			asking[id].add(i)
		}
	}
	t := typeTable{sets: make([]uint64, words), words: words}
	for last, ids := range names.byLast {
		t.addSegment(last, ids, names, asking)
	}
	t.sortIntoBuckets()
	return t
}

// addSegment makes the entries of a last segment and of the names that end in it.
func (t *typeTable) addSegment(last string, ids []int32, names *typeNames, asking []ruleSet) {
	var bare ruleSet
	all := make(ruleSet, t.words)
	for _, id := range ids {
		all.addAll(asking[id])
		if names.names[id].full == last {
			bare = asking[id]
		}
	}
	e := typeEntry{key: newKey(last), name: last, exact: t.addSet(all)}
	if bare != nil {
		e.bare = t.addSet(bare)
	}
	t.entries = append(t.entries, e)
	for _, id := range ids {
		if full := names.names[id].full; full != last {
			set := slices.Clone(asking[id])
			set.addAll(bare)
			t.entries = append(t.entries, typeEntry{key: newKey(full), name: full, exact: t.addSet(set)})
		}
	}
}

func (t *typeTable) addSet(set ruleSet) int32 {
	id := int32(len(t.sets) / t.words) // Compile bounds the entries, so it never overflows.
	t.sets = append(t.sets, set...)
	return id
}

// sortIntoBuckets makes four to eight buckets an entry, so that a name that no rule asks for mostly meets an empty one.
func (t *typeTable) sortIntoBuckets() {
	count := 4 << bits.Len(uint(len(t.entries)))
	t.shift = 64 - bits.Len(uint(count-1))
	bucket := func(e *typeEntry) uint64 { return e.key.hash() >> t.shift }
	slices.SortFunc(t.entries, func(a, b typeEntry) int {
		return cmp.Or(cmp.Compare(bucket(&a), bucket(&b)), strings.Compare(a.name, b.name))
	})
	t.buckets = make([]typeBucket, count)
	for i := range t.entries {
		b := &t.buckets[bucket(&t.entries[i])]
		if b.to == 0 {
			b.first, b.from = t.entries[i], uint32(i)
		}
		b.to = uint32(i + 1)
	}
}

// lead is the number of the set of rules that ask for what a reported name agrees with.
func (t *typeTable) lead(reported string) int32 {
	reported = strings.TrimPrefix(reported, "*")
	if e := t.find(reported); e != nil {
		return e.exact
	}
	if i := lastSeparator(reported); i >= 0 {
		if e := t.find(reported[i+1:]); e != nil {
			return e.bare
		}
	}
	return 0
}

// find gives the entry of a name, or nil.
func (t *typeTable) find(name string) *typeEntry {
	key := newKey(name)
	b := &t.buckets[key.hash()>>t.shift]
	if b.first.is(&key, name) {
		return &b.first
	}
	if b.to-b.from <= 1 {
		return nil
	}
	return t.findIn(t.entries[b.from:b.to], &key, name)
}

// is reports whether an entry is that of a name.
func (e *typeEntry) is(key *key, name string) bool {
	return e.key == *key && (len(name) <= wholeKey || e.name == name)
}

// findIn is find among some entries.
func (t *typeTable) findIn(entries []typeEntry, key *key, name string) *typeEntry {
	for len(entries) > 0 {
		middle := &entries[len(entries)/2]
		switch {
		case middle.is(key, name):
			return middle
		case middle.name < name:
			entries = entries[len(entries)/2+1:]
		default:
			entries = entries[:len(entries)/2]
		}
	}
	return nil
}
