package classify

import (
	"encoding/json"
	"strconv"
	"strings"
)

const (
	// maxJSONDepth bounds the nesting of a body that is read as JSON; a deeper one is not.
	maxJSONDepth = 100
	// maxJSON bounds such a body, in bytes: far more than a report may hold.
	maxJSON = 256 << 10
)

// kind is what stands at a place of a JSON text.
type kind uint8

const (
	absent kind = iota
	textual
	numeric
	// literal is true, false or null.
	literal
)

// scalar is a value of a JSON text, as text.
type scalar struct {
	text string
	kind kind
}

// place is a node of the tree of all places that the rules ask for.
type place struct {
	// id is the place's number, or -1 where no rule asks for it itself.
	id int
	// node is its number in the tree, where a parent's is lower than its children's; the root's is 0.
	node int
	next map[string]*place
}

// branch is what is known of a node without walking the tree.
type branch struct{ parent, id int }

// places are the places of a JSON text that the rules ask for.
type places struct {
	root  place
	count int
	// nodes are all nodes by number.
	nodes []branch
}

// add gives the number of a place, by its RFC 6901 pointer, which must be valid.
func (p *places) add(pointer string) int {
	if p.nodes == nil {
		p.root.id = -1
		p.nodes = []branch{{id: -1}}
	}
	at := &p.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if at.next == nil {
			at.next = map[string]*place{}
		}
		if at.next[token] == nil {
			at.next[token] = &place{id: -1, node: len(p.nodes)}
			p.nodes = append(p.nodes, branch{parent: at.node, id: -1})
		}
		at = at.next[token]
	}
	if at.id < 0 {
		at.id = p.count
		p.nodes[at.node].id = p.count
		p.count++
	}
	return at.id
}

// isPointer reports whether a text is an RFC 6901 pointer to something inside a document.
func isPointer(s string) bool {
	if s == "" || s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// read gives the scalars that stand at the places of a body, by number. The body is JSON, or a stream of
// server-sent events, of which the last one counts whose data is JSON; a byte order mark before either does not
// count. It is nil where there is no JSON. The cost grows with the length of the body plus the number of places.
func (p *places) read(body string) []scalar {
	if len(body) > maxJSON {
		return nil
	}
	body = strings.TrimPrefix(body, "\ufeff")
	found := make([]scalar, p.count)
	if p.scan(body, found) {
		return found
	}
	if !strings.Contains(body, "data:") {
		return nil
	}
	last, ok := "", false
	events(body, func(data string) {
		if isJSON(data) {
			last, ok = data, true
		}
	})
	if !ok {
		return nil
	}
	clear(found)
	p.scan(last, found)
	return found
}

// events hands on the data of each server-sent event (HTML standard, §9.2.6).
func events(body string, each func(data string)) {
	var data []string
	for line := range strings.Lines(body + "\n\n") {
		line = strings.TrimRight(line, "\r\n")
		if rest, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(rest, " "))
		} else if line == "" && data != nil {
			each(strings.Join(data, "\n"))
			data = nil
		}
	}
}

// scan reads a JSON text once, from its beginning to its end, and notes what stands at the places. It is false
// where the text is no JSON; then what it noted says nothing.
func (p *places) scan(text string, found []scalar) bool {
	s := scanner{text: text, found: found, visits: make([]int, max(len(p.nodes), 1))}
	s.visit(&p.root)
	if !s.value(&p.root, 0) || !s.end() {
		return false
	}
	p.forget(found, s.visits)
	return true
}

// forget drops what stands in a member that a later one of the same name replaced: of two the last counts, as most
// parsers have it. A place counts if it was last visited in the last visit to its parent. To look at each place
// once at the end, and not at all of a member's with each repetition, keeps the cost of a body with many linear.
func (p *places) forget(found []scalar, visits []int) {
	for node := 1; node < len(p.nodes); node++ {
		at := p.nodes[node]
		if parent := visits[at.parent]; parent != 0 && visits[node] > parent {
			continue
		}
		visits[node] = 0
		if at.id >= 0 {
			found[at.id] = scalar{}
		}
	}
}

