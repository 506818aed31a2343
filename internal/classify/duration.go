package classify

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// errDuration is what every refused duration has in common.
var errDuration = errors.New("not an ISO-8601 duration")

// maxDurationText bounds what ParseDuration looks at, in bytes. Durations up to the greatest that a
// time.Duration holds are far shorter, leading zeros apart.
const maxDurationText = 64

// durationUnits are the designators in the order in which they may follow one another.
var durationUnits = []struct {
	designator byte
	inTime     bool
	unit       time.Duration
}{
	{'D', false, 24 * time.Hour},
	{'H', true, time.Hour},
	{'M', true, time.Minute},
	{'S', true, time.Second},
}

// ParseDuration reads an ISO-8601 duration of weeks (P2W), or of days, hours, minutes and seconds (P1DT2H3M4.5S);
// only seconds may have a fraction, of one to nine digits. A day has 24 hours. Years and months, which have no
// fixed length, signs, lower case, a duration without any part and one that a time.Duration cannot hold are
// refused: nothing is guessed.
func ParseDuration(s string) (time.Duration, error) {
	if len(s) > maxDurationText {
		return 0, fmt.Errorf("%w: longer than %d characters", errDuration, maxDurationText)
	}
	rest, ok := strings.CutPrefix(s, "P")
	if !ok || rest == "" || strings.HasSuffix(rest, "T") {
		return 0, fmt.Errorf("%w: %s; write for example PT30S, PT5M, PT24H or P7D", errDuration, quote(s))
	}
	if weeks, ok := strings.CutSuffix(rest, "W"); ok {
		return parsePart(weeks, 7*24*time.Hour)
	}
	date, clock, _ := strings.Cut(rest, "T")
	days, err := parseParts(date, false)
	if err != nil {
		return 0, err
	}
	hours, err := parseParts(clock, true)
	if err != nil {
		return 0, err
	}
	return addDurations(days, hours)
}

// parseParts reads the parts before (inTime false) or after the T.
func parseParts(s string, inTime bool) (time.Duration, error) {
	var total time.Duration
	for _, u := range durationUnits {
		end := strings.IndexByte(s, u.designator)
		if u.inTime != inTime || end < 0 {
			continue
		}
		part, err := parsePart(s[:end], u.unit)
		if err != nil {
			return 0, err
		}
		if total, err = addDurations(total, part); err != nil {
			return 0, err
		}
		s = s[end+1:]
	}
	if s != "" {
		return 0, fmt.Errorf("%w: %s is not understood; use W alone, or D, then T and H, M, S in this order", errDuration, quote(s))
	}
	return total, nil
}

// parsePart reads the number before a designator.
func parsePart(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, hasFraction := strings.Cut(number, ".")
	n, err := parseDigits(whole)
	if err != nil {
		return 0, err
	}
	if n > int64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("%w: too long", errDuration)
	}
	total := time.Duration(n) * unit
	if !hasFraction {
		return total, nil
	}
	if unit != time.Second || len(fraction) > 9 {
		return 0, fmt.Errorf("%w: only seconds may have a fraction, of at most nine digits", errDuration)
	}
	n, err = parseDigits(fraction)
	if err != nil {
		return 0, err
	}
	for range 9 - len(fraction) {
		n *= 10
	}
	return addDurations(total, time.Duration(n))
}

// parseDigits reads a number of digits and nothing else.
func parseDigits(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%w: %s is no whole number", errDuration, quote(s))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: too long", errDuration)
	}
	return n, nil
}

// addDurations adds two durations that are not negative.
func addDurations(a, b time.Duration) (time.Duration, error) {
	if a > math.MaxInt64-b {
		return 0, fmt.Errorf("%w: too long", errDuration)
	}
	return a + b, nil
}
