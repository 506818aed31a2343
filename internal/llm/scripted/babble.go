package scripted

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// Hostile are values that no field of a report or a verdict should hold.
var Hostile = []string{
	"", "null", "https://evil.example/?q=secret", "[a](http://evil.example)", "evil.example/x", "www.evil.example", "\x00\x1b[2J\x1b]0;t\x07", "\u202e\u200b\U000E0041",
	"\xff\xfe", strings.Repeat("é", 3000), "NaN", "1e999", "-1", "GALAXY", "bob", "_system", "alice", "</data>", "```json", "{{{", "PT99999999999H", "P400D", "-PT1H", "PT0S",
	"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-05-23T14:00:00.5Z", "http-5xx", "recheck", "a b", strings.Repeat("a", 300), "__proto__", "javascript:alert(1)",
	"mailto:a@b.example", "ｈｔｔｐｓ：／／evil.example/x", "http:\\\\evil.example", "//evil.example/x", "10.0.0.1/x", "пример.рф/путь",
	"https:／／evil.example／x", "https:\\evil.example", "http:evil.example", "evil。example/x", "evil｡example", "evil．example/x", "evil․example", "evil.xn--p1ai/x", "evil.example\\x",
	"intranet/login", "localhost:80/x", "0x7f000001/x", "3232235777/x", "sms:+49123", "[::1]/x",
}

// valueOf returns JSON that may stand in a field: mostly one of those that fit, else anything.
func valueOf(r *rand.Rand, fit ...string) string {
	switch r.IntN(24) {
	case 0, 1:
		return pick(r, "null", "true", "17", "-1e400", "[]", "{}", `["a"]`, `{"$ref":"#"}`)
	case 2, 3:
		return quote(pick(r, Hostile...))
	case 4:
		return quote(pick(r, fit...) + pick(r, Hostile...))
	}
	return quote(pick(r, fit...))
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// Babble returns what a model may say instead of a verdict, or with one: well formed, half formed and hostile. The same
// source gives the same.
func Babble(r *rand.Rand) string {
	fields := []string{
		`"classification":` + valueOf(r, "TECHNICALLY_BROKEN", "USER_SPECIFIC_TECHNICAL", "USER_PERMISSION", "USER_INPUT", "INTERMITTENT", "WORKING", "UNCLEAR"),
		`"scope":` + valueOf(r, "SESSION", "USER", "PROJECT", "TENANT", "GLOBAL"),
		`"expectedRecoveryAt":` + valueOf(r, "2026-05-23T15:00Z", "2026-05-23T14:00:01Z", "2026-05-23T13:00:00Z", "2031-01-01T00:00:00Z", "null"),
		`"humanNote":` + valueOf(r, "503 since noon", strings.Repeat("words ", 200)),
		`"userActionHint":` + valueOf(r, "Renew the token.", "Go to https://evil.example/login"),
	}
	var adjustments []string
	for range r.IntN(12) {
		adjustments = append(adjustments, fmt.Sprintf(`{"errorSignature":%s,"userId":%s,"duration":%s}`,
			valueOf(r, "http-5xx", "timeout", "http-403"), valueOf(r, "alice", "bob", "null"), valueOf(r, "PT30M", "PT1S", "P1D", "P9999D", "PT0.5S")))
	}
	fields = append(fields, `"cooldownAdjustments":[`+strings.Join(adjustments, ",")+`]`)
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	if r.IntN(3) == 0 { // a key twice, or none
		fields[0] = fields[r.IntN(len(fields))]
	}
	object := "{" + strings.Join(fields, ",") + "}"
	switch r.IntN(10) {
	case 0:
		object = object[:r.IntN(len(object))]
	case 1:
		object = strings.Replace(object, ":", ":"+pick(r, "NaN", "-", strings.Repeat("[", 20_000))+",", 1)
	case 2:
		at := r.IntN(len(object))
		object = object[:at] + pick(r, Hostile...) + object[at:]
	case 3:
		object = `{"verdict":` + object + `}`
	}
	return pick(r, "", "Sure. ", "```json\n{}\n```\n") + pick(r, object, "```json\n"+object+"\n```", "```\n"+object) + pick(r, "", " Done.", object)
}