// isJSON reports whether a text is JSON that scan can read.
func isJSON(text string) bool {
	s := scanner{text: text}
	return s.value(nil, 0) && s.end()
}

// scanner is where the reading of a JSON text stands.
type scanner struct {
	text  string
	at    int
	found []scalar
	// visits is the ordinal of the last visit to each node, 0 for none.
	visits  []int
	visited int
}

// visit notes that a place begins, and drops what an earlier member of the same name left there.
func (s *scanner) visit(here *place) {
	if here == nil {
		return
	}
	s.visited++
	s.visits[here.node] = s.visited
	s.note(here, scalar{})
}

// peek skips white space and gives the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) end() bool { return s.peek() == 0 && s.at == len(s.text) }

// take skips white space and the wanted byte.
func (s *scanner) take(want byte) bool {
	if s.peek() != want || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

// value reads a value. Here is its place, or nil where no rule asks for it or for anything in it.
func (s *scanner) value(here *place, depth int) bool {
	switch c := s.peek(); {
	case depth > maxJSONDepth:
		return false
	case c == '{':
		return s.object(here, depth)
	case c == '[':
		return s.array(here, depth)
	case c == '"':
		text, ok := s.quoted(here != nil && here.id >= 0)
		return ok && s.note(here, scalar{text, textual})
	case c == '-' || '0' <= c && c <= '9':
		text, ok := s.number()
		return ok && s.note(here, scalar{text, numeric})
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(s.text[s.at:], word) {
				s.at += len(word)
				return s.note(here, scalar{word, literal})
			}
		}
		return false
	}
}

func (s *scanner) note(here *place, v scalar) bool {
	if here != nil && here.id >= 0 {
		s.found[here.id] = v
	}
	return true
}

func (s *scanner) object(here *place, depth int) bool {
	s.at++
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') || s.peek() != '"' {
			return false
		}
		key, ok := s.quoted(here != nil && here.next != nil)
		if !ok || !s.take(':') {
			return false
		}
		var member *place
		if here != nil {
			member = here.next[key]
		}
		s.visit(member)
		if !s.value(member, depth+1) {
			return false
		}
	}
	return true
}

func (s *scanner) array(here *place, depth int) bool {
	s.at++
	for i := 0; !s.take(']'); i++ {
		if i > 0 && !s.take(',') {
			return false
		}
		var element *place
		if here != nil && here.next != nil {
			element = here.next[strconv.Itoa(i)]
		}
		s.visit(element)
		if !s.value(element, depth+1) {
			return false
		}
	}
	return true
}

// quoted reads a string, and gives its text where that is wanted.
func (s *scanner) quoted(wanted bool) (text string, ok bool) {
	start, escaped := s.at, false
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\':
			escaped = true
			if !s.escape() {
				return "", false
			}
		case c < ' ':
			return "", false
		case c == '"':
			s.at++
			if !escaped || !wanted {
				return s.text[start+1 : s.at-1], true
			}
			return text, json.Unmarshal([]byte(s.text[start:s.at]), &text) == nil
		}
	}
	return "", false
}

// escape moves from a backslash to the last byte of what it begins.
func (s *scanner) escape() bool {
	s.at++
	if s.at == len(s.text) {
		return false
	}
	if s.text[s.at] != 'u' {
		return strings.IndexByte(`"\/bfnrt`, s.text[s.at]) >= 0
	}
	for range 4 {
		s.at++
		if s.at == len(s.text) || strings.IndexByte("0123456789abcdefABCDEF", s.text[s.at]) < 0 {
			return false
		}
	}
	return true
}

// number reads a number and gives it as it is written.
func (s *scanner) number() (string, bool) {
	start := s.at
	if s.text[s.at] == '-' {
		s.at++
	}
	whole := s.digits()
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return "", false
	}
	if s.skip('.') && s.digits() == "" {
		return "", false
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		if s.digits() == "" {
			return "", false
		}
	}
	return s.text[start:s.at], true
}

func (s *scanner) digits() string {
	start := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.text[start:s.at]
}

func (s *scanner) skip(c byte) bool {
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}
