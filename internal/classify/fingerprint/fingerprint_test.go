package fingerprint

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "fill in what testdata/golden.txt lacks, or all of it after a change of Version")

const goldenFile = "testdata/golden.txt"

// goldenCase is a line of the golden file: type, message, normalised message and fingerprint, quoted, with tabs between.
type goldenCase struct {
	exception, message, normalised, fingerprint string
}

// TestGolden fails if any fingerprint changes under one version.
func TestGolden(t *testing.T) {
	version, cases, comments := readGolden(t)
	if *update {
		writeGolden(t, version, cases, comments)
		return
	}
	if version != Version {
		t.Fatalf("the golden file is of %s; run this test with -update, once", version)
	}
	if len(cases) < 60 {
		t.Errorf("%d cases", len(cases))
	}
	for _, want := range cases {
		got := goldenCase{want.exception, want.message, Normalise(want.message), Of(typesOf(want.exception), want.message)}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(goldenCase{})); diff != "" {
			t.Errorf("changed without another version (-want +got):\n%s", diff)
		}
	}
}

func typesOf(exception string) []string {
	if exception == "" {
		return nil
	}
	return []string{exception}
}

// readGolden gives the version in the first line, the cases, and for each the comment lines before it.
func readGolden(t *testing.T) (version string, cases []goldenCase, comments []string) {
	t.Helper()
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	comment := ""
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 {
			version = line
			continue
		}
		if line == "" || line[0] == '#' {
			comment += line + "\n"
			continue
		}
		fields := append(strings.Split(line, "\t"), "", "")[:4]
		for i, field := range fields {
			if field == "" {
				continue
			}
			if fields[i], err = strconv.Unquote(field); err != nil {
				t.Fatalf("line %d, field %d: %v", n, i+1, err)
			}
		}
		cases = append(cases, goldenCase{fields[0], fields[1], fields[2], fields[3]})
		comments, comment = append(comments, comment), ""
	}
	return version, cases, comments
}

