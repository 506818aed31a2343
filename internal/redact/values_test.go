package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestValues(t *testing.T) {
	for _, tc := range []struct {
		name, secrets, said, want string
		partial                   bool
	}{
		{"nothing to hide", "", "a token", "a token", false},
		{"in the midst", "token", "a token b", "a [redacted] b", false},
		{"of two that begin alike the longer goes as a whole", "token token-2", "token-2 token", "[redacted] [redacted]", false},
		{"divided by an invalid byte", "token", "to\xffken", "[redacted]", false},
		{"divided by what does not show", "secret-token", "secret\x1b[0m-\u200btoken", "[redacted]", false},
		{"cut off at the end and divided by what does not show", "secret-token", "a long beginning, " + strings.Join(strings.Split("secret-tok", ""), "\u200b"), "a lon", true},
		{"cut off at the end", "secret-token", "a long beginning, secret-tok", "a lon", true},
		{"all of it may be a part", "secret-token", "secret-tok", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := ValuesOf(strings.Split(tc.secrets, " ")...)
			got := v.Text(tc.said)
			if tc.partial {
				got = v.Beginning(tc.said)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValuesGoInEveryFormThatServersGiveThem(t *testing.T) {
	for _, secret := range []string{"plain-word", "tok/with+signs=and&more", `quo"ted<é>`, "Zx81kQpLm22vNw", "abc/def%20x:y@z"} {
		quoted, err := json.Marshal(map[string]string{"token": secret})
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]string{
			"as it is": "got " + secret + " here", "in JSON": string(quoted),
			"in JSON in JSON": strings.ReplaceAll(string(quoted), `/`, `\/`),
			"in a query":      "?q=" + url.QueryEscape(secret), "in a query in lower case": "?q=" + strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3A", "%3a", "%3D", "%3d", "%3C", "%3c", "%3E", "%3e", "%C3%A9", "%c3%a9").Replace(url.QueryEscape(secret)),
			"in a path":                "/" + url.PathEscape(secret),
			"in hexadecimal":           hex.EncodeToString([]byte(secret)),
			"in Base64":                base64.StdEncoding.EncodeToString([]byte(secret)),
			"in Base64 for addresses":  base64.RawURLEncoding.EncodeToString([]byte(secret)),
			"as a password in Basic":   "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+secret)),
			"as a user in Basic":       "Basic " + base64.StdEncoding.EncodeToString([]byte(secret+":")),
			"as another's user's name": "Basic " + base64.StdEncoding.EncodeToString([]byte("ab:"+secret+"\n")),
		}
		v := ValuesOf(secret)
		for name, form := range forms {
			got := v.Text(form)
			if !strings.Contains(got, mark) || strings.Contains(got, secret) {
				t.Errorf("%q %s: %q", secret, name, got)
			}
			for _, word := range strings.FieldsFunc(got, func(r rune) bool { return strings.ContainsRune(" []", r) }) {
				if plain, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "=")); strings.Contains(string(plain), secret[1:len(secret)-1]) {
					t.Errorf("%q %s: %q still holds %q", secret, name, got, plain)
				}
			}
		}
	}
}

func TestABeginningShowsNoPartOfASecretWhereverItIsCut(t *testing.T) {
	const secret = "s3cr3t/+token-é=="
	v := ValuesOf(secret)
	said := strings.Repeat("é", 50) + secret + " and " + secret + secret + strings.Repeat(".", 60) + secret + strings.Repeat("é", 100)
	for cut := range len(said) + 1 {
		got := v.Beginning(said[:cut])
		for _, part := range []string{"s3cr", "oken"} {
			if strings.Contains(got, part) {
				t.Errorf("cut after %d bytes: %q", cut, got)
			}
		}
		if !strings.HasPrefix(said, strings.SplitN(got, "[", 2)[0]) || !utf8.ValidString(got) || len(got) < cut-4*len(secret)-v.longest {
			t.Errorf("cut after %d bytes: %q is no beginning", cut, got)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add("token", "a token b", true)
	f.Add("t\"k<n", `"t\"k<n"`, false)
	f.Add("aXk6", "\xffaXk6\xfe", true)
	f.Fuzz(func(t *testing.T, secret, said string, partial bool) {
		const placed = mark + "]"
		if len(secret) < 4 || strings.Contains(placed, secret) || strings.ContainsAny(secret, "[]\uFFFD") || strings.ToValidUTF8(secret, "") != secret {
			return
		}
		v := ValuesOf(secret)
		got := v.Text(said + secret + said)
		if partial {
			got = v.Beginning(said + secret + said)
		}
		// What stands around a replacement can form the secret anew only with the brackets of the replacement.
		if strings.Contains(got, secret) {
			t.Errorf("%q is shown in %q", secret, got)
		}
	})
}
