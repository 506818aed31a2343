package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agrajag-dev/agrajag/internal/classify"
)

// ruleFile is a file of rules: an error-patterns.yaml, or manifests.
type ruleFile struct {
	name      string
	documents []classify.Document
}

// place is where something stands in a file. Its text is the path of an Entry that is read from a file, so that
// whatever package classify says about an entry says where it stands.
type place struct {
	file string
	classify.Position
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", label(p.file), p.Line, p.Column) }

func (s *streams) ruleFile(name string) (ruleFile, error) {
	data, err := s.read(name)
	if err != nil {
		return ruleFile{}, err
	}
	return ruleFile{name, classify.ParseDocuments(data)}, nil
}

// entries are those of some documents of the file, in the order in which a cluster tries sets: by name.
func (f ruleFile) entries(places map[string]place, of ...classify.Document) []classify.Entry {
	slices.SortStableFunc(of, func(a, b classify.Document) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var entries []classify.Entry
	for _, d := range of {
		for i, entry := range d.Entries {
			at := place{f.name, d.EntriesAt[i]}
			entry.Path = at.String()
			places[entry.Path] = at
			entries = append(entries, entry)
		}
	}
	return entries
}

// problems are what is wrong with the entries of a file taken alone.
func (f ruleFile) problems() []finding {
	var findings []finding
	for _, d := range f.documents {
		for _, p := range d.Problems {
			findings = append(findings, finding{File: label(f.name), Line: p.Line, Column: p.Column, Severity: isError,
				Path: p.Path, ID: p.ID, Message: p.Message})
		}
	}
	return findings
}

// merged tells what is wrong with entries in a cascade: those that are not in force, and those that are, but not
// where they ask to be.
func merged(rules *classify.Rules, problems []classify.Problem, places map[string]place) []finding {
	inForce := map[string]bool{}
	for _, entry := range rules.Entries() {
		inForce[entry.Path] = true
	}
	var findings []finding
	for _, p := range problems {
		severity := isError
		if inForce[p.Path] {
			severity = isWarning
		}
		at := places[p.Path]
		findings = append(findings, finding{File: label(at.file), Line: at.Line, Column: at.Column, Severity: severity,
			ID: p.ID, Message: p.Message})
	}
	return findings
}

// rules compiles files over the bundled rules, each a level over those before. Files in which something is wrong are
// refused: what they decide would not be what their author means.
func (s *streams) rules(names []string) (*classify.Rules, error) {
	layers := []classify.Layer{classify.Bundled()}
	places := map[string]place{}
	var findings []finding
	for _, name := range names {
		file, err := s.ruleFile(name)
		if err != nil {
			return nil, err
		}
		findings = append(findings, file.problems()...)
		layers = append(layers, classify.Layer{Name: label(name), Entries: file.entries(places, file.documents...)})
	}
	rules, problems := classify.Compile(layers...)
	findings = append(findings, merged(rules, problems, places)...)
	bad := 0
	for _, f := range findings {
		s.note("%s", f)
		if f.Severity == isError {
			bad++
		}
	}
	if bad > 0 {
		return nil, errors.New("the rules have errors; nothing was decided")
	}
	return rules, nil
}
