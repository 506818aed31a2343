package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// canary stands for what a server tells whoever may ask it, and the readers of a status may not know.
const canary = "canary-7f3a9c51e2"

// TestASuccessIsNeverTold: whatever a Tool says to make a success look like a failure, what the server said in it
// is in no Result, and so in no status, Event, log or prompt.
func TestASuccessIsNeverTold(t *testing.T) {
	bodies := map[string]string{
		"text/plain":               canary,
		"text/html":                "<html>" + canary + "</html>",
		"application/json":         `{"secret":"` + canary + `"}`,
		"application/json; list":   `["` + canary + `"]`,
		"application/json; string": `"` + canary + `"`,
		"application/json; broken": `{"secret":` + canary,
		"application/json; rpc":    `{"jsonrpc":"2.0","id":1,"result":{"secret":"` + canary + `"}}`,
		"application/json; other":  `{"jsonrpc":"2.0","id":"` + canary + `","result":{}}`,
		"application/json; method": `{"jsonrpc":"2.0","method":"` + canary + `"}`,
		"application/json; type":   `{"jsonrpc":"2.0","id":1,"result":"` + canary + `"}`,
		"text/event-stream":        "data: " + canary + "\n\n",
		"text/event-stream; json":  `data: {"secret":"` + canary + `"}` + "\n\n",
		"text/event-stream; field": canary + ": 1\n" + canary + "\n\n",
	}
	for _, status := range []int{200, 206} {
		for kind, body := range bodies {
			t.Run(fmt.Sprintf("%d %s", status, kind), func(t *testing.T) {
				t.Parallel()
				url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", strings.Split(kind, ";")[0])
					w.Header().Set("X-Secret", canary)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				})
				for name, change := range map[string]func(*v1alpha1.ToolSpec){
					"as it comes": func(*v1alpha1.ToolSpec) {}, "another text": expect(nil, "nonesuch"),
					"another status": expect([]int32{500}, ""), "another status and text": expect([]int32{404}, "nonesuch"),
				} {
					// Over MCP some of these answers are to nothing that was asked, so they are waited out.
					for over, tool := range map[string]*v1alpha1.Tool{"http": httpTool(url, change), "mcp": mcpTool(url, change)} {
						if got := told(t, probeFor(t, tool, 300*time.Millisecond)); strings.Contains(got, canary) {
							t.Errorf("%s over %s: got %s", name, over, got)
						}
					}
				}
			})
		}
	}
}

// TestAnMCPSuccessIsNeverTold: nor what a tool answers in its own terms.
func TestAnMCPSuccessIsNeverTold(t *testing.T) {
	for name, result := range map[string]string{
		"text":                `"result":{"content":[{"type":"text","text":"` + canary + `"}]}`,
		"structured content":  `"result":{"content":[],"structuredContent":{"secret":"` + canary + `"}}`,
		"a resource":          `"result":{"content":[{"type":"resource","resource":{"uri":"a:b","text":"` + canary + `"}}]}`,
		"a link":              `"result":{"content":[{"type":"resource_link","uri":"https://` + canary + `","name":"` + canary + `"}]}`,
		"an image":            `"result":{"content":[{"type":"image","mimeType":"` + canary + `","data":"Y2FuYXJ5"}]}`,
		"a content unknown":   `"result":{"content":[{"type":"` + canary + `"}]}`,
		"content of no shape": `"result":{"content":"` + canary + `"}`,
		"meta":                `"result":{"_meta":{"secret":"` + canary + `"},"content":[]}`,
		"a field unknown":     `"result":{"secret":"` + canary + `","content":[]}`,
	} {
		url := between(t, func(w http.ResponseWriter, r *http.Request, method string) bool {
			if method != "tools/call" {
				return false
			}
			var call struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&call)
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, call.ID, result)
			return true
		})
		got := probe(t, mcpTool(url, expect(nil, "nonesuch")), system)
		if said := told(t, got); strings.Contains(said, canary) || got.Success {
			t.Errorf("%s: got %s", name, said)
		}
	}
}

// probeFor probes as the system for no longer than the timeout, which may be shorter than a Tool's can be.
func probeFor(t *testing.T, tool *v1alpha1.Tool, timeout time.Duration) Result {
	t.Helper()
	target := target(t, tool)
	target.timeout = timeout
	return prober(t).Probe(t.Context(), target, system, target.Input)
}

