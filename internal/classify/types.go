package classify

import (
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// typeName is the name of an error's type, as in java.net.ConnectException, *net.OpError or TypeError.
type typeName struct {
	full string
	// last is what follows the last separator; all of full where there is none.
	last string
}

func newTypeName(text string) typeName {
	full := strings.TrimPrefix(text, "*")
	return typeName{full: full, last: full[lastSeparator(full)+1:]}
}

// agrees reports whether two names may stand for one type: they are equal, or one is a bare name and the last
// segment of the other. Two different qualified names never agree: com.acme.ConnectException is not
// java.net.ConnectException.
func (n typeName) agrees(other typeName) bool {
	if n.last != other.last {
		return false
	}
	return len(n.full) == len(n.last) || len(other.full) == len(other.last) || n.full == other.full
}

// lastSeparator is the index of the last character that separates the segments of a type's name in some
// language, or -1.
func lastSeparator(name string) int {
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case '.', '/', '$', ':', '\\':
			return i
		}
	}
	return -1
}

// typeNames are the types that the rules ask for, each once. A type's number is its place here.
type typeNames struct {
	names  []typeName
	byLast map[string][]int32
	// known are the types that agree with a name as rules write it, so that the usual report costs one look.
	known map[string][]int32
}

// compile makes the types ready to be looked for. None is added after that.
func (t *typeNames) compile() {
	t.known = make(map[string][]int32, len(t.names))
	for _, name := range t.names {
		if t.known[name.full] == nil {
			t.known[name.full] = t.agreeing(name)
		}
	}
}

// agreeing are the numbers of the types that agree with a name.
func (t *typeNames) agreeing(name typeName) []int32 {
	var ids []int32
	for _, id := range t.byLast[name.last] {
		if t.names[id].agrees(name) {
			ids = append(ids, id)
		}
	}
	return ids
}

// numbers is a set of numbers of types, one bit each.
type numbers []uint64

func newNumbers(ids []int32) numbers {
	if len(ids) == 0 {
		return nil
	}
	n := make(numbers, slices.Max(ids)/64+1)
	for _, id := range ids {
		n[id/64] |= 1 << (id % 64)
	}
	return n
}

func (n numbers) has(id int32) bool { return int(id/64) < len(n) && n[id/64]&(1<<(id%64)) != 0 }

// add gives the number of a type.
func (t *typeNames) add(text string) int32 {
	name := newTypeName(text)
	for _, id := range t.byLast[name.last] {
		if t.names[id] == name {
			return id
		}
	}
	if t.byLast == nil {
		t.byLast = map[string][]int32{}
	}
	id := int32(len(t.names)) // Compile bounds the entries, so it never overflows.
	t.names = append(t.names, name)
	t.byLast[name.last] = append(t.byLast[name.last], id)
	return id
}

// typeSet holds the numbers of types, few of them without an allocation.
type typeSet struct {
	few  [8]int32
	n    int
	more []int32
}

func (t *typeSet) add(id int32) {
	if t.n < len(t.few) {
		t.few[t.n] = id
		t.n++
	} else {
		t.more = append(t.more, id)
	}
}

// hasAny reports whether one of some types is in the set.
func (t *typeSet) hasAny(ids numbers) bool {
	for _, id := range t.few[:t.n] {
		if ids.has(id) {
			return true
		}
	}
	return slices.ContainsFunc(t.more, ids.has)
}

// find collects the types that agree with a reported one.
func (t *typeNames) find(reported []v1alpha1.MatchText, into *typeSet) {
	for _, text := range reported {
		if ids, ok := t.known[strings.TrimPrefix(string(text), "*")]; ok {
			for _, id := range ids {
				into.add(id)
			}
			continue
		}
		got := newTypeName(string(text))
		for _, id := range t.byLast[got.last] {
			if t.names[id].agrees(got) {
				into.add(id)
			}
		}
	}
}
