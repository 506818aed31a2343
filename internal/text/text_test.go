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
		{"terminal colours lose their power", "\x1b[31mred\x1b[0m", "red"},
		{"direction marks go", "abc\u202egnp.exe", "abcgnp.exe"},
		{"text in tag characters, variation selectors and fillers goes", "a\U000E0041\U000E0042b\uFE0F\U000E0100c\u3164\u200Bd\uE000", "abcd"},
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

func TestLines(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"lines and their indentation stay", "{\r\n\t\"a\": 1\n}", "{\n\t\"a\": 1\n}"},
		{"the separators of Unicode are lines too", "a\u2028b\u2029c\vd", "a\nb\nc\nd"},
		{"terminal sequences and control characters go", "\x1b[2Ja\x00\x07b\u009b", "ab"},
		{"a title that a terminal would show goes", "\x1b]0;title\x07a", "a"},
		{"characters that show nothing go", "a\u202e\u200d\U000E0041b", "ab"},
		{"a long text is cut and says so", strings.Repeat("x\n", 20), "x\nx\nx\nx\nx\nx\nx\nx\nx…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Lines(tc.in, 20); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\xffb", 3)
	f.Add("é…\u202e", 4)
	f.Add("\x1b]0;a\x1b[1m\u200b", 9)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1000
		if limit < 0 {
			limit = -limit
		}
		for _, got := range []string{Plain(s, limit), Cut(s, limit), Lines(s, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Errorf("%q is invalid or longer than %d bytes", got, limit)
			}
		}
	})
}
