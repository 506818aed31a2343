package classify

import "strings"

// reading is what may follow the words that announce a wait.
type reading int

const (
	// relative is a duration: 12 s.
	relative reading = 1 << iota
	// absolute is a point in time: 2026-06-17T08:00:00Z, midnight UTC.
	absolute
	// bareSeconds is a number without a unit, as in Retry-After.
	bareSeconds
)

// words is a set of words in lower case.
type words map[string]bool

func wordsOf(list string) words {
	set := words{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// phrase is what announces a wait, beginning with a certain word.
type phrase struct {
	// needs are words one of which must stand before in the sentence; empty: none.
	needs words
	// unless are words none of which may stand directly before.
	unless words
	// alone says that none of them is needed where the phrase begins a clause.
	alone bool
	// calls says that the phrase names the call, so that somebody else's counts for nothing: "we will try again".
	calls bool
	// always says that a denial before does not matter: "do not call until".
	always bool
	// names says that the phrase is the name of an answer's wait where a value is named so: retry_after. A name like
	// queue_wait may stand for anything.
	names bool
	// renews says that the phrase is about the return of an allowance.
	renews bool
	// fillers are words that may stand before the link.
	fillers words
	// links are the words that lead to the value, and how it is read.
	links map[string]reading
	// direct is how a value is read that no link leads to; 0: there must be a link.
	direct reading
}

// phrases are by the word that begins them. What they do not know states no wait: "took 30 s", "a timeout of 30 s",
// "expires in 3600 s" and "at most 5 minutes" say nothing about when to come back.
var phrases = map[string]phrase{
	"retry": {
		calls:   true,
		names:   true,
		unless:  wordsOf("will no not never max maximum did last first"),
		fillers: wordsOf("again your the this request requests call operation only"),
		links: map[string]reading{
			"in": relative, "after": relative | absolute | bareSeconds, "at": absolute, "delay": relative,
		},
	},
	"try": {
		calls:   true,
		names:   true,
		unless:  wordsOf("will no not never did on this each every last first second third"),
		fillers: wordsOf("your the request requests call operation later only"),
		links:   map[string]reading{"in": relative, "after": relative | absolute},
	},
	"again": {
		calls:  true,
		names:  true,
		needs:  wordsOf("try retry available allowed permitted request requests send call submit attempt use"),
		unless: wordsOf("failed fails failing fail timed error errors occurred happened disconnected"),
		links:  map[string]reading{"in": relative, "after": relative | absolute, "at": absolute, "on": absolute},
	},
	// "Transaction rolled back in 5 s" and "the connection came back after 5 s" are reports.
	"back": {
		needs:   wordsOf("come check be maintenance"),
		unless:  wordsOf("was were been rolled came dated went rolling"),
		alone:   true,
		fillers: wordsOf("online up"),
		links:   map[string]reading{"in": relative, "after": relative | absolute, "at": absolute},
	},
	"off":       {calls: true, needs: wordsOf("back"), links: map[string]reading{"for": relative}},
	"resets":    renewal,
	"refreshes": renewal,
	"renews":    renewal,
	"refills":   renewal,
	// Connections are reset too.
	"reset": {
		unless:  wordsOf("connection connections conn stream socket channel tcp peer was were been got not failed password session last since"),
		renews:  true,
		fillers: wordsOf("automatically again"),
		links: map[string]reading{
			"in": relative, "after": relative, "delay": relative, "at": absolute, "on": absolute, "time": absolute, "timestamp": absolute,
		},
	},
	"wait": {
		calls:   true,
		unless:  wordsOf("max maximum lock pool had did could after timed out timeout exceeded"),
		fillers: wordsOf("time"),
		direct:  relative,
	},
	"cooldown": {unless: wordsOf("max maximum"), fillers: wordsOf("period remaining time"), direct: relative},
	// "100 calls are available in 24 hours" is a limit, "will be available in 24 hours" a wait.
	"available":   {needs: wordsOf("be is next expected"), links: map[string]reading{"in": relative, "at": absolute}},
	"unavailable": {unless: wordsOf("was were been"), links: map[string]reading{"for": relative}},
	"limited":     {unless: wordsOf("was were been"), links: map[string]reading{"for": relative}},
	"throttled":   {unless: wordsOf("was were"), links: map[string]reading{"for": relative}},
	"banned":      {unless: wordsOf("was were"), links: map[string]reading{"for": relative}},
	"until": {
		always: true,
		needs: wordsOf("wait retry try again request requests limited throttled blocked banned unavailable available maintenance " +
			"limit quota paused suspended"),
		unless: wordsOf("valid"),
		direct: absolute,
	},
}

// renewal is how the return of an allowance is announced.
var renewal = phrase{
	renews:  true,
	unless:  wordsOf("token tokens"),
	fillers: wordsOf("automatically again daily every day"),
	links:   map[string]reading{"in": relative, "after": relative, "at": absolute, "on": absolute},
	direct:  absolute,
}

// qualifiers may stand between the link and the value.
var qualifiers = wordsOf("about approximately approx roughly around another at least the next for of is additional minimum just only less than stamp")

var (
	// denials deny what follows; the t is that of "don't".
	denials = wordsOf("not never no cannot dont t without")
	// helpers may stand between a denial and what it denies: "no longer have to wait".
	helpers = wordsOf("have has need needs longer be required")
	// others do something themselves, or name a condition.
	others = wordsOf("will ll we i if going scheduled")
	// adverbs change nothing about who does what: "we will automatically try again".
	adverbs = wordsOf("automatically then now also just simply you please to try retry back s")

	// articles are those of "in a minute".
	articles = wordsOf("a an one")
	// clockWords stand for a time of the day.
	clockWords = wordsOf("midnight noon")
	meridiems  = wordsOf("am pm a p")
	between    = wordsOf("and")
	more       = wordsOf("more")
	toWord     = wordsOf("to")
	zoneLeads  = wordsOf("in the us")
	monthNames = wordsOf("jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august " +
		"september october november december")
)

// maxKnown is the length of the longest word of the vocabulary, in bytes, or more.
const maxKnown = 16

// vocabulary holds every word that means something, so that reading a text allocates nothing for its words.
var vocabulary = buildVocabulary()

func buildVocabulary() map[string]string {
	all := map[string]string{}
	add := func(set words) {
		for word := range set {
			all[word] = word
		}
	}
	for word, p := range phrases {
		all[word] = word
		for link := range p.links {
			all[link] = link
		}
		add(p.needs)
		add(p.unless)
		add(p.fillers)
	}
	for _, set := range []words{qualifiers, articles, clockWords, meridiems, between, more, toWord, zoneLeads, monthNames, denials, helpers, others, adverbs} {
		add(set)
	}
	for unit := range units {
		all[unit] = unit
	}
	for zone := range zones {
		all[zone] = zone
	}
	return all
}
