package fingerprint

import (
	"slices"
	"strings"
)

// topLevels end the names of hosts: the domains that tools are in, and those that are only used inside a cluster or a
// network. There is no complete list; one would change, and it would take file names and types for hosts.
var topLevels = set("com net org io dev ai cloud info biz edu gov co de ch eu fr uk nl es pl se ca au jp cn br kr sg " +
	"local internal intranet lan home corp cluster svc localdomain localhost example test invalid arpa")

const (
	maxHost  = 253 // RFC 1035
	maxLocal = 64  // RFC 5321: before the @ of an address
)

// hostAt is the length of the name of a host, with its port, at the beginning of a text, or 0: at least two labels, of
// which the last is a known one.
func hostAt(text string) int {
	end, last := labelsEnd(text)
	if last == 0 || !known(topLevels, text[last:end]) || end < len(text) && strings.IndexByte("-_@($", text[end]) >= 0 ||
		placeholderAt(strings.TrimPrefix(text[end:], ".")) != "" { // A longer name, of which a part was replaced before.
		return 0
	}
	return end + portAt(text[end:])
}

// labelsEnd is the length of a dotted name at the beginning of a text, and where its last label begins: 0 where there
// is only one, or the name is too long.
func labelsEnd(text string) (end, last int) {
	for i := range min(len(text), maxHost+1) {
		if i == maxHost {
			return 0, 0
		}
		switch c := text[i]; {
		case isWord(c):
			end = i + 1
		case c == '-' || c == '_':
		case c == '.' && end == i && i > 0 && i+1 < len(text) && isWord(text[i+1]):
			last = i + 1
		default:
			return end, min(last, end)
		}
	}
	return end, min(last, end)
}

// emailAt is the length of an e-mail address at the beginning of a text, or 0.
func emailAt(text string) int {
	at := 0
	for at < min(len(text), maxLocal) && (isWord(text[at]) || strings.IndexByte("._%+-", text[at]) >= 0) {
		at++
	}
	if at == 0 || at == len(text) || text[at] != '@' {
		return 0
	}
	end, last := labelsEnd(text[at+1:])
	if last == 0 {
		return 0
	}
	return at + 1 + end
}

// atNameStart reports whether a name may begin behind the output: it is no part of a longer one, and of no path.
func (n *normaliser) atNameStart() bool {
	last := n.last()
	if last == '>' {
		return !slices.ContainsFunc(placeholders, n.endsWith)
	}
	return !isWord(last) && strings.IndexByte(`-_./\@%+`, last) < 0
}

// windowsTempAt is the length of a temporary path of Windows at the beginning of a text, or 0:
// C:\Users\alice\AppData\Local\Temp\x and C:\Windows\Temp\x.
func windowsTempAt(text string) int {
	if len(text) < 4 || !isLetter(text[0]) || text[1] != ':' || text[2] != '\\' && text[2] != '/' {
		return 0
	}
	end := pieceEnd(text, pathEnds+"\"'`?#=&")
	for from := 3; from < end; {
		name := from
		for name < end && text[name] != '\\' && text[name] != '/' {
			name++
		}
		if known(tempNames, text[from:name]) {
			if name == end && placeholderAt(text[end:]) != "" {
				return 0 // A longer name, of which a part was replaced before.
			}
			return end
		}
		from = name + 1
	}
	return 0
}

// tempNames are the folders of temporary files, and tempVariables what stands for their paths.
var (
	tempNames     = set("temp tmp")
	tempVariables = []string{"%temp%", "%tmp%"}
)

// byteUnits are units of sizes.
var byteUnits = set("byte bytes kb mb gb tb pb kib mib gib tib pib kbyte kbytes mbyte mbytes gbyte gbytes")

// sizeAt is the length of a size in bytes at the beginning of a text, or 0: 12 MB, 3.5GiB, 1,024 bytes.
func sizeAt(text string) int {
	end := groupsEnd(text)
	if end == 0 {
		return 0
	}
	if strings.HasPrefix(text[end:], " ") {
		end++
	}
	unit := wordEnd(text[end:min(len(text), end+maxKnown+1)])
	if !known(byteUnits, text[end:end+unit]) {
		return 0
	}
	return end + unit
}