// told returns all that a Result holds.
func told(t *testing.T, r Result) string {
	t.Helper()
	all, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// raw serves what say writes to each connection, after the head of the request was read.
func raw(t *testing.T, say func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					say(conn)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// forever writes s again and again, until the client is gone.
func forever(conn net.Conn, s string, pause time.Duration) {
	for {
		if _, err := io.WriteString(conn, s); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// TestServersThatNeverEndAreBounded: in time, or in what is read.
func TestServersThatNeverEndAreBounded(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	drip := 50 * time.Millisecond
	for _, tc := range []struct {
		name string
		say  func(net.Conn)
		want string // in the message or the types of the failure
	}{
		{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, timeoutType},
		{"a drip of a status line", func(c net.Conn) { forever(c, "H", drip) }, timeoutType},
		{"a drip of headers", func(c net.Conn) { _, _ = io.WriteString(c, ok); forever(c, "X-A: b\r\n", drip) }, timeoutType},
		{"a drip within one header", func(c net.Conn) { _, _ = io.WriteString(c, ok+"X: "); forever(c, "x", drip) }, timeoutType},
		{"a drip of a body", func(c net.Conn) { _, _ = io.WriteString(c, ok+"\r\n"); forever(c, " ", drip) }, timeoutType},
		{"a drip of chunks", func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n")
			forever(c, "1\r\n \r\n", drip)
		}, timeoutType},
		{"headers without end", func(c net.Conn) { _, _ = io.WriteString(c, ok); forever(c, "X-A: b\r\n", 0) }, "header"},
		{"one header without end", func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"X: ")
			forever(c, strings.Repeat("x", 4096), 0)
		}, "header"},
		{"a status line without end", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 ")
			forever(c, strings.Repeat("x", 4096), 0)
		}, ""},
		{"trailers without end", func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n")
			forever(c, "X: y\r\n", 0)
		}, ""},
		{"a chunk line without end", func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n")
			forever(c, "1", 0)
		}, ""},
		{"a storm of 100 Continue", func(c net.Conn) { forever(c, "HTTP/1.1 100 Continue\r\n\r\n", 0) }, ""},
		{"a storm of 103 Early Hints", func(c net.Conn) { forever(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0) }, ""},
		{"a drip of 102 Processing", func(c net.Conn) { forever(c, "HTTP/1.1 102 Processing\r\n\r\n", drip) }, timeoutType},
		{"a length that is a lie, and then silence", func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Content-Length: 1000\r\n\r\n{")
			_, _ = io.Copy(io.Discard, c)
		}, timeoutType},
		{"a length that is a lie, and then the end", func(c net.Conn) { _, _ = io.WriteString(c, ok+"Content-Length: 9223372036854775807\r\n\r\n{") }, "unexpected EOF"},
		{"a length that is none", func(c net.Conn) { _, _ = io.WriteString(c, ok+"Content-Length: -1\r\n\r\n{") }, "Content-Length"},
		{"two lengths", func(c net.Conn) { _, _ = io.WriteString(c, ok+"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}") }, "Content-Length"},
		{"gzip that is none", func(c net.Conn) { _, _ = io.WriteString(c, ok+"Content-Encoding: gzip\r\n\r\nplain text, not gzip") }, "gzip"},
		{"a switch of protocols", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, "switched protocols"},
		{"HTTP/0.9", func(c net.Conn) { _, _ = io.WriteString(c, "<html>"+canary+"</html>") }, "malformed"},
		{"another protocol's greeting", func(c net.Conn) { _, _ = io.WriteString(c, "220 mail "+canary+" ESMTP\r\n") }, "malformed"},
		{"a header without colon", func(c net.Conn) { _, _ = io.WriteString(c, ok+canary+"\r\n\r\n") }, "malformed"},
		{"an encoding unknown", func(c net.Conn) { _, _ = io.WriteString(c, ok+"Transfer-Encoding: \""+canary+"\r\n\r\n") }, "unsupported transfer encoding"},
		{"a status that is none", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 "+canary+"\r\n\r\n") }, "malformed"},
		{"HTTP/2 unasked", func(c net.Conn) {
			_, _ = io.WriteString(c, "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\x00\x04\x00\x01\x00\x00")
		}, "malformed"},
	} {
		for _, kind := range []string{"http", "mcp"} {
			t.Run(tc.name+" over "+kind, func(t *testing.T) {
				t.Parallel()
				url, timeout := raw(t, tc.say), time.Minute
				if tc.want == timeoutType {
					timeout = 300 * time.Millisecond // The others end for another reason.
				}
				tool := httpTool(url)
				if kind == "mcp" {
					tool = mcpTool(url)
				}
				start := time.Now()
				got := probeFor(t, tool, timeout)
				if took := time.Since(start); took > hangs {
					t.Errorf("it took %s", took)
				}
				said := told(t, got)
				if strings.Contains(said, canary) {
					t.Errorf("what the server sent is told: %s", said)
				}
				if got.Success || got.Error == nil || !strings.Contains(said, tc.want) || len(said) > 16<<10 {
					t.Errorf("got %.2000s, want a failure with %q", said, tc.want)
				}
			})
		}
	}
}

// TestALengthThatIsShorterThanTheBodyCounts: what follows is no answer.
func TestALengthThatIsShorterThanTheBodyCounts(t *testing.T) {
	url := raw(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n")
	})
	if got := probe(t, httpTool(url, expect(nil, "ok")), system); !got.Success {
		t.Errorf("got %+v %+v", got, got.Error)
	}
	if got := probe(t, httpTool(url, expect(nil, "500")), system); got.Success {
		t.Error("what stands behind the body was read")
	}
}
