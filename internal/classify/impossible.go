package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/classify/scan"
)

// Impossible lists the entries in force that no error matches, because two of their own selectors exclude each other.
// Each message names the two.
func (r *Rules) Impossible() []Problem {
	if r == nil {
		return nil
	}
	var found []Problem
	for i := range r.entries {
		if one, other, ok := contradiction(&r.entries[i].Pattern.Match); ok {
			found = append(found, r.entries[i].problem(fmt.Sprintf("never matches: match.%s and match.%s exclude each other", one, other)))
		}
	}
	return found
}

// contradiction names the first two selectors of an entry of which never both hold.
func contradiction(m *v1alpha1.ErrorMatch) (one, other string, ok bool) {
	outside := func(status int32) bool {
		return len(m.HTTPStatusRange) == 2 && (status < m.HTTPStatusRange[0] || status > m.HTTPStatusRange[1])
	}
	switch {
	case m.HTTPStatus != nil && m.HTTPStatusIn != nil && !slices.Contains(m.HTTPStatusIn, *m.HTTPStatus):
		return "httpStatus", "httpStatusIn", true
	case m.HTTPStatus != nil && outside(*m.HTTPStatus):
		return "httpStatus", "httpStatusRange", true
	case m.HTTPStatusIn != nil && !slices.ContainsFunc(m.HTTPStatusIn, func(status int32) bool { return !outside(status) }):
		return "httpStatusRange", "httpStatusIn", true
	case m.ErrorCode != "" && m.ErrorCodeIn != nil && !slices.Contains(m.ErrorCodeIn, m.ErrorCode):
		return "errorCode", "errorCodeIn", true
	}
	if one, other, ok = firstPair("header", m.Header, headersExclude); ok {
		return one, other, ok
	}
	return firstPair("jsonField", m.JSONField, fieldsExclude)
}

// firstPair names the first two elements of a list that exclude each other.
func firstPair[T any](name string, list []T, exclude func(a, b *T) bool) (one, other string, ok bool) {
	for i := range list {
		for j := range i {
			if exclude(&list[j], &list[i]) {
				return fmt.Sprintf("%s[%d]", name, j), fmt.Sprintf("%s[%d]", name, i), true
			}
		}
	}
	return "", "", false
}

func headersExclude(a, b *v1alpha1.HeaderMatch) bool {
	absent := func(h *v1alpha1.HeaderMatch) bool { return h.Present != nil && !*h.Present }
	if !strings.EqualFold(a.Name, b.Name) {
		return false
	}
	if absent(a) != absent(b) {
		return true
	}
	x, y := scan.Fold(a.Equals), scan.Fold(b.Equals)
	return x != "" && y != "" && x != y || x != "" && !strings.Contains(x, scan.Fold(b.Contains)) || y != "" && !strings.Contains(y, scan.Fold(a.Contains))
}

func fieldsExclude(a, b *v1alpha1.JSONFieldMatch) bool {
	return a.Pointer == b.Pointer && !slices.ContainsFunc(a.In, func(value string) bool { return slices.Contains(b.In, value) })
}
