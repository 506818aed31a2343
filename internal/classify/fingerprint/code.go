package fingerprint

import (
	"bytes"
	"strings"
)

// Most numbers change when a failure repeats; some are the failure. What stands behind a word that names a code, as in
// exit status 137, HTTP 502, errno 111, SQLSTATE 42P01, and numbers that letters are joined to, as in ORA-00942 and
// TS2304, mean themselves.

var (
	// codeWords name a code, whatever stands between.
	codeWords = set("code status errno errorcode errcode exitcode returncode statuscode httpstatus sqlstate errornumber")
	// nearCodeWords name a code right before it only: "error: 5 values are wrong" counts them.
	nearCodeWords = set("error http exit signal")
	// numberWords stand between error and its number.
	numberWords = set("number no num nr")
	// counted are words whose numbers tell one thing of many, so that they are no codes though letters are joined to
	// digits.
	counted = set("a acct api app b batch blob build c call chat chunk client cluster col conn core cpu cust db doc eth event " +
		"evt exec file gid gpu group host id idx inc inv ip item job key line lock msg n nio no node nr num obj ord order p " +
		"page part pid po pod pool port proc queue r rec ref req res rev room row run seq server shard sku slot span srv step " +
		"svc t table task tbl tcp team temp test thread tid tkt tmp tool topic trace tx txn u udp uid user usr v ver vm w web " +
		"worker x")
)

const (
	maxCode     = 6  // digits
	maxHexCode  = 10 // with 0x
	sqlStateLen = 5
	maxPrefix   = 6 // letters before the digits of a code
	minJoined   = 3 // digits behind them
	maxJoined   = 5
	maxBetween  = 5 // characters between a word and its code
)

// codeAt is the length of a code at the beginning of a text that means itself because of the word before it, or 0.
func (n *normaliser) codeAt(text string) int {
	end := wordEnd(text)
	if end > maxHexCode || joined(text, end) {
		return 0
	}
	run, digits := text[:end], digitsEnd(text, 0)
	hex := end > 2 && run[0] == '0' && lower(run[1]) == 'x' && isAllHex(run[2:])
	switch word := n.codeWord(); {
	case word == "":
		return 0
	case hex, digits == end && digits <= maxCode, len(run) == sqlStateLen && digits > 0 && (word == "sqlstate" || word == "code"):
		return end
	case word == "sqlstate" && len(run) == sqlStateLen:
		return end
	}
	return 0
}

// codeWord is the word that names a code right at the end of the output, or empty.
func (n *normaliser) codeWord() string {
	end := len(n.out)
	from := max(0, end-maxBetween)
	near := true
	for end > from && strings.IndexByte(" :=#([-", n.out[end-1]) >= 0 {
		end--
		near = near && strings.IndexByte(" #-", n.out[end]) >= 0
	}
	if near && bytes.HasSuffix(n.out[:end], []byte("http/"+number)) { // and its version
		return "http"
	}
	word, start := n.wordBefore(end)
	if known(numberWords, word) {
		before, _ := n.wordBefore(start - 1)
		if near && start > 0 && n.out[start-1] == ' ' && before == "error" {
			return "error"
		}
		return ""
	}
	if known(codeWords, word) || near && known(nearCodeWords, word) {
		return word
	}
	return ""
}

// wordBefore is the word in the output that ends at a place, and where it begins. It is empty if none of a known
// length does.
func (n *normaliser) wordBefore(end int) (word string, start int) {
	start = max(end, 0)
	for start > 0 && end-start <= maxKnown && isWord(n.out[start-1]) {
		start--
	}
	if end-start > maxKnown {
		return "", start
	}
	return string(n.out[start:max(end, start)]), start
}

// joinedCodeAt is the length of letters that are joined to the digits of a code, or 0.
func (n *normaliser) joinedCodeAt(text string) int {
	if last := n.last(); isWord(last) || strings.IndexByte(`-_./\@<`, last) >= 0 {
		return 0
	}
	letters := 0
	for letters < len(text) && isLetter(text[letters]) {
		letters++
	}
	from := letters
	if from < len(text) && (text[from] == '-' || text[from] == '_') {
		from++
	}
	end := digitsEnd(text, from)
	digits := end - from
	if letters == 0 || letters > maxPrefix || digits < minJoined || digits > maxJoined || joined(text, end) {
		return 0
	}
	if known(counted, text[:letters]) || isRandom(text[:end]) && from == letters {
		return 0
	}
	return end
}

// joined reports whether a word goes on behind a place: with a letter or digit, or with one behind a mark.
func joined(text string, end int) bool {
	if end >= len(text) {
		return false
	}
	if isWord(text[end]) {
		return true
	}
	return strings.IndexByte(".,:-_/", text[end]) >= 0 && end+1 < len(text) && isWord(text[end+1])
}

func isAllHex(s string) bool {
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
	}
	return true
}
