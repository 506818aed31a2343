package scan

import "encoding/binary"

// Fold is the text with the letters A to Z in lower case and every other byte as it is.
func Fold(text string) string {
	for i := range len(text) {
		if foldByte(text[i]) != text[i] {
			out := []byte(text)
			for ; i < len(out); i++ {
				out[i] = foldByte(out[i])
			}
			return string(out)
		}
	}
	return text
}

func foldByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b | 0x20
	}
	return b
}

// repeated is a word of 8 equal bytes when multiplied by a byte.
const repeated = 0x0101010101010101

// roughFold sets bit 5 of each byte: letters lose their case, and some other bytes become equal too.
const roughFold = 0x20 * repeated

// foldWord is foldByte for each of 8 bytes. The additions cannot carry into the next byte, because the top bits are
// masked; they set the top bit of a byte that is at least 'A', or greater than 'Z'.
func foldWord(w uint64) uint64 {
	low := w & (0x7f * repeated)
	atLeastA := low + (0x80-'A')*repeated
	afterZ := low + (0x7f-'Z')*repeated
	upper := (atLeastA ^ afterZ) & ^w & (0x80 * repeated)
	return w | upper>>2
}

// load is the first 8 bytes of a text that has as many, the first one lowest. The compiler makes it one instruction.
func load(t string) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// loadShort is load for a text of any length, as if zeros followed.
func loadShort(t string) uint64 {
	if len(t) >= 8 {
		return load(t)
	}
	var word [8]byte
	copy(word[:], t)
	return binary.LittleEndian.Uint64(word[:])
}

// hasFoldedPrefix reports whether the folded text begins with needle, which is folded, and how many words it compared.
func hasFoldedPrefix(text, needle string) (ok bool, words int) {
	if len(text) < len(needle) {
		return false, 1
	}
	for ; len(needle) >= 8; text, needle = text[8:], needle[8:] {
		words++
		if foldWord(load(text)) != load(needle) {
			return false, words
		}
	}
	return foldWord(loadShort(text[:len(needle)])) == loadShort(needle), words + 1
}
