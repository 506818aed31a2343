package classify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// maxFile bounds a rule file, in bytes: more than a thousand entries at their longest useful size.
	maxFile = 1 << 20
	// maxEntries bounds the entries of a file, as the schema bounds those of an ErrorPatternSet.
	maxEntries = 1000
	// maxProblems bounds what Parse reports.
	maxProblems = 100
	// maxYAMLError bounds what is passed on of the YAML library's message, in characters.
	maxYAMLError = 200
)

// Parse reads a rule file in the specification's error-patterns.yaml format, of at most 1 MiB and 1000 entries.
// An entry with an unknown field, a value of the wrong kind or anything else that Validate objects to is left out
// and reported, with the path of the field and where it stands; the others are read. YAML anchors and
// aliases are refused. At most 100 problems are reported.
func Parse(data []byte) (entries []Entry, problems []Problem) {
	var p parser
	// The YAML library panics on its own errors; that it turns each of them into an error is not taken on trust
	// where anybody's file is read.
	defer func() {
		if recover() != nil {
			entries, problems = nil, []Problem{{Message: "is not understood as YAML"}}
		}
	}()
	if len(data) > maxFile {
		return nil, []Problem{{Message: fmt.Sprintf("has %d bytes, at most %d are allowed", len(data), maxFile)}}
	}
	root := p.document(data)
	if root == nil {
		return nil, p.problems
	}
	p.file(root)
	return p.entries, p.problems
}

// file reads a rule file's only document.
func (p *parser) file(root *yaml.Node) {
	var patterns *yaml.Node
	p.mapping(root, "", []field{{"patterns", func(_ string, n *yaml.Node) { patterns = n }}})
	switch {
	case patterns != nil:
		p.patterns("patterns", patterns)
	case root.Kind == yaml.MappingNode:
		p.add("patterns", root, "is required; list the rules there")
	}
}

// parser collects what is read from one file.
type parser struct {
	entries  []Entry
	problems []Problem
	// at is where each of the entries begins.
	at []Position
	// id is that of the entry that is being read.
	id string
	// faults are the paths of the problems of the entry that is being read, shown or not.
	faults []string
	// forKubectl says that kubectl reads the file too, for which some words are no text (see isBool11).
	forKubectl bool
}

// document is the root of the file's only document, or nil where there is none that can be read.
func (p *parser) document(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		p.problems = append(p.problems, Problem{Path: "patterns", Message: "is required; the file is empty"})
		return nil
	}
	if err != nil {
		p.problems = append(p.problems, notYAML(err))
		return nil
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.problems = append(p.problems, notYAML(err))
	default:
		p.add("", &more, "begins another document; a rule file has only one")
	}
	return doc.Content[0]
}

// notYAML is the problem of a file that the YAML library refuses; most of its messages begin with the line.
func notYAML(err error) Problem {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, message = n, what
			}
		}
	}
	return Problem{Line: line, Message: "is no YAML: " + printable(message)}
}

// printable bounds a message that may quote the file.
func printable(message string) string {
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, message)
	if runes := []rune(message); len(runes) > maxYAMLError {
		return string(runes[:maxYAMLError]) + "…"
	}
	return message
}

// add reports a problem at a node.
func (p *parser) add(path string, n *yaml.Node, format string, args ...any) {
	p.addAt(path, n, fmt.Sprintf(format, args...))
}

func (p *parser) addAt(path string, n *yaml.Node, message string) {
	p.faults = append(p.faults, path)
	switch {
	case len(p.problems) < maxProblems-1:
		p.problems = append(p.problems, Problem{Path: path, ID: clip(p.id), Line: n.Line, Column: n.Column, Message: message})
	case len(p.problems) == maxProblems-1:
		p.problems = append(p.problems, Problem{Message: "there are more problems, which are not shown"})
	}
}

func (p *parser) patterns(at string, list *yaml.Node) {
	if !p.isKind(list, at, yaml.SequenceNode, "a list of rules") {
		return
	}
	for i, n := range list.Content {
		path := fmt.Sprintf("%s[%d]", at, i)
		if i == maxEntries {
			p.id = ""
			p.add(path, n, "is one entry too many; at most %d are allowed, the rest is left out", maxEntries)
			return
		}
		p.entry(path, n)
	}
}

