package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Frame puts data that strangers wrote between two lines that it cannot contain, so that it cannot end its frame and go
// on as somebody else. source names it in our own words. The same data always gets the same lines.
func Frame(source, data string) string {
	tag := tagFor(data)
	return fmt.Sprintf("<data %s %s>\n%s\n</data %s>", tag, source, strings.Trim(data, "\n"), tag)
}

// tagFor returns a word that data does not contain. It is a hash, so whoever writes the data can hardly know it beforehand.
func tagFor(data string) string { return tagFrom(sha256.Sum256([]byte(data)), strings.ToLower(data)) }

// tagFrom returns the first tag, beginning with that of sum, that data does not contain.
func tagFrom(sum [sha256.Size]byte, data string) string {
	for {
		tag := hex.EncodeToString(sum[:4])
		if !strings.Contains(data, tag) {
			return tag
		}
		sum = sha256.Sum256(sum[:])
	}
}

// Unframe returns what Frame was given; content that is not framed as it is.
func Unframe(content string) string {
	first, rest, _ := strings.Cut(content, "\n")
	words := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(first, "<data "), ">"))
	if !strings.HasPrefix(first, "<data ") || len(words) == 0 {
		return content
	}
	data, closed := strings.CutSuffix(rest, "\n</data "+words[0]+">")
	if !closed {
		return content
	}
	return data
}
