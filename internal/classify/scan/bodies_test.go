package scan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The bodies and needles of tests and benchmarks. All are made, the same in every run.

var (
	subjects = strings.Fields(`token session request upstream connection certificate project tenant bucket table index
		channel message workspace repository issue deployment container volume secret credential subscription invoice
		calendar mailbox document folder pipeline queue topic partition replica snapshot cursor webhook endpoint proxy
		gateway resolver socket handshake signature scope policy role group account license seat region zone shard`)
	states = strings.Fields(`expired revoked missing invalid exceeded refused unreachable throttled suspended disabled
		archived locked corrupted truncated unsupported deprecated unauthorized forbidden exhausted overloaded
		unavailable rejected malformed duplicated stale pending cancelled interrupted aborted unresolved unknown denied
		mismatched incomplete`)
	fillers = strings.Fields(`the a of to in for on with and is was not be by from at this that it as has are user error
		status code time value name type data id info level server client response http version details path method
		error_description trace_id duration_ms application json content length cache control origin accept`)
)

// benchNeedles are distinct phrases of 12 to 45 bytes, like those that rules look for.
func benchNeedles(n int) []string {
	random := rand.New(rand.NewPCG(7, 7))
	seen := map[string]bool{}
	var out []string
	for len(out) < n {
		subject, state := subjects[random.IntN(len(subjects))], states[random.IntN(len(states))]
		var phrase string
		switch random.IntN(5) {
		case 0:
			phrase = subject + " has been " + state
		case 1:
			phrase = subject + "_" + state + "_error"
		case 2:
			phrase = "the " + subject + " is " + state
		case 3:
			phrase = `"code":"` + subject + "." + state + `"`
		default:
			phrase = subject + " " + state + ": " + subjects[random.IntN(len(subjects))]
		}
		if !seen[phrase] {
			seen[phrase] = true
			out = append(out, phrase)
		}
	}
	return out
}

// cutNeedles are distinct texts of 4 to 6 bytes that are cut from a body's own words, two at a time, and do not occur in
// it: the hardest that a filter may be asked for, because every part of them is frequent.
func cutNeedles(n int, body string) []string {
	random := rand.New(rand.NewPCG(9, 9))
	words := strings.Fields(body)
	seen := map[string]bool{}
	var out []string
	for len(out) < n {
		text := words[random.IntN(len(words))] + " " + words[random.IntN(len(words))]
		length := 4 + random.IntN(3)
		if len(text) < length {
			continue
		}
		at := random.IntN(len(text) - length + 1)
		if cut := text[at : at+length]; !seen[cut] && !strings.Contains(body, cut) {
			seen[cut] = true
			out = append(out, cut)
		}
	}
	return out
}

// realisticBody mixes lines of a log, JSON and HTML, in mixed case, and holds none of benchNeedles.
func realisticBody(length int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 3))
	var b strings.Builder
	for b.Len() < length {
		switch random.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "2026-03-%02dT%02d:%02d:%02d.%03dZ %s [worker-%d] com.example.%s: %s\n",
				1+random.IntN(28), random.IntN(24), random.IntN(60), random.IntN(60), random.IntN(1000),
				[]string{"INFO", "WARN", "ERROR", "DEBUG"}[random.IntN(4)], random.IntN(32), word(random), prose(random, 12))
		case 1:
			fmt.Fprintf(&b, `{"id":"%08x-%04x","%s":%d,"%s":"%s","nested":{"%s":[%d,%d,%t],"message":"%s"}},`+"\n",
				random.Uint32(), random.IntN(1<<16), word(random), random.IntN(1e6), word(random), word(random),
				word(random), random.IntN(100), random.IntN(100), random.IntN(2) == 0, prose(random, 8))
		case 2:
			fmt.Fprintf(&b, `<div class="%s %s"><a href="https://%s.example.com/%s?id=%d">%s</a><p>%s</p></div>`+"\n",
				word(random), word(random), word(random), word(random), random.IntN(1e5), word(random), prose(random, 15))
		default:
			fmt.Fprintf(&b, "    at com.example.%s.%s.%s(%s.java:%d)\n",
				word(random), word(random), word(random), word(random), random.IntN(900))
		}
	}
	return b.String()[:length]
}

// word is a word of those that needles are made of, or not.
func word(random *rand.Rand) string {
	switch random.IntN(4) {
	case 0:
		return subjects[random.IntN(len(subjects))]
	case 1:
		return states[random.IntN(len(states))]
	default:
		return fillers[random.IntN(len(fillers))]
	}
}

// prose never has a subject and a state so near to each other that they make a needle.
func prose(random *rand.Rand, words int) string {
	out := make([]string, words)
	for i := range out {
		out[i] = fillers[random.IntN(len(fillers))]
		if i%3 == 0 {
			out[i] = word(random)
		}
	}
	text := strings.Join(out, " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// randomBody is printable ASCII without order.
func randomBody(length int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 5))
	out := make([]byte, length)
	for i := range out {
		out[i] = byte(' ' + random.IntN(95))
	}
	return string(out)
}

// nearMisses are bodies that make a filter work: they nearly hold the needles, everywhere.
func nearMisses(needles []string, length int) map[string]string {
	prefix := needles[0][:len(needles[0])-1]
	var prefixes, changed, windows strings.Builder
	for i := 0; prefixes.Len() < length; i++ {
		prefixes.WriteString(needles[i%len(needles)][:len(needles[i%len(needles)])-1])
	}
	random := rand.New(rand.NewPCG(11, 11)) // Without a period that a processor could learn.
	for changed.Len() < length {
		needle := []byte(needles[random.IntN(len(needles))])
		needle[random.IntN(len(needle))] = '~'
		changed.Write(needle)
	}
	for i := 0; windows.Len() < length; i++ {
		needle := needles[i%len(needles)]
		at := i % max(1, len(needle)-8)
		windows.WriteString(needle[at:min(at+8, len(needle)-1)])
	}
	return map[string]string{
		"one prefix repeated":   strings.Repeat(prefix, length/len(prefix)+1)[:length],
		"all but the last byte": prefixes.String()[:length],
		"one byte changed":      changed.String()[:length],
		"windows of needles":    windows.String()[:length],
		"one byte repeated":     strings.Repeat(needles[0][:1], length),
	}
}
