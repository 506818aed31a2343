package text

import "strings"

const (
	escape = 0x1b
	bell   = 0x07
)

// StripANSI takes out the escape sequences of terminals (ECMA-48): those that begin with ESC [ up to their final
// character, strings such as titles and links up to BEL or ESC \, and pairs.
func StripANSI(s string) string {
	if strings.IndexByte(s, escape) < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != escape {
			out = append(out, s[i])
			i++
			continue
		}
		i += ansiLength(s[i:])
	}
	return string(out)
}

// ansiLength is the length of the sequence at the beginning of a text. Of one that does not end only the beginning is taken.
func ansiLength(text string) int {
	if len(text) < 2 {
		return 1
	}
	switch {
	case text[1] == '[':
		i := 2
		for i < len(text) && 0x20 <= text[i] && text[i] <= 0x3f {
			i++
		}
		if i < len(text) && 0x40 <= text[i] && text[i] <= 0x7e {
			i++
		}
		return i
	case strings.IndexByte("]PX^_", text[1]) >= 0:
		return stringLength(text)
	case 0x20 <= text[1] && text[1] <= 0x7e:
		return 2
	}
	return 1
}

// stringLength is the length of a control string. No title is long: a longer one is text.
func stringLength(text string) int {
	const most = 512
	for i := 2; i < min(len(text), most); i++ {
		switch {
		case text[i] == bell:
			return i + 1
		case text[i] == escape && i+1 < len(text) && text[i+1] == '\\':
			return i + 2
		case text[i] == escape:
			return i
		}
	}
	return 2
}
