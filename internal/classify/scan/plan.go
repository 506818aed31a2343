package scan

import (
	"math"
	"math/bits"
)

// plan is how a filter samples.
type plan struct {
	// window is the number of bytes hashed at a sampled position, q: 2 to 8.
	window int
	// stride is the distance of sampled positions, s: 1 to maxStride. window+stride-1 bytes are in every needle.
	stride int
	// pairs says that the sampled windows are looked at as pairs.go does. Window and stride then are 2 and 3.
	pairs bool
	// grams says that they are looked at as grams.go does. Window and stride then are 4 and 1.
	grams bool
}

const (
	minWindow = 2
	maxWindow = 8
	// maxStride limits the registered windows, one a needle for each residue. Beyond it memory speed decides.
	maxStride = 16
)

// Rough costs in nanoseconds, measured; only their relation matters.
const (
	costSample = 0.9
	costPair   = 0.5
	costGram   = 0.9
	// costHit includes the branch that was predicted wrongly.
	costHit = 20.0
	// costAutomaton is per byte of text.
	costAutomaton = 3.0
)

// tier is some needles of a set and the plan by which a filter looks for them.
type tier struct {
	plan
	ids []int32
}

// splits are the lengths below which needles may get a tier of their own, so that they do not shorten the stride for
// all. The first leaves all in one tier.
var splits = []int{0, 5, 6, 7, 8, 9, 10, 12, 16}

// chooseTiers finds the one or two tiers that promise to be cheapest. It answers none if no plan exists or the
// automaton alone is cheaper.
func chooseTiers(needles []string) (best []tier) {
	cheapest := costAutomaton
	for _, split := range splits {
		var tiers [2]tier
		for id, needle := range needles {
			t := &tiers[0]
			if len(needle) < split {
				t = &tiers[1]
			}
			t.ids = append(t.ids, int32(id))
		}
		var chosen []tier
		total := 0.0
		for _, t := range tiers {
			if len(t.ids) == 0 {
				continue
			}
			var cost float64
			t.plan, cost = choosePlan(needles, t.ids)
			total += cost
			chosen = append(chosen, t)
		}
		if total < cheapest {
			best, cheapest = chosen, total
		}
	}
	return best
}

// choosePlan finds the cheapest plan for some needles, by what their windows promise, and its cost. The cost is
// infinite if there is no plan.
func choosePlan(needles []string, ids []int32) (best plan, cheapest float64) {
	shortest := len(needles[ids[0]])
	for _, id := range ids {
		shortest = min(shortest, len(needles[id]))
	}
	cheapest = math.Inf(1)
	consider := func(p plan) {
		if cost := p.cost(needles, ids); cost < cheapest {
			best, cheapest = p, cost
		}
	}
	for window := minWindow; window <= min(maxWindow, shortest); window++ {
		for stride := min(maxStride, shortest-window+1); stride > 0; stride /= 2 {
			consider(plan{window: window, stride: stride})
		}
	}
	if shortest >= gramWindow {
		consider(plan{window: gramWindow, stride: 1, grams: true})
	}
	if shortest >= pairWindow+pairStride-1 {
		consider(plan{window: pairWindow, stride: pairStride, pairs: true})
	}
	return best, cheapest
}

// gramShare is how many of the places that probability expects hold a needle of which all is looked at: texts that
// rules ask for are rarer than others of the same letters.
const gramShare = 0.25

// pairCrowd is about how many windows fill all classes of pairTables with all frequent neighbours.
const pairCrowd = 256

// costNeedles is on how many needles of a large set the cost of a plan is estimated.
const costNeedles = 128

// cost estimates the nanoseconds per byte of ordinary text.
func (p plan) cost(needles []string, ids []int32) float64 {
	step := max(1, len(ids)/costNeedles)
	looked, hits, pairHits := 0, 0.0, 0.0
	for i := 0; i < len(ids); i += step {
		looked++
		needle := needles[ids[i]]
		for residue := range p.stride {
			offset := p.rarest(needle, residue, nil)
			hits += probability(needle[offset : offset+p.span(needle)])
			pairHits += probability(needle[max(0, offset-1) : offset+p.window])
		}
	}
	scale := float64(len(ids)) / float64(looked)
	if p.grams {
		return costGram + min(1, scale*hits*gramShare+float64(len(ids))/(1<<gramHashBits))*costHit
	}
	if p.pairs {
		// The more windows share a class, the less do the neighbours rule out.
		crowded := min(1, float64(len(ids)*pairStride)/pairCrowd)
		rate := scale * (crowded*hits + (1-crowded)*pairHits)
		return (costPair + min(1, rate)*costHit) / pairStride
	}
	rate := scale*hits + float64(len(ids)*p.stride)/bitmapBits
	return (costSample + min(1, rate)*costHit) / float64(p.stride)
}

// span is how many bytes of a needle are looked at.
func (p plan) span(needle string) int {
	if p.grams {
		return min(len(needle), gramWindow+gramLayers-1)
	}
	return p.window
}

// rarest is the offset of the rarest window of a needle among the offsets with a residue modulo the stride. Windows
// that other needles use already, by the number that taken gives for their hash, count as less rare.
func (p plan) rarest(needle string, residue int, taken []uint16) int {
	best, bestScore := residue, math.MinInt
	span := p.span(needle)
	for offset := residue; offset+span <= len(needle); offset += p.stride {
		score := 0
		for i := range span {
			score += int(rarity[roughByte(needle[offset+i])])
		}
		if taken != nil {
			score -= 2 * bits.Len16(taken[p.hash(loadShort(needle[offset:]))])
		}
		if score > bestScore {
			best, bestScore = offset, score
		}
	}
	return best
}

func roughByte(b byte) byte { return b | 0x20 }

// probability estimates how often a window stands at a position of ordinary text. Its first byte is as rare as rarity
// says; the others are less so, because they depend on those before them.
func probability(window string) float64 {
	told, share := 0.0, 1.0
	for i := range len(window) {
		told += share * float64(rarity[roughByte(window[i])])
		share = max(0.35, share-0.25)
	}
	return math.Exp2(-told)
}

// rarity is, for a byte with bit 5 set, about how many bits it tells in logs, JSON and HTML: minus the binary
// logarithm of its frequency.
var rarity = newRarity()

func newRarity() [256]uint8 {
	const rare, foreign = 10, 11
	var table [256]uint8
	for b := range table {
		table[b] = rare
		if b >= 0x80 {
			table[b] = foreign
		}
	}
	for weight, bytes := range []string{
		3: " ",
		4: "etaoinsr",
		5: `lducmp"0`,
		6: "fghb:,./-_12",
		7: "ywv<>=3456789*\x7f", // A line's end has become *, and the underscore a delete.
		8: "kx{}()'",
		9: "jqz;&%#+|",
	} {
		for i := range len(bytes) {
			table[roughByte(bytes[i])] = uint8(weight)
		}
	}
	return table
}
