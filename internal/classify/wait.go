package classify

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// MaxWait is the longest wait of a verdict unless another is configured; longer ones are cut. It is the
// specification's default maximum of a cooldown (24 h).
const MaxWait = 24 * time.Hour

const (
	// minWait is the shortest wait of a verdict, which is what a cooldown's times can express.
	minWait = time.Second
	// headerPrefix begins a cooldown that is read from a header of the answer.
	headerPrefix = "header:"
	// maxHeaderName is the longest name of such a header, in bytes, as in the schema.
	maxHeaderName = 64
	// anyWait is the header whose name in a cooldown asks for any stated wait.
	anyWait = "retry-after"
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
	return d, "", nil
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

// wait is the cooldown of a verdict by this rule: 0, where the class's default applies, or from one second to
// limit, which is at least a second. The note says what was asked where the wait was cut, and is empty otherwise.
func (r *rule) wait(e *v1alpha1.ToolError, now time.Time, limit time.Duration) (wait time.Duration, note string) {
	asked, source, ok := r.verdict.Wait, "the rule", r.verdict.Wait > 0
	if r.waitHeader != "" {
		asked, source, ok = askedWait(e, r.waitHeader, now)
	}
	switch {
	case !ok:
		return 0, ""
	case asked > limit:
		return limit, fmt.Sprintf("%s asks for a wait of %v, cut to the maximum of %v", source, asked.Round(time.Second), limit)
	}
	return max(asked, minWait), ""
}

// StatedWait is the wait that an answer asks for anywhere, in its headers or its text, as it stands there: above zero and
// without a limit. It is what the cooldown header:retry-after reads; ok is false where no wait is stated. Times count from
// when the call failed, which is now unless the answer says otherwise.
func StatedWait(e *v1alpha1.ToolError, now time.Time) (wait time.Duration, ok bool) {
	wait, _, ok = askedWait(e, anyWait, now)
	return wait, ok
}

// askedWait is the wait that an answer asks for, as it stands there, and where it stands. The cooldown
// header:retry-after asks for any stated wait and takes the first there is: the headers made for it (retry-after,
// retry-after-ms, x-ms-retry-after-ms), then the moment at which a used-up limit resets, then the text. Any other
// name reads that header alone. What is malformed, negative or past states no wait. Times count from when the call
// failed.
func askedWait(e *v1alpha1.ToolError, name string, now time.Time) (wait time.Duration, source string, ok bool) {
	at := reportTime(e, now)
	if name != anyWait {
		wait, ok = namedWait(e, name, at)
		return wait, "the header " + name, ok
	}
	for _, name := range []string{anyWait, "retry-after-ms", "x-ms-retry-after-ms"} {
		if wait, ok := namedWait(e, name, at); ok {
			return wait, "the header " + name, true
		}
	}
	if wait, name, ok := resetWait(e, at); ok {
		return wait, "the header " + name, true
	}
	wait, ok = statedInText(e, at)
	return wait, "the text", ok
}

// statedInText is the wait that the message and the body state: the longest of those stated most directly. Both may
// repeat one wait in different precision, or name several limits that must all pass; and to call again too early
// is what a server punishes, while a wait is bounded and a success ends it.
func statedInText(e *v1alpha1.ToolError, at time.Time) (time.Duration, bool) {
	var found stated
	textWaits(e.Message, at, &found)
	textWaits(e.Body, at, &found)
	return found.wait()
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
