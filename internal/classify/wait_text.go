package classify

import (
	"math"
	"strconv"
	"time"
)

const (
	// maxBefore is how many words before the one that announces a wait may decide what it means.
	maxBefore = 6
	// maxLookups bounds how many time zones are looked up for one text. More are no error message, but an attempt
	// to make this slow.
	maxLookups = 16
)

// textWait is the longest wait that a text states. It reads the text once, word by word, and from each word that
// may announce a wait a bounded number of lexemes ahead, so that its cost grows with the text's length alone.
func textWait(text string, at time.Time) (longest time.Duration, ok bool) {
	text = text[:min(len(text), maxWaitText)]
	var before [maxBefore]string // the sentence's last words, the latest first
	lookups := maxLookups
	for l := lex(text, 0); l.kind != lexEnd; l = lex(text, l.end) {
		switch {
		case l.kind == lexMark && (l.mark == '.' || l.mark == '!' || l.mark == '?' || l.mark == ';'):
			before = [maxBefore]string{}
		case l.kind == lexWord:
			if p, announces := phrases[l.word]; announces && p.allows(&before) {
				c := cursor{text: text, at: l.end, lookups: &lookups}
				if wait, stated := p.value(&c, at); stated {
					longest, ok = max(longest, wait), true
				}
			}
			copy(before[1:], before[:maxBefore-1])
			before[0] = l.word
		}
	}
	return longest, ok
}

// allows reports whether the words before are such that the phrase announces a wait.
func (p *phrase) allows(before *[maxBefore]string) bool {
	if p.unless[before[0]] || p.unless[before[1]] {
		return false
	}
	if p.needs == nil {
		return true
	}
	for _, word := range before {
		if p.needs[word] {
			return true
		}
	}
	return false
}

// value reads what the phrase announces.
func (p *phrase) value(c *cursor, at time.Time) (time.Duration, bool) {
	c.skipWords(p.fillers, 6)
	how := p.direct
	link := c.peek()
	if link.kind == lexWord && p.links[link.word] != 0 {
		how = p.links[link.word]
		// In retryAfter the unit of a bare number is anybody's guess: many JavaScript programs mean milliseconds.
		if link.start > 0 && isAlphanumeric(c.text[link.start-1]) {
			how &^= bareSeconds
		}
		c.at = link.end
	}
	if how == 0 {
		return 0, false
	}
	c.skipWords(qualifiers, 6)
	if how&absolute != 0 {
		start := *c
		if until, ok := c.instant(at); ok {
			return ahead(until, at)
		}
		*c = start
	}
	if how&relative == 0 {
		return 0, false
	}
	if how == relative {
		if wait, ok := c.clockSpan(); ok {
			return wait, true
		}
	}
	return c.span(how&bareSeconds != 0)
}

// units are the words for lengths of time.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond, "millis": time.Millisecond,
	"millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// span reads a duration: 12 s, 6hr 29min, 1 minute and 30 seconds, an hour, 5-10 minutes (the longer counts),
// or a name with its unit, seconds": 35. A number without a unit is one of seconds, if allowed.
func (c *cursor) span(bare bool) (time.Duration, bool) {
	if unit, ok := c.unit(); ok {
		c.skipWords(nil, 4)
		n := c.peek()
		c.at = n.end
		return amount(n, unit), n.kind == lexNumber && c.endsNumber()
	}
	if _, ok := c.take(articles); ok {
		if unit, ok := c.unit(); ok {
			return unit, true
		}
		c.skipWords(qualifiers, 4) // a minimum of
	}
	total, last := time.Duration(0), time.Duration(math.MaxInt64)
	for first := true; ; first = false {
		start := *c
		part, unit, ok := c.part()
		switch {
		case ok && unit < last:
			total, last = sum(total, part), unit
		case first && bare && c.number(start):
			return part, true
		default:
			*c = start
			return total, !first
		}
		after := *c
		c.mark(',')
		c.take(between)
		if c.peek().kind != lexNumber {
			*c = after
			return total, true
		}
	}
}

// part reads a number and its unit. Without a unit the number stands for seconds, and ok is false.
func (c *cursor) part() (part, unit time.Duration, ok bool) {
	n := c.peek()
	if n.kind != lexNumber {
		return 0, 0, false
	}
	c.at = n.end
	after := *c
	if _, isTo := c.take(toWord); isTo || c.mark('-') || c.mark('–') {
		if to := c.peek(); to.kind == lexNumber {
			n, c.at = to, to.end
		} else {
			*c = after
		}
	}
	c.take(more)
	if unit, ok = c.unit(); ok {
		return amount(n, unit), unit, len(n.whole) <= maxDelta
	}
	return amount(n, time.Second), time.Second, false
}

// number reports whether just one number was read since a place, one that can be seconds and nothing else.
func (c *cursor) number(since cursor) bool {
	n := since.peek()
	return n.kind == lexNumber && n.end == c.at && len(n.whole) <= maxDelta && c.endsNumber()
}

// endsNumber reports whether the number that was just read is complete and counts nothing: "after 3 attempts".
func (c *cursor) endsNumber() bool {
	l := c.peek()
	return l.kind != lexWord && l.kind != lexNumber && l.mark != '%' && l.mark != '/' && l.mark != '-'
}

func (c *cursor) unit() (time.Duration, bool) {
	l := c.peek()
	unit, ok := units[l.word]
	if l.kind != lexWord || !ok {
		return 0, false
	}
	c.at = l.end
	return unit, true
}

// clockSpan reads hours, minutes and seconds, as in 03:29:00. Two numbers alone could be either.
func (c *cursor) clockSpan() (time.Duration, bool) {
	start := *c
	total := time.Duration(0)
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		n := c.peek()
		if n.kind != lexNumber || len(n.whole) > 3 || i > 0 && (len(n.whole) != 2 || n.whole[0] > '5') {
			*c = start
			return 0, false
		}
		total += amount(n, unit)
		c.at = n.end
		if i < 2 && !c.mark(':') {
			*c = start
			return 0, false
		}
	}
	return total, true
}

// amount is a number of units, or the longest duration there is.
func amount(n lexeme, unit time.Duration) time.Duration {
	whole, err := strconv.ParseInt(n.whole, 10, 64)
	if err != nil || whole > int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return sum(time.Duration(whole)*unit, fractionOf(n.fraction, unit))
}

// sum adds two durations that are not negative.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
