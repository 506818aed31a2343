package classify

import (
	"math/bits"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/text"
)

// typeName is the name of an error's type, as in java.net.ConnectException, *net.OpError or TypeError. Two names may
// stand for one type, and agree, if they are equal, or one is a bare name and the last segment of the other. Two
// different qualified names never agree: com.acme.ConnectException is not java.net.ConnectException.
type typeName struct {
	full string
	// last is what follows the last separator; all of full where there is none.
	last string
}

func newTypeName(name string) typeName {
	full := strings.TrimPrefix(name, "*")
	return typeName{full: full, last: full[lastSeparator(full)+1:]}
}

// lastSeparator is the index of the last character that separates the segments of a type's name in some
// language, or -1. It reads eight characters at a time: letters have bit 6, the separators but the backslash do not.
func lastSeparator(name string) int {
	const bit6, ones, low7 = 0x4040404040404040, 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	if len(name) < 8 {
		return shortLastSeparator(name)
	}
	for end := len(name); end > 0; end -= 8 {
		from := max(0, end-8) // Some of the first eight may be read twice.
		w := text.Word(name[from:])
		other := w ^ '\\'*ones // has a zero where a backslash is
		suspects := ^w&bit6 | ^((other&low7 + low7) | other | low7)
		for suspects != 0 {
			i := (bits.Len64(suspects) - 1) / 8
			if isSeparator[name[from+i]] {
				return from + i
			}
			suspects &= 1<<(8*i) - 1
		}
	}
	return -1
}

func shortLastSeparator(name string) int {
	for i := len(name) - 1; i >= 0; i-- {
		if isSeparator[name[i]] {
			return i
		}
	}
	return -1
}

var isSeparator = [256]bool{'.': true, '/': true, '$': true, ':': true, '\\': true}

// typeNames are the types that the rules ask for, each once. A type's number is its place here.
type typeNames struct {
	names  []typeName
	byLast map[string][]int32
}

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
