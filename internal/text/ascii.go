package text

// IsASCII reports whether a text is ASCII alone. It reads 32 bytes at a time: bodies are long, and this is asked before
// anything else is read of them.
func IsASCII(s string) bool { return asciiPrefix(s) == len(s) }

// asciiPrefix is the length of a beginning of a text that is ASCII alone: all of it, or what stands before the first
// character that is not, less up to 31 bytes.
func asciiPrefix(s string) int {
	const high = 0x8080808080808080
	i := 0
	for ; len(s)-i >= 32; i += 32 {
		if (Word(s[i:])|Word(s[i+8:])|Word(s[i+16:])|Word(s[i+24:]))&high != 0 {
			return i
		}
	}
	for ; i < len(s); i++ {
		if s[i] >= 0x80 {
			return i
		}
	}
	return i
}

// Word is the first eight bytes of a text, which has as many, in a form that compiles to one load.
func Word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