// entry reads one rule and keeps it if nothing is wrong with it.
func (p *parser) entry(path string, n *yaml.Node) {
	p.id, p.faults = idOf(n), nil
	var pattern v1alpha1.ErrorPattern
	p.mapping(n, path, []field{
		{"id", textInto(p, &pattern.ID)},
		{"match", func(path string, n *yaml.Node) { pattern.Match = p.match(path, n) }},
		{"signature", textInto(p, &pattern.Signature)},
		{"classification", textInto(p, &pattern.Classification)},
		{"cooldown", textInto(p, &pattern.Cooldown)},
		{"healthAction", textInto(p, &pattern.HealthAction)},
		{"locked", func(path string, n *yaml.Node) { pattern.Locked = p.boolean(path, n) }},
		{"fingerprint", func(path string, n *yaml.Node) { pattern.Fingerprint = p.boolean(path, n) }},
		{"note", textInto(p, &pattern.Note)},
		{"before", textInto(p, &pattern.Before)},
	})
	keys := map[string]*yaml.Node{}
	collectKeys(n, "", keys)
	if n.Kind == yaml.MappingNode && keys["match"] == nil {
		p.add(path+".match", n, "is required; write {} to match every error")
	}
	if n.Kind == yaml.MappingNode {
		p.validate(path, n, pattern, keys)
	}
	if len(p.faults) == 0 {
		p.entries = append(p.entries, Entry{Pattern: pattern, Path: path})
		p.at = append(p.at, Position{n.Line, n.Column})
	}
}

// validate adds what Validate finds in an entry, except in fields that could not even be read.
func (p *parser) validate(path string, n *yaml.Node, pattern v1alpha1.ErrorPattern, keys map[string]*yaml.Node) {
	if len(p.faults) >= maxProblems {
		return
	}
	unread := p.faults
	for _, message := range Validate(pattern) {
		name, what, _ := strings.Cut(message, ": ")
		field, _, _ := strings.Cut(name, "[")
		if !slices.ContainsFunc(unread, func(at string) bool { return strings.HasPrefix(at, path+"."+field) }) {
			p.addAt(path+"."+name, keyOf(keys, name, n), what)
		}
	}
}

func (p *parser) match(path string, n *yaml.Node) (m v1alpha1.ErrorMatch) {
	p.mapping(n, path, []field{
		{"toolName", textsInto(p, &m.ToolName)},
		{"httpStatus", func(path string, n *yaml.Node) {
			status := p.integer(path, n)
			m.HTTPStatus = &status
		}},
		{"httpStatusRange", func(path string, n *yaml.Node) { m.HTTPStatusRange = listOf(p, path, n, p.integer) }},
		{"httpStatusIn", func(path string, n *yaml.Node) { m.HTTPStatusIn = listOf(p, path, n, p.integer) }},
		{"host", textInto(p, &m.Host)},
		{"exceptionType", textsInto(p, &m.ExceptionType)},
		{"errorCode", textInto(p, &m.ErrorCode)},
		{"errorCodeIn", textsInto(p, &m.ErrorCodeIn)},
		{"header", func(path string, n *yaml.Node) { m.Header = listOf(p, path, n, p.header) }},
		{"jsonField", func(path string, n *yaml.Node) { m.JSONField = listOf(p, path, n, p.jsonField) }},
		{"bodyContains", textsInto(p, &m.BodyContains)},
		{"bodyContainsAll", textsInto(p, &m.BodyContainsAll)},
		{"messageContains", textsInto(p, &m.MessageContains)},
		{"messageContainsAll", textsInto(p, &m.MessageContainsAll)},
	})
	return m
}

func (p *parser) header(path string, n *yaml.Node) (h v1alpha1.HeaderMatch) {
	p.mapping(n, path, []field{
		{"name", textInto(p, &h.Name)},
		{"equals", textInto(p, &h.Equals)},
		{"contains", textInto(p, &h.Contains)},
		{"present", func(path string, n *yaml.Node) {
			present := p.boolean(path, n)
			h.Present = &present
		}},
	})
	return h
}

func (p *parser) jsonField(path string, n *yaml.Node) (f v1alpha1.JSONFieldMatch) {
	p.mapping(n, path, []field{
		{"pointer", textInto(p, &f.Pointer)},
		{"in", func(path string, n *yaml.Node) {
			f.In = listOf(p, path, n, func(path string, n *yaml.Node) string {
				value, _ := p.anyText(path, n)
				return value
			})
		}},
	})
	return f
}

// field is a field that a mapping may have, and how its value is read.
type field struct {
	name string
	read func(path string, n *yaml.Node)
}

