package classify

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// maxBefore is how many words before the one that announces a wait may decide what it means.
	maxBefore = 6
	// maxLookups bounds how many time zones are looked up for one text. More are no error message, but an attempt
	// to make this slow.
	maxLookups = 16
)

// rank says how directly a wait is stated: what states one of a higher rank takes no account of a lower one's.
type rank int

const (
	// byRenewal is when an allowance returns: "the monthly usage resets in 20 days". It need not be the one that
	// stopped the call.
	byRenewal rank = iota
	// bySentence is a sentence about when to come back: "try again in 3 s".
	bySentence
	// byName is a named value, which no documentation prose beside it changes: retry_after_seconds: 2.
	byName
	ranks
)

// stated are the longest waits of each rank that texts state.
type stated struct {
	waits [ranks]time.Duration
	// any says whether there is one, for a wait of 0 states that none is needed.
	any bool
}

func (s *stated) add(r rank, wait time.Duration) {
	s.any, s.waits[r] = true, max(s.waits[r], wait)
}

// wait is the longest one of the highest rank that is not 0. A sentence that has a named value's wait in greater
// precision counts too: to call again too early is what a server punishes.
func (s *stated) wait() (time.Duration, bool) {
	switch key, sentence := s.waits[byName], s.waits[bySentence]; {
	case key > 0 && sentence > key && sentence-key < time.Second:
		return sentence, true
	case key > 0:
		return key, true
	case sentence > 0:
		return sentence, true
	}
	return s.waits[byRenewal], s.any
}

// mood is what the words just before say about the verb that follows.
type mood int

const (
	// open: nothing.
	open mood = iota
	// denied: it is not done, or not needed: "do not try", "no longer have to wait".
	denied
	// elsewhere: somebody else does it, or only perhaps: "we will try", "if you wait".
	elsewhere
)

// after is the mood when one more word was read.
func (m mood) after(word string) mood {
	switch {
	case denials[word]:
		return denied
	case others[word] && m != denied:
		return elsewhere
	case adverbs[word] || m == denied && helpers[word]:
		return m
	}
	return open
}

// textWaits adds the waits that a text states. It reads the text once, word by word, and from each word that
// may announce a wait a bounded number of lexemes ahead, so that its cost grows with the text's length alone.
func textWaits(text string, at time.Time, found *stated) {
	text = text[:min(len(text), maxWaitText)]
	var before [maxBefore]string // the sentence's last words, the latest first
	mood, begins := open, true
	lookups := maxLookups
	for l := lex(text, 0); l.kind != lexEnd; l = lex(text, l.end) {
		if l.kind == lexMark {
			switch l.mark {
			case '.', '!', '?', ';':
				before, mood, begins = [maxBefore]string{}, open, true
			case ',', ':', '(', '—', '–':
				mood, begins = open, true
			}
			continue
		}
		if l.kind == lexWord {
			if p, announces := phrases[l.word]; announces && p.allows(&before, mood, begins) {
				c := cursor{text: text, at: l.end, lookups: &lookups}
				if wait, ok := p.value(&c, at); ok {
					found.add(p.rankOf(text[l.end:c.at]), wait)
				}
			}
			copy(before[1:], before[:maxBefore-1])
			before[0] = l.word
		}
		mood, begins = mood.after(l.word), false
	}
}

// allows reports whether the words before are such that the phrase announces a wait. Begins says that the phrase
// begins a clause.
func (p *phrase) allows(before *[maxBefore]string, m mood, begins bool) bool {
	switch {
	case p.unless[before[0]] || p.unless[before[1]]:
		return false
	case m == denied && !p.always, m == elsewhere && p.calls:
		return false
	case p.needs == nil, p.alone && begins:
		return true
	}
	for _, word := range before {
		if p.needs[word] {
			return true
		}
	}
	return false
}

// rankOf is the rank of a phrase, by what stands between its first word and the end of its value. The words of a
// name are joined by a mark or by nothing, and a colon or an equals sign stands before the value.
func (p *phrase) rankOf(text string) rank {
	if p.renews {
		return byRenewal
	}
	end := strings.IndexAny(text, " \t\r\n:=")
	if p.names && end >= 0 && (text[end] == ':' || text[end] == '=') {
		return byName
	}
	return bySentence
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

// endsNumber reports whether the number that was just read is complete and counts nothing: "after 3 attempts". It
// ends with its line, as those of headers do that stand in a text.
func (c *cursor) endsNumber() bool {
	l := c.peek()
	if space := c.text[c.at:l.start]; strings.Contains(space, "\n") || strings.Contains(space, `\n`) {
		return true
	}
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
