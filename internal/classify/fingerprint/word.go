package fingerprint

import "strings"

const (
	// minHex is the shortest run of hexadecimal digits that is no word: the short form of a Git commit.
	minHex = 7
	// minRandom is the shortest run with a digit that is taken for random whatever its letters.
	minRandom = 20
	// minChanges is how often a random run changes between letters and digits, at least: no name of a
	// protocol or a function does so three times.
	minChanges = 3
)

// take passes over a part that has a length and writes its placeholder.
func (n *normaliser) take(length int, placeholder string) bool {
	if length == 0 {
		return false
	}
	n.at += length
	n.place(placeholder)
	return true
}

// keep writes a part that has a length as it is.
func (n *normaliser) keep(length int) bool {
	if length == 0 {
		return false
	}
	n.emitLower(n.in[n.at : n.at+length])
	n.at += length
	return true
}

// word reads what begins with a letter or a digit.
func (n *normaliser) word(rest string) {
	if n.atNameStart() && (n.take(emailAt(rest), email) || n.take(windowsTempAt(rest), tempPath) || n.take(hostAt(rest), host)) {
		return
	}
	switch {
	case n.keep(n.codeAt(rest)):
	case n.take(uuidAt(rest), uuid):
	case n.take(addressAt(rest), address):
	case n.take(momentAt(rest), moment):
	case n.take(durationAt(rest), duration):
	case n.take(sizeAt(rest), size):
	case n.take(numberAt(rest), number):
	case n.keep(n.joinedCodeAt(rest)):
	default:
		n.plainWord(rest[:wordEnd(rest)])
	}
}

// plainWord reads a run of letters and digits that has no form of its own.
func (n *normaliser) plainWord(run string) {
	n.at += len(run)
	if isRandom(run) || n.behindPodHash() && isPodSuffix(run) {
		n.place(random)
		return
	}
	for i := 0; i < len(run) && !n.full; {
		end := i
		if isDigit(run[i]) {
			i = digitsEnd(run, i)
			n.place(number)
			continue
		}
		for end < len(run) && !isDigit(run[end]) {
			end++
		}
		n.emitLower(run[i:end])
		i = end
	}
}

// behindPodHash reports whether the word that was just read is the last part of a name, behind a random one. Before a
// placeholder it is only the beginning of a part.
func (n *normaliser) behindPodHash() bool {
	return n.endsWith(random+"-") && !strings.HasPrefix(n.in[n.at:], "<")
}

// isRandom reports whether a run was drawn by lot or is hexadecimal, rather than written by a person.
func isRandom(run string) bool {
	digits, hex, changes := 0, len(run) >= minHex, 0
	for i := range len(run) {
		if isDigit(run[i]) {
			digits++
		}
		hex = hex && isHex(run[i])
		if i > 0 && isDigit(run[i]) != isDigit(run[i-1]) {
			changes++
		}
	}
	prefixed := len(run) > 2 && run[0] == '0' && lower(run[1]) == 'x' && strings.Trim(run[2:], "0123456789abcdefABCDEF") == ""
	return len(run) > maxWord || prefixed || digits > 0 && (hex || changes >= minChanges || len(run) >= minRandom)
}

// isPodSuffix reports whether a run may be what Kubernetes ends the names of pods with: five characters of an
// alphabet without vowels, so that they may be letters alone.
func isPodSuffix(run string) bool {
	return len(run) == 5 && strings.Trim(run, "bcdfghjklmnpqrstvwxz2456789BCDFGHJKLMNPQRSTVWXZ") == ""
}

// uuidAt is the length of a UUID (RFC 9562) at the beginning of a text, or 0.
func uuidAt(text string) int {
	const length = 36
	if len(text) < length || len(text) > length && isWord(text[length]) {
		return 0
	}
	hasDigit := false
	for i := range length {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if text[i] != '-' {
				return 0
			}
		case !isHex(text[i]):
			return 0
		}
		hasDigit = hasDigit || isDigit(text[i])
	}
	if !hasDigit {
		return 0
	}
	return length
}

// addressAt is the length of an IP or hardware address, with its port, at the beginning of a text, or 0.
func addressAt(text string) int {
	if end := ipv4At(text); end > 0 {
		return end + portAt(text[end:])
	}
	return colonAddressAt(text)
}

func ipv4At(text string) int {
	end := 0
	for group := range 4 {
		stop := digitsEnd(text, end)
		if stop == end || stop > end+3 {
			return 0
		}
		end = stop
		if group == 3 {
			break
		}
		if end >= len(text) || text[end] != '.' {
			return 0
		}
		end++
	}
	if end < len(text) && (isWord(text[end]) || text[end] == '.' && digitsEnd(text, end+1) > end+1) {
		return 0
	}
	return end
}

// portAt is the length of a port with its colon.
func portAt(text string) int {
	if text == "" || text[0] != ':' {
		return 0
	}
	end := digitsEnd(text, 1)
	if end == 1 || end > 6 || end < len(text) && isWord(text[end]) {
		return 0
	}
	return end
}

// colonAddressAt reads groups of hexadecimal digits between colons: eight, or fewer with a double colon, in an IPv6
// address (RFC 4291); six pairs in a hardware address. Without a digit it would be indistinguishable from names.
func colonAddressAt(text string) int {
	const mostGroups = 8
	groups, double, pairs, hasDigit, end := 0, false, true, false, 0
	for {
		stop := end
		for stop < len(text) && isHex(text[stop]) {
			hasDigit = hasDigit || isDigit(text[stop])
			stop++
		}
		if stop > end+4 || stop < len(text) && isWord(text[stop]) {
			return 0
		}
		pairs = pairs && stop == end+2
		if stop > end {
			groups++
		}
		end = stop
		if end >= len(text) || text[end] != ':' || groups > mostGroups {
			break
		}
		if strings.HasPrefix(text[end:], "::") {
			if double {
				return 0
			}
			double = true
			end++
		} else if end == 0 || end+1 >= len(text) || !isHex(text[end+1]) {
			break
		}
		end++
	}
	complete := double && groups < mostGroups || groups == mostGroups || groups == 6 && pairs
	if !hasDigit || !complete {
		return 0
	}
	if strings.HasPrefix(text[end:], "%") {
		end += 1 + wordEnd(text[end+1:])
	}
	return end
}

// numberAt is the length of a number with its groups and fraction, or of a version, at the beginning of a text, or 0.
func numberAt(text string) int {
	end := groupsEnd(text)
	if end == 0 {
		return 0
	}
	if end < len(text) && lower(text[end]) == 'e' {
		exponent := end + 1
		if exponent < len(text) && (text[exponent] == '-' || text[exponent] == '+') {
			exponent++
		}
		if stop := digitsEnd(text, exponent); stop > exponent {
			end = stop
		}
	}
	if end < len(text) && isWord(text[end]) {
		return 0
	}
	return end
}

// groupsEnd is the length of a number with its groups and fraction, without an exponent.
func groupsEnd(text string) int {
	end := digitsEnd(text, 0)
	for end > 0 && end+1 < len(text) && (text[end] == '.' || text[end] == ',') && isDigit(text[end+1]) {
		end = digitsEnd(text, end+1)
	}
	return end
}

func digitsEnd(text string, at int) int {
	for at < len(text) && isDigit(text[at]) {
		at++
	}
	return at
}

func wordEnd(text string) int {
	end := 0
	for end < len(text) && isWord(text[end]) {
		end++
	}
	return end
}
