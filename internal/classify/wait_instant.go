package classify

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	// The zones' rules are compiled in, because images built from scratch have none; without them a reset
	// "at midnight Pacific Time" would depend on the machine.
	_ "time/tzdata"
)

// zones are the words for time zones that name one zone only. CST, IST and their like name several. People write
// PST in summer too and mean the time there.
var zones = map[string]string{
	"utc": "UTC", "gmt": "UTC", "z": "UTC",
	"pt": "America/Los_Angeles", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "pacific": "America/Los_Angeles",
	"et": "America/New_York", "est": "America/New_York", "edt": "America/New_York", "eastern": "America/New_York",
}

// zoneAreas begin the names of the time zone database, as in Europe/Berlin.
var zoneAreas = wordsOf("Africa America Antarctica Arctic Asia Atlantic Australia Europe Indian Pacific US Etc")

// maxZoneName is the longest name of a time zone that is looked up, in bytes.
const maxZoneName = 40

// instant reads a point in time: a date with a time and a zone, seconds or milliseconds since 1970, or the next
// time a clock in a stated zone shows something. Without a zone nothing is stated: a guess could be wrong by a day.
func (c *cursor) instant(at time.Time) (time.Time, bool) {
	l := c.peek()
	text := c.text[l.start:]
	if until, rest, ok := timestamp(text); ok {
		c.at = len(c.text) - len(rest)
		return until, true
	}
	if len(text) >= len(http.TimeFormat) {
		if until, err := time.Parse(http.TimeFormat, text[:len(http.TimeFormat)]); err == nil {
			c.at = l.start + len(http.TimeFormat)
			return until, true
		}
	}
	if l.kind == lexNumber && l.fraction == "" {
		if until, ok := epoch(l.whole); ok {
			after := cursor{text: c.text, at: l.end}
			return until, after.endsNumber()
		}
	}
	if until, ok := c.calendar(at); ok {
		return until, true
	}
	c.at = l.start
	return c.nextClock(at)
}

// timestamp reads a date and time with a zone at the beginning of a text, as in 2026-06-17T08:00:00.5Z,
// 2026-06-17 08:00 UTC or 2026-06-17T10:00:00+02:00, and gives what follows it.
func timestamp(text string) (until time.Time, rest string, ok bool) {
	const shortest = len("2006-01-02T15:04")
	if len(text) <= shortest || text[4] != '-' || text[7] != '-' || !strings.ContainsRune("Tt ", rune(text[10])) || text[13] != ':' {
		return time.Time{}, "", false
	}
	date, clock, rest := text[:10], text[11:shortest]+":00", text[shortest:]
	if len(rest) >= 3 && rest[0] == ':' {
		clock, rest = text[11:shortest]+rest[:3], rest[3:]
	}
	nanos := time.Duration(0)
	if end := digitsEnd(rest, min(1, len(rest))); end > 1 && rest[0] == '.' {
		nanos, rest = fractionOf(rest[1:end], time.Second), rest[end:]
	}
	local, err := time.Parse("2006-01-02 15:04:05", date+" "+clock)
	if err != nil {
		return time.Time{}, "", false
	}
	c := cursor{text: rest}
	offset, ok := c.offset()
	if !ok {
		ok = c.utc()
	}
	return local.Add(nanos - offset), c.text[c.at:], ok
}

// utc passes over the name of Coordinated Universal Time.
func (c *cursor) utc() bool {
	l := c.peek()
	if zones[l.word] != "UTC" {
		return false
	}
	c.at = l.end
	return true
}

// offset reads the difference from UTC: +02:00, -0530 or +2. After a space it must have four digits.
func (c *cursor) offset() (time.Duration, bool) {
	start := *c
	sign, at := time.Duration(1), c.peek().start
	if c.mark('-') || c.mark('−') {
		sign = -1
	} else if !c.mark('+') {
		return 0, false
	}
	hours := c.peek()
	digits := hours.whole
	c.at = hours.end
	if after := *c; len(digits) == 2 && c.mark(':') {
		if minutes := c.peek(); len(minutes.whole) == 2 {
			digits, c.at = digits+minutes.whole, minutes.end
		} else {
			*c = after
		}
	}
	if len(digits) == 1 || len(digits) == 2 {
		digits += "00"
	}
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) == 0 || n/100 > 14 || n%100 > 59 || at > start.at && c.at-at != 5 {
		*c = start
		return 0, false
	}
	return sign * (time.Duration(n/100)*time.Hour + time.Duration(n%100)*time.Minute), true
}

// nextClock reads a time of day with its zone, as in midnight Pacific Time (PT), 3:30pm (Europe/Berlin) or 00:00
// UTC, and gives its next occurrence.
func (c *cursor) nextClock(at time.Time) (time.Time, bool) {
	hour, minute, ok := c.timeOfDay()
	if !ok {
		return time.Time{}, false
	}
	zone, ok := c.zone()
	if !ok {
		return time.Time{}, false
	}
	local := at.In(zone)
	year, month, day := local.Date()
	until := time.Date(year, month, day, hour, minute, 0, 0, zone)
	if !until.After(at) {
		until = time.Date(year, month, day+1, hour, minute, 0, 0, zone)
	}
	return until, true
}

