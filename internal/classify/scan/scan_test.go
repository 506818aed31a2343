package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asciiLower is what Fold is documented to do, written down once more.
func asciiLower(text string) string {
	out := []byte(text)
	for i, b := range out {
		if j := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZ", b); j >= 0 {
			out[i] = "abcdefghijklmnopqrstuvwxyz"[j]
		}
	}
	return string(out)
}

// occurring is the oracle: the ids of the needles that occur, by one search for each.
func occurring(needles []string, text string) []int {
	ids := []int{}
	lowered := asciiLower(text)
	for id, needle := range needles {
		if strings.Contains(lowered, asciiLower(needle)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func foundIDs(s *Set, found *Found) []int {
	ids := []int{}
	for id := range s.Len() {
		if found.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkAgainstOracle compares the set as it is, with the automaton alone, and with each filter for short needles.
func checkAgainstOracle(t *testing.T, needles []string, text string) {
	t.Helper()
	want := occurring(needles, text)
	set := Compile(needles)
	automatonOnly := *set
	automatonOnly.filters = nil
	var found Found
	sets := map[string]*Set{"set": set, "automaton alone": &automatonOnly}
	if len(set.unique) > 0 && len(slices.MinFunc(set.unique, func(a, b string) int { return len(a) - len(b) })) >= gramWindow {
		sets["pairs"] = set.with(plan{window: pairWindow, stride: pairStride, pairs: true})
		sets["grams"] = set.with(plan{window: gramWindow, stride: 1, grams: true})
	}
	for name, s := range sets {
		s.Find(text, &found)
		if diff := cmp.Diff(want, foundIDs(s, &found)); diff != "" {
			t.Errorf("%s: needles %q in %q (-want +got):\n%s", name, needles, text, diff)
		}
	}
}

// with is the set with one filter for all of its needles.
func (s *Set) with(p plan) *Set {
	all := make([]int32, len(s.unique))
	for id := range all {
		all[id] = int32(id)
	}
	other := *s
	other.filters = []*filter{newFilter(s.unique, tier{plan: p, ids: all})}
	return &other
}

func TestFind(t *testing.T) {
	long := strings.Repeat("a quiet line of a log that says nothing. ", 50)
	cases := map[string]struct {
		needles []string
		text    string
		want    []int
	}{
		"no needles":                         {nil, "text", []int{}},
		"no text":                            {[]string{"timeout"}, "", []int{}},
		"the empty needle occurs anywhere":   {[]string{"", "timeout"}, "", []int{0}},
		"only the empty needle":              {[]string{""}, "x", []int{0}},
		"a text that is the needle":          {[]string{"rate limit"}, "rate limit", []int{0}},
		"a text one byte too short":          {[]string{"rate limit"}, "rate limi", []int{}},
		"letter case is ignored both ways":   {[]string{"Rate LIMIT", "econnrefused"}, "raTe liMit: ECONNREFUSED", []int{0, 1}},
		"a needle given twice":               {[]string{"quota", "QUOTA", "other"}, "over Quota", []int{0, 1}},
		"a needle within another":            {[]string{"limit", "rate limit exceeded", "exceeded", "rate"}, "rate limit exceeded", []int{0, 1, 2, 3}},
		"overlapping needles":                {[]string{"abcabc", "cabcab", "bcabca"}, "xabcabcabx", []int{0, 1, 2}},
		"at the end of a long text":          {[]string{"token expired", "token revoked"}, long + "Token Expired", []int{0}},
		"at the start of a long text":        {[]string{"token expired", "token revoked"}, "Token Expired" + long, []int{0}},
		"one byte only":                      {[]string{"q", "quiet", "z"}, long, []int{0, 1}},
		"two bytes":                          {[]string{"qu", "zz"}, long, []int{0}},
		"bit 5 alone makes nothing equal":    {[]string{"[error]", "user@host", "a b"}, "{error} user`host a\x00b", []int{}},
		"bit 5 alone, longer than a word":    {[]string{"[error] user@host"}, "{error} user`host", []int{}},
		"neighbours of the letters":          {[]string{"@@@@", "[[[[", "````", "{{{{"}, "@@@@ {{{{", []int{0, 3}},
		"other scripts compare exactly":      {[]string{"zugriff verweigert für", "ÉCHEC"}, "Zugriff verweigert FÜR échec", []int{}},
		"other scripts in the same case":     {[]string{"verweigert für", "échec", "失敗しました"}, "Verweigert für Échec échec 失敗しました", []int{0, 1, 2}},
		"the Kelvin sign is no k":            {[]string{"kelvin"}, "\u212aelvin", []int{}},
		"invalid UTF-8 compares exactly":     {[]string{"\xff\xfe\xfd\xfc", "\xff\xfe\xfd\xfb", "\ufffd"}, "a\xff\xfe\xfd\xfcb", []int{0}},
		"NUL is a byte like others":          {[]string{"a\x00b\x00", "a\x00\x00\x00"}, "xa\x00b\x00", []int{0}},
		"the text's end is not padded":       {[]string{"end\x00", "end ", "the end\x00\x00"}, "the end", []int{}},
		"every byte value in needles":        {[]string{everyByte(), "yz{|"}, "." + everyByte() + ".", []int{0, 1}},
		"the longest allowed needle":         {[]string{strings.Repeat("x", 255) + "y", strings.Repeat("x", 256)}, strings.Repeat("x", 300) + "Y", []int{0, 1}},
		"found although the budget is spent": {[]string{"abababababac", "bababababad"}, strings.Repeat("ab", 9000) + "ac" + strings.Repeat("ba", 9000) + "d", []int{0, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var found Found
			s := Compile(tc.needles)
			s.Find(tc.text, &found)
			if diff := cmp.Diff(tc.want, foundIDs(s, &found)); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			checkAgainstOracle(t, tc.needles, tc.text)
		})
	}
}

func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

func TestFoundIsUsedAgain(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("needle number %d", i)
	}
	first, second := Compile(many), Compile([]string{"rate limit"})
	var found Found
	first.Find("needle number 199, needle number 77", &found)
	if got, want := foundIDs(first, &found), []int{7, 19, 77, 199, 1}; !sameIDs(got, want) {
		t.Errorf("first search found %v, want %v", got, want)
	}
	second.Find("nothing", &found)
	if found.Has(0) {
		t.Error("what an earlier search found is still there")
	}
	first.Find("needle number 5", &found)
	if got, want := foundIDs(first, &found), []int{5}; !sameIDs(got, want) {
		t.Errorf("third search found %v, want %v", got, want)
	}
}

func sameIDs(a, b []int) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// TestSmallAlphabets finds what the fuzzer finds late: needles that share windows, overlap, and nearly occur.
func TestSmallAlphabets(t *testing.T) {
	for _, alphabet := range []string{"ab", "aAb", "abc\x00", "aB@`[{", "xyz é"} {
		t.Run(alphabet, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(len(alphabet))))
			for range 100 {
				shortest := 1 + random.IntN(20)
				needles := make([]string, 1+random.IntN(40))
				for i := range needles {
					needles[i] = randomText(random, alphabet, shortest+random.IntN(12))
				}
				text := randomText(random, alphabet, random.IntN(400))
				if random.IntN(2) == 0 { // Make sure that a long one occurs now and then.
					at := random.IntN(len(text) + 1)
					text = text[:at] + needles[random.IntN(len(needles))] + text[at:]
				}
				checkAgainstOracle(t, needles, text)
			}
		})
	}
}

func randomText(random *rand.Rand, alphabet string, length int) string {
	out := make([]byte, length)
	for i := range out {
		out[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(out)
}

// TestEveryPlace puts a needle at every place of a text, for sets of every stride, and also where the automaton has
// taken over and handed back.
func TestEveryPlace(t *testing.T) {
	for length := 2; length <= 40; length++ {
		needle := strings.Repeat("Qualified name 0123456789 ", 2)[:length]
		set := Compile([]string{needle, strings.Repeat("other", 9)})
		var found Found
		for place := range 130 {
			text := strings.Repeat(".", place) + needle + strings.Repeat(".", 129-place)
			if set.Find(text, &found); !found.Has(0) || found.Has(1) {
				t.Fatalf("length %d at %d: found is wrong", length, place)
			}
		}
	}
}

func TestEveryPlaceUnderAttack(t *testing.T) {
	needles := []string{"deadline exceeded at last"}
	for i := range 40 {
		needles = append(needles, strings.Repeat("na", 12)+fmt.Sprint(i))
	}
	set := Compile(needles)
	hostile, quiet := strings.Repeat("na", 12_000), strings.Repeat("nothing. ", 3000)
	var found Found
	if spent := set.find(hostile+quiet, &found); spent.transitions == 0 || spent.transitions > len(hostile)*3/2 {
		t.Fatalf("%+v: the budget must be spent, and granted again", spent)
	}
	for place := 0; place < len(hostile); place += 5 {
		text := hostile[:place] + needles[0] + quiet[:500]
		if set.Find(text, &found); !found.Has(0) || found.Has(1) {
			t.Fatalf("at %d: found is wrong", place)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	set := Compile(benchNeedles(1000))
	body := realisticBody(64<<10, 1) + benchNeedles(1000)[3]
	var found Found
	set.Find(body, &found)
	if !found.Has(3) {
		t.Fatal("needle 3 is not found")
	}
	if got := testing.AllocsPerRun(10, func() { set.Find(body, &found) }); got != 0 {
		t.Errorf("%v allocations a search, want 0", got)
	}
}

func TestFoldWord(t *testing.T) {
	for b := range 256 {
		for _, other := range []byte{0, 'A', 'Z', '[', 0x7f, 0x80, 0xc1, 0xff} {
			text := string([]byte{other, byte(b), other, byte(b), byte(b), other, byte(b), other})
			if got, want := foldWord(load(text)), load(asciiLower(text)); got != want {
				t.Fatalf("foldWord of %q is %x, want %x", text, got, want)
			}
			if got, want := Fold(text), asciiLower(text); got != want {
				t.Fatalf("Fold(%q) is %q, want %q", text, got, want)
			}
		}
	}
}
