// Package redact takes secrets out of text that strangers wrote, before it reaches etcd, logs or a model.
package redact

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/text"
)

// maxPasses bounds how often a text is searched. What is left beside a placeholder hardly ever is a secret in turn.
const maxPasses = 8

// Text returns s without the secrets that can be recognised by their shape or by the name beside them, and without what
// does not show and could divide one. Done twice it changes nothing more. The time is linear in the length.
func Text(s string) string {
	s = text.Shown(s)
	for range maxPasses {
		found := standard().secrets(s)
		if len(found) == 0 {
			break
		}
		s = replaced(s, found)
	}
	return s
}

// replaced puts placeholders in the place of secrets.
func replaced(s string, secrets []span) string {
	var b strings.Builder
	end := 0
	for _, secret := range secrets {
		b.WriteString(s[end:secret.from])
		b.WriteString(placeholder(s[secret.from:secret.to]))
		end = secret.to
	}
	b.WriteString(s[end:])
	return b.String()
}

const (
	// beyond is how much more of a field is searched than is kept, in bytes: a secret that begins before the cut must be
	// seen to its end to be known. What lies behind is dropped unread, so that a report of megabytes costs no more than
	// others.
	beyond = 4 << 10
	// halved is how much of the end of what was searched may be the half of a secret. Those that are known by their
	// beginning alone may be longer.
	halved = beyond / 2
	// ReadOfBody is how much of an error's body is looked at, in bytes. What follows counts only for being there.
	ReadOfBody = v1alpha1.MaxErrorBody + beyond
)

// Cut returns a text without secrets, cut to limit bytes. Where there was more than is searched, the end of what was
// searched goes too, however short redaction has made the rest: what stands there may be the half of a secret, which
// cannot be known.
func Cut(s string, limit int) string {
	searched := limit + beyond
	clean := Text(text.Cut(s, searched))
	if len(s) > searched {
		limit = min(limit, max(len(clean)-halved, len("…")))
	}
	s = cut(clean, limit)
	for range maxPasses { // The cut may show a secret where there was only a part of something longer.
		clean := cut(Text(s), limit)
		if clean == s {
			break
		}
		s = clean
	}
	return s
}

// unfinished matches the beginning of a placeholder at the end of a text.
var unfinished = regexp.MustCompile(`\[(?:r(?:e(?:d(?:a(?:c(?:t(?:e(?:d(?::[0-9a-f]{0,6})?)?)?)?)?)?)?)?)?…$`)

// cut is text.Cut and leaves no half of a placeholder.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return text.Cut(s, limit)
	}
	s = text.Cut(s, limit)
	tail := max(0, len(s)-len("[redacted:123456]…"))
	if at := unfinished.FindStringIndex(s[tail:]); at != nil {
		return s[:tail+at[0]] + "…"
	}
	return s
}

// Error takes secrets and excess out of a reported error, in place, and reports whether anything changed. Done
// twice it changes nothing more.
func Error(e *v1alpha1.ToolError) bool {
	changed := false
	set := func(value *string, limit int) {
		if clean := Cut(*value, limit); clean != *value {
			*value, changed = clean, true
		}
	}
	set(&e.Body, v1alpha1.MaxErrorBody)
	set(&e.Message, v1alpha1.MaxErrorMessage)
	set(&e.ErrorCode, 128)
	set(&e.Host, 253)
	if len(e.ExceptionTypes) > v1alpha1.MaxExceptionTypes {
		e.ExceptionTypes, changed = e.ExceptionTypes[:v1alpha1.MaxExceptionTypes], true
	}
	for i := range e.ExceptionTypes {
		value := string(e.ExceptionTypes[i])
		set(&value, 256)
		e.ExceptionTypes[i] = v1alpha1.MatchText(value)
	}
	// The schema refuses empty names, and a report is not lost for one.
	named := slices.DeleteFunc(e.ExceptionTypes, func(name v1alpha1.MatchText) bool { return name == "" })
	changed = changed || len(named) != len(e.ExceptionTypes)
	e.ExceptionTypes = named
	return headers(e) || changed
}
