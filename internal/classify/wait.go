package classify

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// MaxWait is the longest wait of a verdict; longer ones are cut. It is the specification's default maximum of a
// cooldown (24 h).
const MaxWait = 24 * time.Hour

const (
	// minWait is the shortest wait of a verdict, which is what a cooldown's times can express.
	minWait = time.Second
	// headerPrefix begins a cooldown that is read from a header of the answer.
	headerPrefix = "header:"
	// maxHeaderName is the longest name of such a header, in bytes, as in the schema.
	maxHeaderName = 64
	// maxDelta is the longest number of seconds that is read as a wait: no server asks for more than 31 years
	// and means it, so a longer number is a point in time or an error.
	maxDelta = 9
)

// parseCooldown reads an entry's cooldown: a duration, or the lower-case name of the header that states it. Both
// are empty where the class's default applies.
func parseCooldown(s string) (time.Duration, string, error) {
	if s == "" {
		return 0, "", nil
	}
	if name, ok := strings.CutPrefix(s, headerPrefix); ok {
		if !isHeaderName(name) {
			return 0, "", fmt.Errorf("%s is no header name; write for example header:retry-after", quote(name))
		}
		return 0, strings.ToLower(name), nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		return 0, "", err
	}
	if d == 0 {
		return 0, "", fmt.Errorf("%s is no wait; leave it out for the default of the classification", quote(s))
	}
	return boundWait(d), "", nil
}

func isHeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !isAlphanumeric(c) && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return name != "" && len(name) <= maxHeaderName
}

func boundWait(d time.Duration) time.Duration {
	return min(max(d, minWait), MaxWait)
}

// statedWait is the wait that a header of the answer states, in seconds or as an HTTP date (RFC 9110, §10.2.3),
// and 0 where it is malformed, negative or past: then the class's default applies.
func statedWait(e *v1alpha1.ToolError, name string, now time.Time) time.Duration {
	value, ok := header(e, name)
	if !ok {
		return 0
	}
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.Atoi(value)
		if err != nil || len(value) > maxDelta {
			return 0
		}
		return boundWait(time.Duration(seconds) * time.Second)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	wait := until.Sub(reportTime(e, now))
	if wait < 0 {
		return 0
	}
	return boundWait(wait)
}

// reportTime is when the call failed: as the report states it, else by the answer's Date header, else now.
func reportTime(e *v1alpha1.ToolError, now time.Time) time.Time {
	if e.Date != nil && !e.Date.IsZero() {
		return e.Date.Time
	}
	if value, ok := header(e, "date"); ok {
		if date, err := http.ParseTime(value); err == nil {
			return date
		}
	}
	return now
}

// header is the value of a header, whose name ignores case, without surrounding white space. Of several
// spellings of one name the first in byte order counts, so that the answer never depends on chance.
func header(e *v1alpha1.ToolError, name string) (string, bool) {
	spelling, found := "", false
	for key := range e.Headers {
		if len(key) == len(name) && strings.EqualFold(key, name) && (!found || key < spelling) {
			spelling, found = key, true
		}
	}
	return strings.TrimSpace(string(e.Headers[spelling])), found
}
