package classify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// MaxManifests bounds a file of manifests, in bytes: what a whole repository renders to.
	MaxManifests = 8 << 20
	// maxDocuments bounds the documents and list items of a file.
	maxDocuments = 1000
	// setKind is the kind of a manifest that holds rules.
	setKind = "ErrorPatternSet"
)

// Position is a place in a file, counted from 1.
type Position struct{ Line, Column int }

// Document is what one YAML document, or one item of a list, holds.
type Document struct {
	// Kind is that of a manifest; empty for a plain rule file.
	Kind string
	// Namespace and Name are those of a manifest, where it states them.
	Namespace, Name string
	// At is where the document begins.
	At Position
	// Ignored says that the document is a manifest of another kind, which holds no rules.
	Ignored bool
	// Entries are the rules with nothing wrong, and EntriesAt where each of them begins.
	Entries   []Entry
	EntriesAt []Position
	// Problems are what is wrong, as with Parse.
	Problems []Problem
}

// ParseDocuments reads a rule file as Parse does, or manifests of ErrorPatternSets among others: any number of
// documents and lists, at most 1000 in at most 8 MiB. Whatever is wrong, also with the file, is a problem of a
// document.
func ParseDocuments(data []byte) (documents []Document) {
	defer func() { // As in Parse.
		if recover() != nil {
			documents = append(documents, broken(Problem{Message: "is not understood as YAML"}))
		}
	}()
	if len(data) > MaxManifests {
		return []Document{broken(Problem{Message: fmt.Sprintf("has %d bytes, at most %d are allowed", len(data), MaxManifests)})}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return finished(documents, len(data))
		case err != nil:
			return append(documents, broken(notYAML(err)))
		case len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null":
			// Nothing stands between two separators.
		default:
			documents = appendDocument(documents, doc.Content[0], true)
		}
		if len(documents) > maxDocuments {
			return append(documents[:maxDocuments], broken(Problem{Line: doc.Line, Column: doc.Column,
				Message: fmt.Sprintf("has more than %d documents; split the file", maxDocuments)}))
		}
	}
}

func broken(p Problem) Document { return Document{Problems: []Problem{p}} }

// finished adds what is wrong with the file as a whole.
func finished(documents []Document, size int) []Document {
	if len(documents) == 0 {
		return []Document{broken(Problem{Path: "patterns", Message: "is required; the file is empty"})}
	}
	for i := range documents {
		d := &documents[i]
		switch {
		case d.Kind != "":
		case len(documents) > 1:
			d.Problems = append(d.Problems, Problem{Line: d.At.Line, Column: d.At.Column,
				Message: "is a rule file beside other documents; a rule file is one document, and a manifest has apiVersion and kind"})
		case size > maxFile:
			d.Problems = append(d.Problems, Problem{Message: fmt.Sprintf("has %d bytes, at most %d are allowed", size, maxFile)})
		}
	}
	return documents
}

// appendDocument reads a document, or the items of a list, which hold no lists themselves.
func appendDocument(documents []Document, n *yaml.Node, listAllowed bool) []Document {
	kind, version := textAt(n, "kind"), textAt(n, "apiVersion")
	if items := valueAt(n, "items"); items != nil && listAllowed && strings.HasSuffix(kind, "List") {
		for _, item := range items.Content[:min(len(items.Content), maxDocuments+1)] {
			documents = appendDocument(documents, item, false)
		}
		return documents
	}
	d := Document{Kind: kind, At: Position{n.Line, n.Column}}
	if metadata := valueAt(n, "metadata"); metadata != nil {
		d.Namespace, d.Name = textAt(metadata, "namespace"), textAt(metadata, "name")
	}
	p := parser{forKubectl: kind == setKind}
	switch {
	case kind == setKind:
		p.set(n, version)
	case kind == "" && valueAt(n, "apiVersion") == nil:
		p.file(n)
	case kind == "":
		p.add("kind", n, "is required beside apiVersion")
		d.Kind = "unknown"
	default:
		d.Ignored = true
	}
	d.Entries, d.EntriesAt, d.Problems = p.entries, p.at, p.problems
	return append(documents, d)
}

// set reads a manifest with rules. What else the manifest holds is the API server's to judge.
func (p *parser) set(n *yaml.Node, version string) {
	anything := func(string, *yaml.Node) {}
	var spec, patterns *yaml.Node
	p.mapping(n, "", []field{{"apiVersion", anything}, {"kind", anything}, {"metadata", anything}, {"status", anything},
		{"spec", func(_ string, n *yaml.Node) { spec = n }}})
	if want := v1alpha1.GroupVersion.String(); version != want {
		p.add("apiVersion", n, "must be %s, not %s", want, quote(version))
	}
	if spec == nil {
		p.add("spec", n, "is required; list the rules in spec.patterns")
		return
	}
	p.mapping(spec, "spec", []field{{"patterns", func(_ string, n *yaml.Node) { patterns = n }}})
	switch {
	case patterns == nil && spec.Kind == yaml.MappingNode:
		p.add("spec.patterns", spec, "is required; list the rules there")
	case patterns != nil && patterns.Kind == yaml.SequenceNode && len(patterns.Content) == 0:
		p.add("spec.patterns", patterns, "is empty; a set has at least one rule")
	case patterns != nil:
		p.patterns("spec.patterns", patterns)
	}
}

// valueAt is the value of a field of a mapping, or nil where there is none.
func valueAt(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// textAt is the text of a field of a mapping, or "" where it has none.
func textAt(n *yaml.Node, name string) string {
	if v := valueAt(n, name); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}
