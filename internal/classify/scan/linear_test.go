package scan

import (
	"strings"
	"testing"
)

// TestWorkIsLinear counts steps instead of time, so that its answer is always the same.
func TestWorkIsLinear(t *testing.T) {
	sharedWindows := []string{"aaaaaaaaaaaaaaaab", "baaaaaaaaaaaaaaaa"}
	for i := range 60 {
		sharedWindows = append(sharedWindows, strings.Repeat("na", 8+i)+"!")
	}
	body := realisticBody(64<<10, 1)
	sets := map[string][]string{
		"12 phrases":                   benchNeedles(12),
		"1000 phrases":                 benchNeedles(1000),
		"1000 phrases and a short one": append(benchNeedles(1000), "eof?"),
		"12 phrases and a short one":   append(benchNeedles(12), "eof?"),
		"needles that share windows":   sharedWindows,
		"12 parts of words":            cutNeedles(12, body),
		"1000 parts of words":          cutNeedles(1000, body),
	}
	for setName, needles := range sets {
		set := Compile(needles)
		// Each filter may spend its budget, and makes the automaton read each byte at most about twice.
		perByte := float64(len(set.filters)) * (1 + 0.5 + 2*2)
		const once = 200_000 // What is examined before the budget is looked at: candidates of one block of samples.
		const length = 64 << 10
		long := nearMisses(needles, 2*length)
		for name, short := range nearMisses(needles, length) {
			t.Run(setName+"/"+name, func(t *testing.T) {
				var found Found
				n, twice := set.find(short, &found), set.find(long[name], &found)
				if ratio := float64(twice.total()) / float64(n.total()); ratio > 2.2 {
					t.Errorf("work is %+v, and %+v for twice the text: %.2f times as much, want at most 2.2", n, twice, ratio)
				}
				if float64(n.total()) > once+perByte*length {
					t.Errorf("work is %+v for %d bytes", n, length)
				}
			})
		}
	}
}

// TestCrowdedBucket has all needles share all windows: every hit examines all of them. The debt is paid once.
func TestCrowdedBucket(t *testing.T) {
	var needles []string
	for i := range 5000 {
		needles = append(needles, strings.Repeat("a", 12)+string([]byte{byte('b' + i%20), byte('b' + i/20%20), byte('b' + i/400)}))
	}
	set := Compile(needles)
	var found Found
	text := strings.Repeat("a", 1<<20)
	spent := set.find(text, &found)
	if found.Has(0) || found.Has(4999) {
		t.Error("a needle is found that does not occur")
	}
	if spent.total() > 6*len(text) {
		t.Errorf("%+v for %d bytes", spent, len(text))
	}
}

// TestCrowdedPairs is TestCrowdedBucket for the filter that looks at pairs.
func TestCrowdedPairs(t *testing.T) {
	var needles []string
	for i := range 26 {
		needles = append(needles, "nan"+string(rune('b'+i)))
	}
	set := Compile(needles).with(plan{window: pairWindow, stride: pairStride, pairs: true})
	var found Found
	text := strings.Repeat("na", 1<<19)
	if spent := set.find(text, &found); spent.verification > len(text)*3/5 {
		t.Errorf("%+v for %d bytes", spent, len(text))
	}
}

// TestOrdinaryTextIsCheap keeps the filter from deteriorating where no attacker is at work.
func TestOrdinaryTextIsCheap(t *testing.T) {
	text := asciiLower(realisticBody(64<<10, 1))
	cases := map[string]struct {
		needles     []string
		wantPerByte float64
	}{
		"12 phrases":                 {benchNeedles(12), 0.08},
		"100 phrases":                {benchNeedles(100), 0.12},
		"1000 phrases":               {benchNeedles(1000), 0.25},
		"12 phrases and a short one": {append(benchNeedles(12), "eof?"), 0.45},
		"12 parts of words":          {cutNeedles(12, text), 0.4},
		"100 parts of words":         {cutNeedles(100, text), 1.05},
		"1000 parts of words":        {cutNeedles(1000, text), 1.1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var found Found
			spent := Compile(tc.needles).find(text, &found)
			if got := float64(spent.total()) / float64(len(text)); got > tc.wantPerByte || spent.transitions > 0 {
				t.Errorf("%+v: %.3f steps a byte, want at most %.2f, and none by the automaton", spent, got, tc.wantPerByte)
			}
		})
	}
}
