package classify

import "strings"

// maxSuggested is the longest unknown name, in bytes, for which a known one is looked for.
const maxSuggested = 64

// suggestion says which known field an unknown one may stand for, or all known ones where none is near.
func suggestion(unknown string, fields []field) string {
	if name := nearest(unknown, fields); name != "" {
		return "did you mean " + name + "?"
	}
	all := make([]string, len(fields))
	for i := range fields {
		all[i] = fields[i].name
	}
	return "known are " + strings.Join(all, ", ")
}

// nearest is the known field that is most like an unknown one, or "" where none is near.
func nearest(unknown string, fields []field) string {
	if len(unknown) > maxSuggested {
		return ""
	}
	best, least := "", len(unknown)/3+1
	for _, f := range fields {
		if d := distance(strings.ToLower(unknown), strings.ToLower(f.name)); d < least {
			best, least = f.name, d
		}
	}
	return best
}

// distance is how many bytes must be put in, taken out or replaced to make one text of another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
