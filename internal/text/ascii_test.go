package text

import (
	"strings"
	"testing"
)

func TestIsASCII(t *testing.T) {
	plain := strings.Repeat("a", 70)
	if !IsASCII(plain) || !IsASCII("") {
		t.Error("plain text is not ASCII")
	}
	for i := range plain {
		if text := plain[:i] + "\x80" + plain[i+1:]; IsASCII(text) {
			t.Errorf("a high byte at %d is overlooked", i)
		}
	}
}
