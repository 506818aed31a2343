package classify

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

const (
	// maxDelta is the longest number of seconds that is read as a wait, in digits: no server asks for more than
	// 31 years and means it, so a longer number is a point in time or an error.
	maxDelta = 9
	// maxHeaderText bounds what is read of one header's value, in bytes.
	maxHeaderText = 1024
	// epochDigits and epochMilliDigits are the lengths of the points in time that are told apart by their
	// length: seconds since 1970 until the year 2286, and milliseconds.
	epochDigits, epochMilliDigits = 10, 13
)

// namedWait reads one header by its kind: retry-after as RFC 9110 §10.2.3 has it, a name that ends in -ms as
// milliseconds, any other as resetValue does, unless allowance of its limit is left.
func namedWait(e *v1alpha1.ToolError, name string, at time.Time) (time.Duration, bool) {
	value, ok := header(e, name)
	if !ok || len(value) > maxHeaderText {
		return 0, false
	}
	switch {
	case name == anyWait:
		if seconds, ok := delta(value, time.Second); ok {
			return seconds, true
		}
		return untilHTTPDate(value, at)
	case strings.HasSuffix(name, "-ms"):
		return delta(value, time.Millisecond)
	case name == "ratelimit":
		return combinedWait(value)
	case allowanceOf(e, name) == allowanceLeft:
		return 0, false
	}
	return resetValue(value, at)
}

// resetWait is the longest time until a limit resets of which nothing is left: all limits must have passed. Limits
// that are known to be used up go before those whose rest is not stated. It also names the header.
func resetWait(e *v1alpha1.ToolError, at time.Time) (wait time.Duration, name string, ok bool) {
	best := allowanceLeft
	for key := range e.Headers {
		key = strings.ToLower(key)
		if !isHeaderName(key) || !isReset(key) {
			continue
		}
		rest := allowanceOf(e, key)
		if rest < best {
			continue
		}
		reset, stated := namedWait(e, key, at)
		if !stated {
			continue
		}
		// The name decides between equal waits, so that the answer never depends on chance.
		if !ok || rest > best || reset > wait || reset == wait && key < name {
			wait, name, ok, best = reset, key, true, rest
		}
	}
	return wait, name, ok
}

// isReset reports whether a header, in lower case, says when a limit resets: x-ratelimit-reset (GitHub, in epoch
// seconds), ratelimit-reset and ratelimit (IETF draft, in seconds from now), x-ratelimit-reset-tokens (OpenAI, in
// units), anthropic-ratelimit-tokens-reset (RFC 3339) and their kin.
func isReset(name string) bool {
	if name == "ratelimit" {
		return true
	}
	prefix, _, ok := cutReset(name)
	// Anthropic's overage resets with the month; it is an extra that may be bought, not a limit that blocks.
	return ok && (strings.Contains(prefix, "ratelimit") || strings.Contains(prefix, "rate-limit")) && !strings.Contains(prefix, "overage")
}

// cutReset splits a header's name around its part reset.
func cutReset(name string) (prefix, suffix string, ok bool) {
	const part = "reset"
	i := strings.LastIndex(name, part)
	if i <= 0 || name[i-1] != '-' {
		return "", "", false
	}
	prefix, suffix = name[:i], name[i+len(part):]
	return prefix, suffix, suffix == "" || suffix[0] == '-'
}

// allowance is what an answer says about the rest of one limit.
type allowance int

const (
	allowanceLeft allowance = iota
	allowanceUnknown
	allowanceUsedUp
)

// allowanceOf is the rest of the limit to which a reset header belongs. A rest that is not understood counts as
// left: the wait applies only where it is 0 or absent.
func allowanceOf(e *v1alpha1.ToolError, name string) allowance {
	prefix, suffix, ok := cutReset(name)
	if !ok {
		return allowanceUnknown
	}
	suffix = strings.TrimSuffix(suffix, "-after") // x-ratelimit-reset-after (Discord)
	if status, ok := header(e, prefix+"status"+suffix); ok && strings.HasPrefix(strings.ToLower(status), "allowed") {
		return allowanceLeft // anthropic-ratelimit-unified-5h-status, which has no rest
	}
	rest, ok := header(e, prefix+"remaining"+suffix)
	if !ok || rest == "" {
		return allowanceUnknown
	}
	return restOf(rest)
}

// restOf reads a rest, which may have a fraction: 0 or 0.0.
func restOf(value string) allowance {
	if strings.Trim(value, "0") == "" || strings.HasPrefix(value, "0.") && strings.Trim(value[2:], "0") == "" {
		return allowanceUsedUp
	}
	return allowanceLeft
}

// combinedWait reads the one header of the later IETF drafts, "name";r=0;t=30, or of draft 7, limit=10,
// remaining=0, reset=30: the longest time of a limit of which nothing is left.
func combinedWait(value string) (wait time.Duration, ok bool) {
	rest, reset := "", ""
	flush := func() {
		if rest == "" || restOf(rest) == allowanceUsedUp {
			if seconds, stated := delta(reset, time.Second); stated {
				wait, ok = max(wait, seconds), true
			}
		}
		rest, reset = "", ""
	}
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ';' }) {
		key, number, isParameter := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !isParameter:
			flush() // the name of the next limit
		case key == "r" || key == "remaining":
			rest = number
		case key == "t" || key == "reset":
			reset = number
		}
	}
	flush()
	return wait, ok
}

// resetValue reads the ways in which servers state when to come back: seconds from now or since 1970,
// milliseconds since 1970, a duration in units (1m30.5s) or a date (RFC 3339, RFC 9110).
func resetValue(value string, at time.Time) (time.Duration, bool) {
	whole, fraction, hasFraction := strings.Cut(value, ".")
	if isDigits(whole) && (!hasFraction || isDigits(fraction) && len(fraction) <= 9) {
		if until, ok := epoch(whole); ok {
			return ahead(until, at)
		}
		seconds, ok := delta(whole, time.Second)
		return seconds + fractionOf(fraction, time.Second), ok
	}
	c := cursor{text: value}
	if wait, ok := c.span(false); ok && c.peek().kind == lexEnd {
		return wait, true
	}
	if until, rest, ok := timestamp(value); ok && rest == "" {
		return ahead(until, at)
	}
	return untilHTTPDate(value, at)
}

// untilHTTPDate is the time until a date as RFC 9110 §5.6.7 has it.
func untilHTTPDate(value string, at time.Time) (time.Duration, bool) {
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return ahead(until, at)
}

// ahead is the time until a moment that is not past.
func ahead(until, at time.Time) (time.Duration, bool) {
	wait := until.Sub(at)
	return max(wait, 0), wait >= 0
}

// epoch reads a point in time in seconds or milliseconds since 1970.
func epoch(digits string) (time.Time, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || digits[0] == '0':
		return time.Time{}, false
	case len(digits) == epochDigits:
		return time.Unix(n, 0), true
	case len(digits) == epochMilliDigits:
		return time.UnixMilli(n), true
	}
	return time.Time{}, false
}

// delta reads a whole number of units.
func delta(value string, unit time.Duration) (time.Duration, bool) {
	if !isDigits(value) || len(value) > maxDelta {
		return 0, false
	}
	n, err := strconv.Atoi(value)
	return time.Duration(n) * unit, err == nil
}

// fractionOf is a fraction of a unit, of at most nine digits.
func fractionOf(digits string, unit time.Duration) time.Duration {
	total := time.Duration(0)
	for i := range min(len(digits), 9) {
		unit /= 10
		total += time.Duration(digits[i]-'0') * unit
	}
	return total
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
