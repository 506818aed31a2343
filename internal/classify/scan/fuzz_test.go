package scan

import (
	"bytes"
	"strings"
	"testing"
)

// maxFuzzNeedles keeps one execution short.
const maxFuzzNeedles = 64

// FuzzFind compares Find with one search for each needle. The needles are the lines of the first input.
func FuzzFind(f *testing.F) {
	f.Add([]byte("rate limit\nquota exceeded\nexpired_token"), []byte("HTTP 429: Rate Limit reached"), uint16(1))
	f.Add([]byte("a\nab\nabc\nabcd"), []byte("xxABCDxx"), uint16(3))
	f.Add([]byte("abababab\nbabababac\n\n"), []byte("abababababab"), uint16(900))
	f.Add([]byte("na na na !\nnananana?"), []byte("nananana"), uint16(2000))
	f.Add([]byte("\xff\xfe\xfd\xfc\n\xc3\xa9chec"), []byte("\xc3\x89chec \xff\xfe\xfd\xfc"), uint16(2))
	f.Add([]byte("{[]}\n@@@@\nuser@host"), []byte("[{}] ```` user`host"), uint16(5))
	f.Add([]byte("erro\nror:\nrror i\nor in\nn lin"), []byte("error in line, Error: in"), uint16(60))
	f.Add([]byte("quota\nenotfound\ngetaddrinfo\ncertificate has expired"), []byte("getaddrinfo ENOTFOUND api"), uint16(40))
	f.Fuzz(func(t *testing.T, lines, piece []byte, repeat uint16) {
		var needles []string
		for line := range bytes.SplitSeq(lines, []byte("\n")) {
			if len(needles) < maxFuzzNeedles {
				needles = append(needles, string(line))
			}
		}
		// Repetition is what spends the budget.
		text := strings.Repeat(string(piece), 1+int(repeat)%min(2048, 1+(32<<10)/(1+len(piece))))
		checkAgainstOracle(t, needles, text)
	})
}
