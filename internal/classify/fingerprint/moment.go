package fingerprint

import "strings"

func set(list string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		words[word] = true
	}
	return words
}

var (
	units = set("ns us µs μs ms msec msecs millis millisecond milliseconds s sec secs second seconds m min mins minute minutes " +
		"h hr hrs hour hours d day days w week weeks month months year years")
	weekdays = set("mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday tues thur thurs")
	months   = set("jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august " +
		"september october november december")
	ordinals  = set("st nd rd th")
	zoneNames = set("z utc gmt pt pst pdt et est edt ct cst cdt mt mst mdt cet cest bst jst ist")
)

// maxKnown is the length of the longest of these words, in bytes.
const maxKnown = 12

// known reports whether a word, in any case, is one of a set.
func known(words map[string]bool, word string) bool {
	var buffer [maxKnown]byte
	if len(word) > len(buffer) {
		return false
	}
	for i := range len(word) {
		buffer[i] = lower(word[i])
	}
	return words[string(buffer[:len(word)])]
}

// durationAt is the length of a duration at the beginning of a text, or 0: 1m30.5s, 174ms, 12 s, 6hr 29min.
func durationAt(text string) int {
	end, at := 0, 0
	for {
		stop := digitsEnd(text, at)
		if stop == at {
			return end
		}
		if stop+1 < len(text) && text[stop] == '.' && isDigit(text[stop+1]) {
			stop = digitsEnd(text, stop+1)
		}
		if strings.HasPrefix(text[stop:], " ") {
			stop++
		}
		unit := unitEnd(text[stop:])
		if !known(units, text[stop:stop+unit]) {
			return end
		}
		at = stop + unit
		if at == len(text) || !isWord(text[at]) {
			end = at
			if strings.HasPrefix(text[at:], " ") {
				at++
			}
		}
	}
}

// unitEnd is the length of a run of letters, to which the sign for micro belongs.
func unitEnd(text string) int {
	end := 0
	for end < len(text) && end <= maxKnown {
		switch {
		case isLetter(text[end]):
			end++
		case strings.HasPrefix(text[end:], "µ") || strings.HasPrefix(text[end:], "μ"):
			end += len("µ")
		default:
			return end
		}
	}
	return end
}

// momentAt is the length of a date, a time of the day or both at the beginning of a text, or 0.
func momentAt(text string) int {
	if end := compactAt(text); end > 0 {
		return end
	}
	if end := numericDateAt(text); end > 0 {
		clock := end
		if clock+1 < len(text) && strings.IndexByte("tT _", text[clock]) >= 0 && isDigit(text[clock+1]) {
			if length := clockAt(text[clock+1:], true); length > 0 {
				return clock + 1 + length
			}
		}
		if end < len(text) && isWord(text[end]) {
			return 0
		}
		return end
	}
	if end := calendarAt(text); end > 0 {
		return end
	}
	return clockAt(text, false)
}

// compactAt reads 20260617T100000Z (ISO 8601 without separators).
func compactAt(text string) int {
	if digitsEnd(text, 0) != 8 || len(text) < 15 || lower(text[8]) != 't' || digitsEnd(text, 9) != 15 {
		return 0
	}
	end := 15
	if end < len(text) && lower(text[end]) == 'z' {
		end++
	}
	if end < len(text) && isWord(text[end]) {
		return 0
	}
	return end
}

// numericDateAt reads 2026-06-17, 2026/06/17, 17.06.2026 and 6/17/2026.
func numericDateAt(text string) int {
	first := digitsEnd(text, 0)
	if first == 0 || first > 4 || first == 3 || first >= len(text) || strings.IndexByte("-/.", text[first]) < 0 {
		return 0
	}
	second := digitsEnd(text, first+1)
	if second == first+1 || second > first+3 || second >= len(text) || text[second] != text[first] {
		return 0
	}
	third := digitsEnd(text, second+1)
	year, day := first, third-second-1
	if first < 4 {
		year, day = day, first
	}
	if year != 4 || day < 1 || day > 2 {
		return 0
	}
	return third
}

// clockAt reads 08:10:20.5Z, 8:10 pm and 08:10 UTC. Hours and minutes alone could be a line and a column, unless a
// date stands before.
func clockAt(text string, dated bool) int {
	hour := digitsEnd(text, 0)
	if hour == 0 || hour > 2 || hour >= len(text) || text[hour] != ':' || digitsEnd(text, hour+1) != hour+3 {
		return 0
	}
	end, sure := hour+3, dated
	if end < len(text) && text[end] == ':' && digitsEnd(text, end+1) == end+3 {
		end, sure = end+3, true
		if end+1 < len(text) && (text[end] == '.' || text[end] == ',') && isDigit(text[end+1]) {
			end = digitsEnd(text, end+1)
		}
	}
	if zone := zoneAt(text[end:]); zone > 0 {
		return end + zone
	}
	if !sure || end < len(text) && isWord(text[end]) {
		return 0
	}
	return end
}

// zoneAt is the length of what may follow a time: am, pm, a zone's name, an offset.
func zoneAt(text string) int {
	at := 0
	if strings.HasPrefix(text, " ") {
		at = 1
	}
	if at < len(text) && (text[at] == '+' || text[at] == '-') {
		end := digitsEnd(text, at+1)
		if end == at+3 && end < len(text) && text[end] == ':' {
			end = digitsEnd(text, end+1)
		}
		if length := end - at; (length == 5 || length == 6 || length == 3 && at == 0) && (end == len(text) || !isWord(text[end])) {
			return end
		}
		return 0
	}
	end := at + wordEnd(text[at:])
	word := text[at:end]
	switch {
	case known(zoneNames, word):
		return end
	case len(word) == 2 && lower(word[1]) == 'm' && (lower(word[0]) == 'a' || lower(word[0]) == 'p'):
		return end + zoneAt(text[end:])
	}
	return 0
}

// calendarAt reads dates with the names of months and weekdays: Wed, 17 Jun 2026 08:02:00 GMT (RFC 9110), Jun 17
// 08:02:00 (syslog), 17/Jun/2026:08:02:00 +0000 (web servers), Wed Jun 17 08:02:00 UTC 2026 (date).
func calendarAt(text string) int {
	const most = 8
	at, end, numbers := 0, 0, 0
	month, weekday, clocked := false, false, false
	for range most {
		stop := at + wordEnd(text[at:])
		word := text[at:stop]
		clock := clockAt(text[at:], true)
		switch {
		case clock > 0:
			stop = at + clock
			numbers, clocked = numbers+1, true
		case word == "may": // more often a verb than a month; months have a capital
			stop = at
		case known(months, word):
			month = true
		case known(weekdays, word):
			weekday = true
		case numbers > 0 && (month || weekday) && known(zoneNames, word):
		case word != "" && len(word) <= 4 && digitsEnd(word, 0) == len(word), isOrdinal(word):
			numbers++
		default:
			stop = at
		}
		if stop == at {
			break
		}
		end, at = stop, stop
		for at < len(text) && at < stop+2 && strings.IndexByte(", /-:", text[at]) >= 0 {
			at++
		}
		if numbers > 1 && !month && !weekday {
			return 0
		}
	}
	if month && numbers > 0 || weekday && clocked {
		return end
	}
	return 0
}

// isOrdinal reports whether a word is one like 17th.
func isOrdinal(word string) bool {
	digits := digitsEnd(word, 0)
	return digits > 0 && digits <= 2 && known(ordinals, word[digits:])
}