// calendar reads a day with the name of its month, and a time with its zone: Jun 18 at 3pm (America/Los_Angeles),
// June 18, 2026, 00:00 UTC. Without a year the nearest one counts, so that a past day is not taken for the next year's.
func (c *cursor) calendar(at time.Time) (time.Time, bool) {
	name, ok := c.take(monthNames)
	if !ok {
		return time.Time{}, false
	}
	month, err := time.Parse("Jan", strings.ToUpper(name[:1])+name[1:3])
	if err != nil {
		return time.Time{}, false
	}
	day, ok := c.integer(2)
	if !ok || day < 1 || day > 31 {
		return time.Time{}, false
	}
	c.mark(',')
	year, hasYear := c.integer(4)
	c.mark(',')
	c.skipWords(qualifiers, 1) // at
	hour, minute, ok := c.timeOfDay()
	if !ok {
		return time.Time{}, false
	}
	zone, ok := c.zone()
	if !ok {
		return time.Time{}, false
	}
	if !hasYear {
		year = at.In(zone).Year()
	}
	until := time.Date(year, month.Month(), day, hour, minute, 0, 0, zone)
	if until.Day() != day {
		return time.Time{}, false // the 31st of June
	}
	const halfYear = 182 * 24 * time.Hour
	if !hasYear && at.Sub(until) > halfYear {
		until = until.AddDate(1, 0, 0)
	}
	return until, true
}

// integer reads a number of at most or, for a year, exactly so many digits.
func (c *cursor) integer(digits int) (int, bool) {
	n := c.peek()
	if n.kind != lexNumber || n.fraction != "" || len(n.whole) > digits || digits == 4 && len(n.whole) != digits {
		return 0, false
	}
	value, err := strconv.Atoi(n.whole)
	c.at = n.end
	return value, err == nil
}

// timeOfDay reads midnight, noon, 3pm, 3:30 p.m. or 15:30. A bare number is no time of day.
func (c *cursor) timeOfDay() (hour, minute int, ok bool) {
	if word, ok := c.take(clockWords); ok {
		if word == "noon" {
			hour = 12
		}
		return hour, 0, true
	}
	h := c.peek()
	if h.kind != lexNumber || h.fraction != "" || len(h.whole) > 2 {
		return 0, 0, false
	}
	hour, _ = strconv.Atoi(h.whole)
	c.at = h.end
	hasMinute := c.mark(':')
	if hasMinute {
		m := c.peek()
		minute, _ = strconv.Atoi(m.whole)
		if len(m.whole) != 2 || m.fraction != "" || minute > 59 {
			return 0, 0, false
		}
		c.at = m.end
		if after := *c; c.mark(':') {
			if c.peek().kind != lexNumber {
				*c = after
			} else {
				c.at = c.peek().end // seconds, which no limit needs
			}
		}
	}
	word, isTwelve := c.take(meridiems)
	if !isTwelve {
		return hour, minute, hasMinute && hour < 24
	}
	if len(word) == 1 {
		c.mark('.')
		c.at = c.peek().end // the m of a.m.
		c.mark('.')
	}
	if hour < 1 || hour > 12 {
		return 0, 0, false
	}
	hour %= 12
	if word[0] == 'p' {
		hour += 12
	}
	return hour, minute, true
}

// zone reads a time zone: UTC, UTC+2, (PT), Pacific Time, (Europe/Berlin).
func (c *cursor) zone() (*time.Location, bool) {
	c.mark(',')
	for range len(zoneLeads) {
		c.take(zoneLeads)
	}
	c.mark('(')
	l := c.peek()
	if l.kind != lexWord {
		return nil, false
	}
	if location, ok := c.namedZone(c.text[l.start:]); ok {
		return location, true
	}
	name, ok := zones[l.word]
	if !ok {
		return nil, false
	}
	c.at = l.end
	if name == "UTC" {
		if offset, ok := c.offset(); ok {
			return time.FixedZone("", int(offset/time.Second)), true
		}
		if sign := c.peek().mark; sign == '+' || sign == '-' {
			return nil, false
		}
	}
	return c.lookUp(name)
}

func (c *cursor) lookUp(name string) (*time.Location, bool) {
	if *c.lookups == 0 {
		return nil, false
	}
	*c.lookups--
	location, err := time.LoadLocation(name)
	return location, err == nil
}

// namedZone reads a name of the time zone database at the beginning of a text.
func (c *cursor) namedZone(text string) (*time.Location, bool) {
	end := 0
	for end < len(text) && end <= maxZoneName && (isAlphanumeric(text[end]) || strings.IndexByte("/_+-", text[end]) >= 0) {
		end++
	}
	area, _, ok := strings.Cut(text[:end], "/")
	if !ok || !zoneAreas[area] || end > maxZoneName {
		return nil, false
	}
	return c.lookUp(text[:end])
}
