package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain text stays as it is", "gateway answers 502", "gateway answers 502"},
		{"lines become one line", "a\r\n\tb\n\n c ", "a b c"},
		{"terminal colours lose their power", "\x1b[31mred", "[31mred"},
		{"direction marks go", "abc\u202egnp.exe", "abcgnp.exe"},
		{"invalid bytes go", "a\xff\xfeb", "ab"},
		{"a long text is cut and says so", strings.Repeat("x", 40), strings.Repeat("x", 17) + "…"},
		{"a cut never halves a character", strings.Repeat("é", 20), strings.Repeat("é", 8) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Plain(tc.in, 20); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\xffb", 3)
	f.Add("é…\u202e", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1000
		if limit < 0 {
			limit = -limit
		}
		for _, got := range []string{Plain(s, limit), Cut(s, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Errorf("%q is invalid or longer than %d bytes", got, limit)
			}
		}
	})
}
