package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agrajag-dev/agrajag/internal/classify"
)

// severity says how bad a finding is.
type severity string

const (
	isError   severity = "error"   // An entry is not in force.
	isWarning severity = "warning" // An entry does not do what it seems to.
	isNote    severity = "note"    // Nothing is wrong.
)

// finding is something to say about a place in a file of rules.
type finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity severity `json:"severity"`
	// Path is the field, as in spec.patterns[0].match, where that is known.
	Path string `json:"path,omitempty"`
	// ID is the entry's id, as far as it has one.
	ID      string `json:"id,omitempty"`
	Message string `json:"message"`
}

// String gives the finding in the form that editors and pipelines know: FILE:LINE:COL: severity: message.
func (f finding) String() string {
	subject := f.Path
	switch {
	case subject == "":
		subject = f.ID
	case f.ID != "":
		subject += " (" + f.ID + ")"
	}
	if subject != "" {
		subject += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s%s", f.File, max(f.Line, 1), max(f.Column, 1), f.Severity, subject, f.Message)
}

type lintOptions struct {
	*streams
	output    string
	noBundled bool
}

func newLint(s *streams) *cobra.Command {
	o := lintOptions{streams: s}
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files of rules",
		Long: `Check files of rules: error-patterns.yaml files, and manifests of ErrorPatternSets among others.

It reports fields that do not exist, values that are not allowed, ids that stand twice, a 'before' that leads to no
entry, entries of which two selectors exclude each other, and entries that are never reached, because an earlier one takes
all they would match. Each file is checked over the bundled rules; sets that state the same namespace are checked
together, as the cluster tries them.

Every error and warning is a finding, a note is not. ` + exitCodes,
		Example: `  # Check a set of rules
  kubectl toolhealth patterns lint shop-rules.yaml

  # Check what a pipeline is about to apply
  kubectl kustomize . | kubectl toolhealth patterns lint -

  # For a program
  kubectl toolhealth patterns lint -o json shop-rules.yaml`,
		Args: filesNeeded,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	outputFlag(c, &o.output, "text", "json")
	c.Flags().BoolVar(&o.noBundled, "no-bundled", false, "check the files alone, without the bundled rules below them")
	return c
}

func (o *lintOptions) run(names []string) error {
	var files []ruleFile
	for i, name := range names {
		if slices.Contains(names[:i], name) && name != stdin {
			continue // Else every entry would stand there twice.
		}
		file, err := o.ruleFile(name)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	findings := lint(files, !o.noBundled)
	if err := o.tell(findings); err != nil {
		return err
	}
	bad := func(f finding) bool { return f.Severity != isNote }
	if slices.ContainsFunc(findings, bad) {
		return errFindings
	}
	return nil
}

func (o *lintOptions) tell(findings []finding) error {
	if o.output == "json" {
		return o.object(o.output, append([]finding{}, findings...))
	}
	for _, f := range findings {
		if err := o.print("%s", f); err != nil {
			return err
		}
	}
	return nil
}

// lint checks files, and returns the findings in the order of the files and of their lines.
func lint(files []ruleFile, overBundled bool) []finding {
	var findings []finding
	for _, file := range files {
		findings = append(findings, file.problems()...)
		for _, d := range file.documents {
			if d.Ignored {
				findings = append(findings, finding{File: label(file.name), Line: d.At.Line, Column: d.At.Column, Severity: isNote,
					Message: fmt.Sprintf("%s %s holds no rules and is not looked at", clip(d.Kind), clip(d.Name))})
			}
		}
	}
	for _, level := range levels(files) {
		findings = append(findings, level.check(overBundled)...)
	}
	order := map[string]int{}
	for i, file := range files {
		order[label(file.name)] = i
	}
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(findings)
}

// level are entries that stand in one level of a cascade: those of a namespace, or of one file.
type level struct {
	name    string
	sets    []setOf
	entries []classify.Entry
	places  map[string]place
}

// setOf is a document and its file.
type setOf struct {
	file ruleFile
	classify.Document
}

// levels sorts documents into levels, in the order in which they first appear.
func levels(files []ruleFile) []*level {
	var all []*level
	of := map[string]*level{}
	for _, file := range files {
		for _, d := range file.documents {
			key := "file " + file.name
			if d.Namespace != "" {
				key = "namespace " + d.Namespace
			}
			if of[key] == nil {
				of[key] = &level{name: key, places: map[string]place{}}
				all = append(all, of[key])
			}
			of[key].sets = append(of[key].sets, setOf{file, d})
		}
	}
	for _, l := range all {
		// A cluster tries the sets of a namespace by name.
		slices.SortStableFunc(l.sets, func(a, b setOf) int { return cmp.Compare(a.Name, b.Name) })
		for _, set := range l.sets {
			l.entries = append(l.entries, set.file.entries(l.places, set.Document)...)
		}
	}
	return all
}

// check compiles the level and tells what is wrong with entries of it beside others.
func (l *level) check(overBundled bool) []finding {
	layers := []classify.Layer{{Name: l.name, Entries: l.entries}}
	if overBundled {
		layers = append([]classify.Layer{classify.Bundled()}, layers...)
	}
	rules, problems := classify.Compile(layers...)
	findings := merged(rules, problems, l.places)
	for _, problem := range rules.Impossible() {
		if at, own := l.places[problem.Path]; own {
			findings = append(findings, finding{File: label(at.file), Line: at.Line, Column: at.Column, Severity: isWarning,
				ID: problem.ID, Message: problem.Message})
		}
	}
	for _, shadow := range rules.Shadows() {
		entry, own := l.places[shadow.Entry.Path]
		by, byOwn := l.places[shadow.By.Path]
		f := finding{Severity: isWarning, ID: string(shadow.Entry.Pattern.ID)}
		switch {
		case own:
			f.Message = fmt.Sprintf("is never reached: %s, which is tried before, takes all it would match", called(shadow.By, byOwn))
		case byOwn:
			entry, f.ID = by, string(shadow.By.Pattern.ID)
			f.Message = fmt.Sprintf("takes all that %s would match, which is never reached", called(shadow.Entry, false))
		default:
			continue
		}
		f.File, f.Line, f.Column = label(entry.file), entry.Line, entry.Column
		findings = append(findings, f)
	}
	return findings
}

// called names an entry and where it stands.
func called(e classify.EffectiveEntry, own bool) string {
	if own {
		return fmt.Sprintf("%s at %s", e.Pattern.ID, e.Path)
	}
	return fmt.Sprintf("%s of the %s rules", e.Pattern.ID, e.Layer)
}

// clip bounds a name that a manifest states.
func clip(s string) string { return plain(s, maxCell) }
