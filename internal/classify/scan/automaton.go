package scan

// automaton is Aho and Corasick's: a trie of the needles, in which every node also knows the node of the longest
// proper suffix of its text. Nodes are numbered by depth, so that the children of a node follow one another, and one
// number a node tells where they begin. The root is node 0.
type automaton struct {
	// label is the class of the byte that leads to a node.
	label []uint8
	// first child of a node; its children end where those of the next node begin.
	first []uint32
	// fail is the node of the longest proper suffix.
	fail []uint32
	// ends is the longest needle with which the text of a node ends, or none.
	ends []int32

	// class numbers the bytes that occur in needles from 1, letters in both cases. All others are 0 and lead to
	// the root.
	class   [256]uint8
	classes int
	// table is, for the first dense nodes, the next node for each class. There the suffixes are resolved already.
	table []uint32
	dense uint32
}

// tableCells limits table to 256 KiB.
const tableCells = 1 << 16

// newAutomaton makes the automaton of needles, which are folded, sorted, unique and not empty. It also answers for
// each needle the longest other one that it ends with.
func newAutomaton(needles []string) (a *automaton, suffix []int32) {
	a = &automaton{}
	a.setClasses(needles)
	parent := a.buildTrie(needles)
	suffix = a.setSuffixes(needles, parent)
	a.fillTable()
	return a, suffix
}

// setClasses numbers bytes in ascending order, so that labels ascend where bytes do. All 256 cannot be needed: the
// upper case letters never are.
func (a *automaton) setClasses(needles []string) {
	var used [256]bool
	for _, needle := range needles {
		for i := range len(needle) {
			used[needle[i]] = true
		}
	}
	a.classes = 1
	for b := range used {
		if used[b] {
			a.class[b] = uint8(a.classes)
			a.classes++
		}
	}
	for b := byte('A'); b <= 'Z'; b++ {
		a.class[b] = a.class[foldByte(b)]
	}
}

// buildTrie makes the nodes, level by level. The needles below a node are a range of the sorted list.
func (a *automaton) buildTrie(needles []string) (parent []uint32) {
	type span struct{ from, to int32 }
	spans := []span{{0, int32(len(needles))}}
	a.addNode(0)
	parent = []uint32{0}
	levelEnd, depth := 1, 0
	for node := 0; node < len(spans); node++ {
		if node == levelEnd {
			levelEnd, depth = len(spans), depth+1
		}
		at := spans[node]
		a.first[node] = uint32(len(spans))
		if at.from < at.to && len(needles[at.from]) == depth {
			a.ends[node] = at.from
			at.from++
		}
		for at.from < at.to {
			b := needles[at.from][depth]
			child := span{at.from, at.from + 1}
			for child.to < at.to && needles[child.to][depth] == b {
				child.to++
			}
			at.from = child.to
			spans = append(spans, child)
			parent = append(parent, uint32(node))
			a.addNode(a.class[b])
		}
	}
	a.first = append(a.first, uint32(len(spans)))
	return parent
}

func (a *automaton) addNode(label uint8) {
	a.label = append(a.label, label)
	a.first = append(a.first, 0)
	a.fail = append(a.fail, 0)
	a.ends = append(a.ends, none)
}

// setSuffixes finds fail, ends and the suffixes of needles in the order of depth: all of them look at nodes above.
func (a *automaton) setSuffixes(needles []string, parent []uint32) []int32 {
	suffix := make([]int32, len(needles))
	for node := 1; node < len(a.label); node++ {
		if parent[node] != 0 {
			a.fail[node], _ = a.next(a.fail[parent[node]], a.label[node])
		}
		inherited := a.ends[a.fail[node]]
		if own := a.ends[node]; own == none {
			a.ends[node] = inherited
		} else {
			suffix[own] = inherited
		}
	}
	return suffix
}

// fillTable resolves the transitions of the nodes nearest to the root, in which ordinary text spends its time.
func (a *automaton) fillTable() {
	dense := min(len(a.label), tableCells/a.classes)
	a.table = make([]uint32, dense*a.classes)
	for node := range dense {
		row := a.table[node*a.classes : (node+1)*a.classes]
		if node > 0 {
			fail := int(a.fail[node])
			copy(row, a.table[fail*a.classes:(fail+1)*a.classes])
		}
		for child := a.first[node]; child < a.first[node+1]; child++ {
			row[a.label[child]] = child
		}
	}
	a.dense = uint32(dense)
}

// next is the node after one more byte, and in how many transitions it was reached.
func (a *automaton) next(node uint32, class uint8) (next uint32, transitions int) {
	for transitions = 1; ; transitions++ {
		if node < a.dense {
			return a.table[int(node)*a.classes+int(class)], transitions
		}
		if child, ok := a.child(node, class); ok {
			return child, transitions
		}
		if node == 0 {
			return 0, transitions
		}
		node = a.fail[node]
	}
}

// child looks a child up by its label, in at most 8 comparisons.
func (a *automaton) child(node uint32, class uint8) (uint32, bool) {
	low, high := a.first[node], a.first[node+1]
	for low < high {
		middle := low + (high-low)/2
		switch label := a.label[middle]; {
		case label == class:
			return middle, true
		case label < class:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

// search reports the needles that lie within a part of the text. A byte takes one transition, and one more for each
// level that the node is above the last one: less than two on average.
func (a *automaton) search(r *run, from, to int) {
	part := r.text[from:to]
	node := uint32(0)
	for i := range len(part) {
		var transitions int
		node, transitions = a.next(node, a.class[part[i]])
		r.work.transitions += transitions
		if id := a.ends[node]; id != none && !r.has(id) {
			r.report(id)
			if r.left == 0 {
				return
			}
		}
	}
}
