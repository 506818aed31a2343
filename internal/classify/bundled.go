package classify

import (
	_ "embed"
	"fmt"
	"sync"
)

//go:embed error-patterns.yaml
var bundledFile []byte

// Bundled is the deepest level of the cascade: the rules that the binary brings along. Its entries are shared;
// the caller may change the slice, not what they point to.
func Bundled() Layer {
	return Layer{Name: "bundled", Entries: append([]Entry(nil), bundledEntries()...)}
}

// bundledEntries reads the embedded file once. A file with a fault never leaves the tests, so it panics.
var bundledEntries = sync.OnceValue(func() []Entry {
	entries, problems := Parse(bundledFile)
	if len(problems) > 0 {
		panic(fmt.Sprintf("classify: the embedded error-patterns.yaml: %v", problems))
	}
	return entries
})