// mapping reads the fields of a mapping; others are refused.
func (p *parser) mapping(n *yaml.Node, path string, fields []field) {
	if !p.isKind(n, path, yaml.MappingNode, "a mapping; {} is the empty one") {
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		known := lookup(fields, key)
		if known == nil {
			p.add(path, key, "has the unknown field %s; %s", quote(key.Value), suggestion(key.Value, fields))
			continue
		}
		at := strings.TrimPrefix(path+"."+known.name, ".")
		if seen[known.name] {
			p.add(at, key, "stands here a second time; keep one")
			continue
		}
		seen[known.name] = true
		known.read(at, value)
	}
}

func lookup(fields []field, key *yaml.Node) *field {
	for i := range fields {
		if key.Kind == yaml.ScalarNode && key.Value == fields[i].name {
			return &fields[i]
		}
	}
	return nil
}

// isKind reports whether a node is of a kind and stands for itself.
func (p *parser) isKind(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.add(path, n, "uses a YAML anchor or alias; write the value itself")
	case n.Kind != kind:
		p.add(path, n, "must be %s", want)
	default:
		return true
	}
	return false
}

// scalar is the text of a scalar of a type.
func (p *parser) scalar(path string, n *yaml.Node, tag, want string) (string, bool) {
	if !p.isKind(n, path, yaml.ScalarNode, want) {
		return "", false
	}
	if n.ShortTag() != tag {
		p.add(path, n, "must be %s, not %s", want, quote(n.Value))
		return "", false
	}
	if p.forKubectl && tag == "!!str" && isBool11(n) {
		p.add(path, n, "must be text, but kubectl takes %s for true or false; write %q", n.Value, n.Value)
		return "", false
	}
	return n.Value, true
}

// isBool11 reports whether a scalar is text in YAML 1.2 and true or false in YAML 1.1, which kubectl reads.
func isBool11(n *yaml.Node) bool {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if n.Style&quoted != 0 {
		return false
	}
	switch strings.ToLower(n.Value) {
	case "y", "n", "yes", "no", "on", "off":
		return true
	}
	return false
}

// text is a string that is not empty: a field that is set says something.
func (p *parser) text(path string, n *yaml.Node) string {
	s, ok := p.anyText(path, n)
	if ok && s == "" {
		p.add(path, n, "is empty; write some text or leave it out")
	}
	return s
}

// anyText is a string, which may be empty.
func (p *parser) anyText(path string, n *yaml.Node) (string, bool) {
	return p.scalar(path, n, "!!str", `text, in "quotes" where it looks like something else`)
}

func (p *parser) integer(path string, n *yaml.Node) int32 {
	const want = "a whole number without quotes"
	s, ok := p.scalar(path, n, "!!int", want)
	if !ok {
		return 0
	}
	number, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		p.add(path, n, "must be %s, not %s", want, quote(s))
	}
	return int32(number)
}

func (p *parser) boolean(path string, n *yaml.Node) bool {
	const want = "true or false without quotes"
	s, ok := p.scalar(path, n, "!!bool", want)
	return ok && strings.EqualFold(s, "true")
}

// textInto reads text into a field of whatever string type.
func textInto[T ~string](p *parser, into *T) func(path string, n *yaml.Node) {
	return func(path string, n *yaml.Node) { *into = T(p.text(path, n)) }
}

// textsInto reads a list of texts into a field of whatever string type.
func textsInto[T ~string](p *parser, into *[]T) func(path string, n *yaml.Node) {
	return func(path string, n *yaml.Node) {
		*into = listOf(p, path, n, func(path string, n *yaml.Node) T { return T(p.text(path, n)) })
	}
}

// listOf reads a list. Of a list that is longer than any list may be, only as much is read as shows that.
func listOf[T any](p *parser, path string, n *yaml.Node, read func(string, *yaml.Node) T) []T {
	if !p.isKind(n, path, yaml.SequenceNode, "a list, as in [one, two]") {
		return nil
	}
	list := []T{}
	for i, element := range n.Content[:min(len(n.Content), maxTexts+1)] {
		list = append(list, read(fmt.Sprintf("%s[%d]", path, i), element))
	}
	return list
}

// idOf is the id of an entry as far as it has one, for messages about it.
func idOf(n *yaml.Node) string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "id" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// collectKeys notes the key of every field of an entry and of its match, by the names that Validate uses.
func collectKeys(n *yaml.Node, prefix string, keys map[string]*yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		name := prefix + n.Content[i].Value
		keys[name] = n.Content[i]
		if name == "match" {
			collectKeys(n.Content[i+1], "match.", keys)
		}
	}
}

// keyOf is the key of a field, which may name an element of a list.
func keyOf(keys map[string]*yaml.Node, name string, otherwise *yaml.Node) *yaml.Node {
	name, _, _ = strings.Cut(name, "[")
	if key, ok := keys[name]; ok {
		return key
	}
	return otherwise
}
