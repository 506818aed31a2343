package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// volatile are the kinds of parts that change between repeats of one failure.
var volatile = []func(r *rand.Rand) string{
	func(r *rand.Rand) string {
		return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>20, r.Uint32()>>20, r.Uint64()>>16)
	},
	func(r *rand.Rand) string { return fmt.Sprintf("0x%x", r.Uint64()) },
	func(r *rand.Rand) string { return fmt.Sprintf("c%039d", r.Uint64()) },
	func(r *rand.Rand) string { return fmt.Sprint(r.IntN(1 << (1 + r.IntN(30)))) },
	func(r *rand.Rand) string { return fmt.Sprintf("%d.%02d%%", r.IntN(100), r.IntN(100)) },
	func(r *rand.Rand) string {
		return fmt.Sprintf("%d%s", r.IntN(1000), []string{"ms", "s", "m", "h"}[r.IntN(4)])
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02d.%03dZ", 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("10.%d.%d.%d:%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(65536))
	},
	func(r *rand.Rand) string { return fmt.Sprintf("2001:db8::%x:%x", 1+r.IntN(9), 1+r.IntN(0xfffe)) },
	func(r *rand.Rand) string {
		return fmt.Sprintf("https://h%d.example.org:%d/v1/items?q=%x", r.IntN(99), 1+r.IntN(9999), r.Uint32())
	},
	func(r *rand.Rand) string { return fmt.Sprintf("/tmp/run-%d/out.%d", r.IntN(99), r.IntN(99)) },
	func(r *rand.Rand) string {
		return fmt.Sprintf(`C:\Users\u%d\AppData\Local\Temp\%x.txt`, r.IntN(99), r.Uint32())
	},
	func(r *rand.Rand) string { return fmt.Sprintf("'value %x'", r.Uint32()) },
	func(r *rand.Rand) string { return fmt.Sprintf("user%d@mail-%d.example.com", r.IntN(999), r.IntN(9)) },
	func(r *rand.Rand) string {
		return fmt.Sprintf("db-%d.shop-%d.svc.cluster.local:%d", r.IntN(99), r.IntN(9), r.IntN(9999))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("%d %s", r.IntN(9999), []string{"MB", "KiB", "bytes"}[r.IntN(3)])
	},
	func(r *rand.Rand) string { return fmt.Sprintf("req-%05d", r.IntN(99999)) },
	func(r *rand.Rand) string { return fmt.Sprintf("tool:%d", 1+r.IntN(65535)) },
}

// telling are parts that tell failures apart.
var telling = []string{"refused", "exit status 1", "exit status 137", "ORA-00942", "ORA-01017", "HTTP 502", "HTTP 403", "SQLSTATE 42P01",
	"errno 111", "errno 104", "code -32602", "code -32601", "TS2304", "denied", "NullPointer"}

// message is made of the words, with a volatile part of a kind behind each, and now and then in another case or colour.
func message(r *rand.Rand, words []string, kinds []int) string {
	var b strings.Builder
	for i, word := range words {
		switch r.IntN(4) {
		case 0:
			word = strings.ToUpper(word)
		case 1:
			word = "\x1b[31m" + word + "\x1b[0m"
		}
		b.WriteString(word + " on " + volatile[kinds[i]](r) + "; ")
	}
	return b.String()
}

// TestVolatileParts: two failures that differ only in volatile parts have one fingerprint, and another failure has
// another one.
func TestVolatileParts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for range 3000 {
		words, kinds := make([]string, 1+r.IntN(6)), make([]int, 6)
		for i := range words {
			words[i], kinds[i] = telling[r.IntN(len(telling))], r.IntN(len(volatile))
		}
		one, two := message(r, words, kinds), message(r, words, kinds)
		if Of([]string{"E"}, one) != Of([]string{"E"}, two) {
			t.Fatalf("told apart:\n%q: %q\n%q: %q", one, Normalise(one), two, Normalise(two))
		}
		at := r.IntN(len(words))
		before := words[at]
		for words[at] == before {
			words[at] = telling[r.IntN(len(telling))]
		}
		if other := message(r, words, kinds); Of([]string{"E"}, one) == Of([]string{"E"}, other) {
			t.Fatalf("taken for one:\n%q\n%q: %q", one, other, Normalise(other))
		}
	}
}
