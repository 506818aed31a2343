package scan

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	ahocorasick "github.com/petar-dambovaliev/aho-corasick"
)

// The ratios compare Find with the plain loop: one strings.Contains for each needle. Loop and Find get the same text,
// which is in lower case already, and the same needles, none of which occurs. The time to put the text in lower case,
// which the loop needs and Find does not, counts for neither.

// plainLoop is the baseline.
func plainLoop(needles []string, lowered string) (found int) {
	for _, needle := range needles {
		if strings.Contains(lowered, needle) {
			found++
		}
	}
	return found
}

func benchBodies() map[string]string {
	return map[string]string{
		"realistic": asciiLower(realisticBody(64<<10, 1)),
		"random":    asciiLower(randomBody(64<<10, 1)),
	}
}

func BenchmarkScan(b *testing.B) {
	for _, body := range []string{"realistic", "random"} {
		for _, count := range []int{12, 100, 1000} {
			text, needles := benchBodies()[body], benchNeedles(count)
			b.Run(fmt.Sprintf("%s/%d", body, count), func(b *testing.B) { benchAgainstLoop(b, needles, text) })
		}
	}
	// Short needles cost speed: with the shortest of 4 bytes every second byte is sampled.
	short := append(benchNeedles(99), "EOF?")
	b.Run("realistic/100 and the shortest has 4 bytes", func(b *testing.B) {
		benchAgainstLoop(b, short, benchBodies()["realistic"])
	})
	b.Run("realistic/1000 in mixed case", func(b *testing.B) {
		text := realisticBody(64<<10, 1)
		set := Compile(benchNeedles(1000))
		var found Found
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			set.Find(text, &found)
		}
	})
}

// BenchmarkScanShort is the hardest case: needles of 4 to 6 bytes that are cut from the body's own words. All that
// tells them from the body are all of their bytes, so no stride is long. Measured on an Intel Xeon of 2023 with
// AVX-512, on which one search of the plain loop takes 32 to 40 µs: 13 to 14 times the loop with 12 needles, 55 to 67
// times with 100, and 350 to 430 times with 1000. With 12 and 100, 15 and 80 times would need 0.48 and 0.6 ns a byte;
// looking at every third byte costs 0.3 ns and its hits 0.2 ns, and looking at every byte 0.9 ns, which is 11
// instructions at four of them a cycle.
func BenchmarkScanShort(b *testing.B) {
	for _, count := range []int{12, 100, 1000} {
		text := benchBodies()["realistic"]
		b.Run(fmt.Sprint(count), func(b *testing.B) { benchAgainstLoop(b, cutNeedles(count, text), text) })
	}
}

// benchAgainstLoop runs both alternately, so that whatever else the machine does hits both, and compares medians.
func benchAgainstLoop(b *testing.B, needles []string, text string) {
	for i, needle := range needles {
		needles[i] = asciiLower(needle)
	}
	if found := plainLoop(needles, text); found > 0 {
		b.Fatalf("%d needles occur", found)
	}
	set := Compile(needles)
	builder := ahocorasick.NewAhoCorasickBuilder(ahocorasick.Opts{DFA: true})
	library := builder.Build(needles)
	b.SetBytes(int64(len(text)))
	var found Found
	for b.Loop() {
		set.Find(text, &found)
	}
	var ours, loop, theirs []time.Duration
	for range 15 {
		ours = append(ours, timeOf(20, func() { set.Find(text, &found) }))
		loop = append(loop, timeOf(1, func() { plainLoop(needles, text) }))
		theirs = append(theirs, timeOf(1, func() { library.FindAll(text) }))
	}
	b.ReportMetric(float64(median(loop))/float64(median(ours)), "x-vs-loop")
	b.ReportMetric(float64(median(theirs))/float64(median(ours)), "x-vs-library")
	b.ReportMetric(float64(len(text))/float64(median(theirs).Nanoseconds())*1000, "library-MB/s")
	b.ReportMetric(float64(compiledSize(needles))/1024, "compiled-KiB")
}

func timeOf(rounds int, f func()) time.Duration {
	start := time.Now()
	for range rounds {
		f()
	}
	return time.Since(start) / time.Duration(rounds)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// compiledSize is the memory that a compiled set keeps, in bytes.
func compiledSize(needles []string) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	set := Compile(needles)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(set)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

// BenchmarkScanNearMisses shows that hostile bodies are slow only in proportion to their length.
func BenchmarkScanNearMisses(b *testing.B) {
	for _, count := range []int{12, 1000} {
		needles := benchNeedles(count)
		set := Compile(needles)
		// Long enough that the processor cannot learn the course of branches in either.
		const length = 1 << 20
		short, long := nearMisses(needles, length), nearMisses(needles, 2*length)
		for _, name := range []string{"one prefix repeated", "all but the last byte", "one byte changed", "windows of needles"} {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				var found Found
				b.SetBytes(length)
				for b.Loop() {
					set.Find(short[name], &found)
				}
				var once, twice []time.Duration
				for range 40 { // The shortest time is the one that nothing disturbed.
					once = append(once, timeOf(1, func() { set.Find(short[name], &found) }))
					twice = append(twice, timeOf(1, func() { set.Find(long[name], &found) }))
				}
				b.ReportMetric(float64(slices.Min(twice))/float64(slices.Min(once)), "t(2n)/t(n)")
			})
		}
	}
}

// BenchmarkScanShortText is the usual case: a line of an error.
func BenchmarkScanShortText(b *testing.B) {
	set := Compile(benchNeedles(1000))
	text := realisticBody(200, 2)
	var found Found
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		set.Find(text, &found)
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, count := range []int{12, 1000, 64_000} {
		needles := distinctNeedles(count)
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			for b.Loop() {
				Compile(needles)
			}
			b.ReportMetric(float64(compiledSize(needles))/1024, "compiled-KiB")
		})
	}
}

// distinctNeedles are more than benchNeedles can make.
func distinctNeedles(n int) []string {
	phrases := benchNeedles(min(n, 1000))
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s %x", phrases[i%len(phrases)], i/len(phrases))
	}
	return out
}
