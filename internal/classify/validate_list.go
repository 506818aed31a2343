package classify

import (
	"fmt"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// ValidateList says what is wrong with the entries of one set, each problem with the path of its field: all that
// Validate finds, ids that stand twice, and what is more than a level may hold. It knows no other set and no
// deeper level.
func ValidateList(patterns []v1alpha1.ErrorPattern) []Problem {
	var problems []Problem
	first := make(map[v1alpha1.PatternID]int, len(patterns))
	size := 0
	for i := range patterns {
		p := &patterns[i]
		add := func(field, message string) {
			problems = append(problems, Problem{Path: entryPath(i) + "." + field, ID: clip(string(p.ID)), Message: message})
		}
		for _, finding := range Validate(*p) {
			field, message, _ := strings.Cut(finding, ": ")
			add(field, message)
		}
		if earlier, ok := first[p.ID]; !ok {
			first[p.ID] = i
		} else if p.ID != "" {
			add("id", fmt.Sprintf("stands at %s too; use an id of its own", entryPath(earlier)))
		}
		before := size
		if size += sizeOf(&p.Match); before <= maxSize && size > maxSize {
			add("match", fmt.Sprintf("makes the set's selectors larger than %d bytes; ask for less", maxSize))
		}
	}
	if len(patterns) > maxEntries {
		problems = append(problems, Problem{Path: "spec.patterns",
			Message: fmt.Sprintf("has %d entries, at most %d are allowed", len(patterns), maxEntries)})
	}
	return problems
}

// entryPath is the place of an entry in its set.
func entryPath(i int) string { return fmt.Sprintf("spec.patterns[%d]", i) }