func writeGolden(t *testing.T, version string, cases []goldenCase, comments []string) {
	t.Helper()
	out := Version + "\n"
	for i, c := range cases {
		if c.fingerprint == "" || version != Version {
			c.normalised, c.fingerprint = Normalise(c.message), Of(typesOf(c.exception), c.message)
		}
		out += comments[i] + fmt.Sprintf("%q\t%q\t%q\t%q\n", c.exception, c.message, c.normalised, c.fingerprint)
	}
	if err := os.WriteFile(goldenFile, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheSameFailure(t *testing.T) {
	for name, messages := range map[string][]string{
		"case":                       {"Connection Refused", "connection refused", "CONNECTION REFUSED"},
		"white space":                {"a  b\n\tc ", " a b\u00a0c", "a\r\nb c"},
		"UUIDs":                      {"no job 123e4567-e89b-12d3-a456-426614174000", "no job FFFFFFFF-E89B-12D3-A456-42661417400A"},
		"hexadecimal":                {"object 0xc000123abc at 0x0", "object 0xdeadbeef at 0x10"},
		"commits":                    {"commit a1b2c3d is gone", "commit 0f9e8d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a2f1e is gone"},
		"request ids":                {"request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request req_01XYAbcDefGhi9KlmnOPqrst failed"},
		"numbers":                    {"took 500 tries, 3.5% of 1,200", "took 7 tries, 12% of 900", "took 1e-9 tries, 1.25% of 2"},
		"durations":                  {"timed out after 30s", "timed out after 1m30.5s", "timed out after 174ms", "timed out after 12 seconds", "timed out after 1 hour 2 min"},
		"plural":                     {"wait 1 minute", "wait 2 minutes"},
		"times":                      {"at 2026-06-17T08:10:20Z: gone", "at 2026-06-17 08:10:20.123+02:00: gone", "at Wed, 17 Jun 2026 08:02:00 GMT: gone", "at 20260617T100000Z: gone", "at 08:10:20: gone", "at Jun 17 08:02:00: gone", "at 6/17/2026: gone"},
		"addresses":                  {"dial tcp 10.0.0.20:8080: refused", "dial tcp 192.168.1.1:80: refused", "dial tcp 10.0.0.1: refused", "dial tcp fe80::1%eth0: refused"},
		"IPv6 with ports":            {"dial tcp [::1]:8080: refused", "dial tcp [2001:db8::8a2e:370:7334]:443: refused"},
		"hardware addresses":         {"from 00:1a:2b:3c:4d:5e", "from de:ad:be:ef:00:01"},
		"ports":                      {"tool:8080 is closed", "tool:80 is closed"},
		"hosts of URLs":              {"GET https://a.example/v1/items failed", "GET https://user:pw@b.example:8443/v1/items failed", "GET https://[::1]:80/v1/items failed"},
		"queries":                    {"GET https://a.example/v1?a=1&b=x: EOF", "GET https://a.example/v1?token=abc#top: EOF"},
		"queries of paths":           {"Cannot GET /v1/items?name=alice", "Cannot GET /v1/items?name=bob&x"},
		"temporary paths":            {"open /tmp/go-build123/x.txt: no such file", "open /var/folders/ab/T/y: no such file", "open /dev/shm/z9: no such file"},
		"quoted values":              {"Manual not found: 'doc-kind-calendar'", `Manual not found: "x"`, "Manual not found: `y z`", "Manual not found: “q”", "Manual not found: «q»", `Manual not found: \"x\"`, `Manual not found: 'a "nested" one'`},
		"quoted sentences":           {`say "one two 3 four five" and "x" end`, `say "one two 4 four five" and "y" end`, "say “one two 4 four five” and 'z' end"},
		"quotes with escapes":        {`bad value "a\"b" here`, `bad value "c" here`},
		"ANSI":                       {"\x1b[31mError\x1b[0m: gone", "Error: gone", "\x1b]8;;https://a.example\x1b\\Error\x1b]8;;\x07: gone", "Er\x1b[1mror: gone"},
		"secrets":                    {"bad key [redacted:a1b2c3]", "bad key [redacted:ffffff]", "bad key [redacted]"},
		"pods":                       {"pod tool-7d9c5b6f4d-x2x9z is gone", "pod tool-6b474476c4-bcdfg is gone"},
		"JSON numbers":               {`{"error":{"line":500,"message":"boom"}}`, `{"error":{"line":502,"message":"boom"}}`},
		"hosts":                      {"lookup foo.bar.svc.cluster.local:8080: refused", "lookup db-7.internal: refused", "lookup API.example.com:443: refused", "lookup 10.0.0.1.nip.io: refused"},
		"e-mail addresses":           {"no mailbox alice@example.com.", "no mailbox bob.b+x_1@mail-3.corp.", "no mailbox 7@a.b."},
		"temporary paths of Windows": {`open C:\Users\alice\AppData\Local\Temp\go-1\x.txt: gone`, `open D:\TMP\y: gone`, `open %TEMP%\z.log: gone`, `open c:\\users\\bob\\temp\\w: gone`, `open C:/Windows/Temp: gone`},
		"sizes":                      {"body of 12 MB is too large", "body of 3.5GiB is too large", "body of 1,024 bytes is too large", "body of 1 byte is too large"},
		"counts of errors":           {"error: 5 values are wrong", "error: 12 values are wrong"},
		"lists of statuses":          {"status 1.2.3, code 10.0.0.1", "status 4.5.6, code 10.0.0.2"},
		"long numbers":               {"status 1234567", "status 7654321"},
		"counted things":             {"job-1234 of user_10001 on worker-123, req-55555", "job-77777 of user_222 on worker-456, req-123"},
		"parts of longer names":      {"a/abc-1234, x.abc-1234, abc-1234-x, abc-1234:80", "a/abc-777, x.abc-777, abc-777-x, abc-777:443"},
		"long ends":                  {strings.Repeat("word 1 ", 500) + "a", strings.Repeat("word 123 ", 500) + "b"},
		"invalid UTF-8":              {"bad \xff byte", "bad \xfe byte"},
		"beyond what is read":        {strings.Repeat("a b ", 5000) + "x", strings.Repeat("a b ", 5000) + "y"},
		"an apostrophe is space":     {"don't", "don’t", "don t"},
	} {
		for _, message := range messages[1:] {
			if Of([]string{"E"}, messages[0]) != Of([]string{"E"}, message) {
				t.Errorf("%s: told apart:\n%q: %q\n%q: %q", name, messages[0], Normalise(messages[0]), message, Normalise(message))
			}
		}
	}
}

func TestDifferentFailures(t *testing.T) {
	messages := []string{
		"", "connection refused", "connection reset", "no such host", "context deadline exceeded", "fetch failed", "Read timed out",
		"Manual not found: 'x'", "Page not found: 'x'", "Cannot read properties of undefined (reading 'x')",
		`{"error":{"code":500,"message":"boom"}}`, `{"error":{"code":500,"message":"quota exceeded"}}`, `{"error":"invalid_auth"}`, `{"error":"missing_scope"}`,
		"GET https://a.example/v1/items failed", "GET https://a.example/v1/users failed", "POST https://a.example/v1/items failed",
		"dial tcp 10.0.0.1: refused", "dial udp 10.0.0.1: refused", "std::string is empty", "std::vector is empty", "dead end", "decade", "facade",
		"you may 5 times", "you might 5 times", "Ошибка сети", "Ошибка входа", "接続エラー", "認証エラー", "a/b?", "a/c?",
		"Error('Failed to establish a new connection: refused')", "Error('Failed to establish a new connection: unknown')",
		`say "one two three four five" and 'x' end`, `say "one two three four six" and 'x' end`,
		"exit status 1", "exit status 137", "exit code 137", "exit code: 1", "killed by signal 9", "killed by signal 11",
		"ORA-00942: no table", "ORA-01017: no table", "error TS2304", "error TS2322", "E1234", "E1235",
		"SQLSTATE 42P01", "SQLSTATE[23505]", "code: 42P01", "(SQLSTATE 0A000)", "[Errno 111] x", "[Errno 104] x",
		"HTTP 502", "HTTP 403", "HTTP/1.1 502 x", "HTTP/1.1 403 x", "code -32602", "code -32601", "status=500", "status=503",
		"error 1045", "error 1062", "error number 5", "error number 6", "error code 0xC0000005", "error code 0xC0000409",
		`{"error":{"code":502,"message":"boom"}}`, `{"statusCode":404}`, `{"statusCode":409}`, `{"code":"42P01"}`, `{"code":"42703"}`,
		"lookup java.net", "lookup main.go", "lookup com.example.Foo", "com.acme.App.run()", "at a.b.com()", `open C:\data\x`, `open C:\temperature\x`,
		"12 apples", "12 m b", "a@b", "alice at example",
		"the users' data isn't here", "the users' data is gone",
	}
	seen := map[string]string{}
	for _, message := range messages {
		fingerprint := Of([]string{"E"}, message)
		if other, ok := seen[fingerprint]; ok {
			t.Errorf("%q is taken for %q: both %q", message, other, Normalise(message))
		}
		seen[fingerprint] = message
	}
}

func TestOfTypes(t *testing.T) {
	type name string // as the API's types are
	base := Of([]name{"java.net.ConnectException", "java.io.IOException"}, "x")
	for what, got := range map[string]string{
		"the causes do not count":    Of([]string{"java.net.ConnectException"}, "x"),
		"nor a pointer's star":       Of([]string{"*java.net.ConnectException"}, "x"),
		"nor the case":               Of([]string{"java.net.connectexception"}, "x"),
		"nor what is beyond a bound": Of([]string{"java.net.ConnectException"}, "x"),
	} {
		if got != base {
			t.Errorf("%s: %s, want %s", what, got, base)
		}
	}
	for what, got := range map[string]string{
		"another type":             Of([]string{"java.net.BindException"}, "x"),
		"another package":          Of([]string{"com.acme.ConnectException"}, "x"),
		"no type":                  Of([]string{}, "x"),
		"the type in the message":  Of([]string{}, "java.net.ConnectException\nx"),
		"the order of the types":   Of([]string{"java.io.IOException", "java.net.ConnectException"}, "x"),
		"the message in the type":  Of([]string{"x"}, "java.net.ConnectException"),
		"the same, without a text": Of([]string{"java.net.ConnectException"}, ""),
	} {
		if got == base {
			t.Errorf("%s: not told apart", what)
		}
	}
	if a, b := Of([]string{"App$$Lambda$14/0x0000000800c03000"}, "x"), Of([]string{"App$$Lambda$9/0x0000000800c11c00"}, "x"); a != b {
		t.Errorf("generated names are told apart: %s, %s", a, b)
	}
	if a, b := Of([]string{strings.Repeat("E", 5000)}, "x"), Of([]string{strings.Repeat("E", 6000)}, "x"); a != b {
		t.Errorf("a type is read beyond its bound: %s, %s", a, b)
	}
}

var signature = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,118}[A-Za-z0-9])?$`)

func TestAppend(t *testing.T) {
	for _, tc := range []struct{ signature, want string }{
		{"tool-exception", "tool-exception-0a1b2c3d"},
		{strings.Repeat("s", 111), strings.Repeat("s", 111) + "-0a1b2c3d"},
		{strings.Repeat("s", 112), strings.Repeat("s", 111) + "-0a1b2c3d"},
		{strings.Repeat("s", 109) + "-._" + strings.Repeat("s", 8), strings.Repeat("s", 109) + "-0a1b2c3d"},
		{"s" + strings.Repeat("-", 118) + "s", "s-0a1b2c3d"},
	} {
		got := Append(tc.signature, "0a1b2c3d")
		if got != tc.want || !signature.MatchString(got) {
			t.Errorf("Append(%q) = %q, want %q", tc.signature, got, tc.want)
		}
	}
}

// longNumber is one that no code has.
var longNumber = regexp.MustCompile("[0-9]{9}")

func FuzzNormalise(f *testing.F) {
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if fields := strings.Split(line, "\t"); len(fields) > 1 {
			if message, err := strconv.Unquote(fields[1]); err == nil {
				f.Add("E", message)
			}
		}
	}
	for _, message := range adversarial {
		f.Add(message, strings.Repeat(message, 400))
	}
	f.Fuzz(func(t *testing.T, exception, message string) {
		once := Normalise(message)
		if len(once) > maxOutput || !utf8.ValidString(once) || strings.ContainsAny(once, "\"'`\x1b\n") || longNumber.MatchString(once) {
			t.Fatalf("Normalise(%q) = %q", message, once)
		}
		if twice := Normalise(once); twice != once {
			t.Fatalf("%q becomes %q, then %q", message, once, twice)
		}
		fingerprint := Of([]string{exception}, message)
		if len(fingerprint) != Length || strings.Trim(fingerprint, "0123456789abcdef") != "" {
			t.Fatalf("fingerprint %q", fingerprint)
		}
		if again := Of([]string{exception}, once); again != fingerprint {
			t.Fatalf("%q has %s, its normal form %s", message, fingerprint, again)
		}
		if folded := Normalise(asciiUpper(message)); !strings.ContainsAny(message, "mM\x1b") && folded != once {
			t.Fatalf("%q gives %q, in capitals %q", message, once, folded)
		}
	})
}

func asciiUpper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// adversarial are units that make the most of what is read ahead.
var adversarial = []string{
	"'", "\"", "\\\"", "“", "'a\"b`", "{\"a\":", ",\"a\":\"'", "\x1b[", "\x1b]", "<", "<dur> ", "1 s ", "1s", "1:", "a:b:", "1.1.1.", "1-", "Jun ", "Jun 1 ",
	"/tmp/", "://", "?", "a/?", "[redacted:", "\xff", "µ", "0x", "a1", "word ",
	"a.co", "a.b@", "C:\\temp\\", "C:\\x\\", "%temp%", "code 1 ", "exit ", "http/1 2", "E1234", "E-123", "12 MB", "1,1 ",
}

// BenchmarkNormalise shows that the time grows with the length, whatever the text.
func BenchmarkNormalise(b *testing.B) {
	for _, unit := range append([]string{"Post \"https://tool.example.com/mcp\": dial tcp 10.0.0.20:8080: connect: connection refused after 30s; "}, adversarial...) {
		for _, size := range []int{8, 16} {
			text := strings.Repeat(unit, size<<10/len(unit))
			b.Run(fmt.Sprintf("%.12q/%dKiB", unit, size), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					Normalise(text)
				}
			})
		}
	}
}
