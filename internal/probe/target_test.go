package probe

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// httpTool returns a safe tool over HTTP, changed as the test needs it.
func httpTool(address string, changes ...func(*v1alpha1.ToolSpec)) *v1alpha1.Tool {
	tool := &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "library", Namespace: "project"},
		Spec: v1alpha1.ToolSpec{
			Endpoint: &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: v1alpha1.URL(address)}},
			Safety:   v1alpha1.SafetySafeProbe,
			Probe:    &v1alpha1.ToolProbe{TimeoutSeconds: 5},
		},
	}
	for _, change := range changes {
		change(&tool.Spec)
	}
	return tool
}

// mcpTool returns a safe tool over MCP, changed as the test needs it.
func mcpTool(address string, changes ...func(*v1alpha1.ToolSpec)) *v1alpha1.Tool {
	overMCP := func(spec *v1alpha1.ToolSpec) {
		spec.Endpoint = &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: v1alpha1.URL(address), Tool: "search"}}
		spec.Probe.Input = &apiextensionsv1.JSON{Raw: []byte(`{"q":"towel"}`)}
	}
	return httpTool(address, append([]func(*v1alpha1.ToolSpec){overMCP}, changes...)...)
}

func input(raw string) func(*v1alpha1.ToolSpec) {
	return func(spec *v1alpha1.ToolSpec) { spec.Probe.Input = &apiextensionsv1.JSON{Raw: []byte(raw)} }
}

func readOnlyPath(path string) func(*v1alpha1.ToolSpec) {
	return func(spec *v1alpha1.ToolSpec) {
		spec.Safety = v1alpha1.SafetyWrite
		spec.Probe.ReadOnlyCall = &v1alpha1.ReadOnlyCall{HTTP: &v1alpha1.HTTPReadOnlyCall{Path: path}}
	}
}

func target(t *testing.T, tool *v1alpha1.Tool) Target {
	t.Helper()
	target, err := TargetOf(tool)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestAToolThatMayNotBeProbedHasNoTarget(t *testing.T) {
	const address = "http://tool.example/v1"
	for _, tc := range []struct {
		name     string
		tool     *v1alpha1.Tool
		want     error
		wantText string // what a person should write
	}{
		{"nothing is said", &v1alpha1.Tool{}, ErrNoEndpoint, "set spec.endpoint.mcp or spec.endpoint.http"},
		{"an empty endpoint", httpTool(address, func(s *v1alpha1.ToolSpec) { s.Endpoint = &v1alpha1.ToolEndpoint{} }), ErrNoEndpoint, "spec.endpoint.http"},
		{"two endpoints", mcpTool(address, func(s *v1alpha1.ToolSpec) { s.Endpoint.HTTP = &v1alpha1.HTTPEndpoint{URL: address} }), ErrNoEndpoint, "only one of"},
		{"an address without host", httpTool("http:///v1"), ErrNoEndpoint, "https://tools.example.com/v1"},
		{"a file", httpTool("file:///etc/passwd"), ErrNoEndpoint, "spec.endpoint.http.url"},
		{"no address at all", mcpTool("http://[::1"), ErrNoEndpoint, "spec.endpoint.mcp.url"},
		{"a password in the address", httpTool("http://u:p@tool.example/"), ErrNoEndpoint, "spec.credentials"},
		{"a header that ends the headers", httpTool(address, func(s *v1alpha1.ToolSpec) {
			s.Endpoint.HTTP.Headers = map[string]v1alpha1.HeaderValue{"X": "1\r\n\r\n"}
		}), ErrNoEndpoint, "spec.endpoint.http.headers"},
		{"a name that is no header's", httpTool(address, func(s *v1alpha1.ToolSpec) {
			s.Endpoint.HTTP.Headers = map[string]v1alpha1.HeaderValue{"X Y": "1"}
		}), ErrNoEndpoint, "spec.endpoint.http.headers"},
		{"disabled", httpTool(address, func(s *v1alpha1.ToolSpec) { s.Diagnosis = v1alpha1.DiagnosisDisabled }), ErrDisabled, "spec.diagnosis"},
		{"a tool that writes", httpTool(address, func(s *v1alpha1.ToolSpec) { s.Safety = v1alpha1.SafetyWrite }), ErrNotSafe, "spec.probe.readOnlyCall"},
		{"a tool of which nothing is known", httpTool(address, func(s *v1alpha1.ToolSpec) { s.Safety, s.Probe = "", nil }), ErrNotSafe, "SAFE_PROBE"},
		{"a read-only call of the other kind", mcpTool(address, readOnlyPath("/x")), ErrNotSafe, "readOnlyCall must be mcp"},
		{"a read-only call of no kind", httpTool(address, func(s *v1alpha1.ToolSpec) { s.Probe.ReadOnlyCall = &v1alpha1.ReadOnlyCall{} }), ErrNotSafe, "must be http"},
		{"a read-only call that writes", httpTool(address, readOnlyPath("/x"), func(s *v1alpha1.ToolSpec) {
			s.Probe.ReadOnlyCall.HTTP.Method = "DELETE"
		}), ErrNotSafe, "GET, HEAD or OPTIONS"},
		{"input that is a list", httpTool(address, input(`[1]`)), ErrInput, "an object"},
		{"input that is null", httpTool(address, input(`null`)), ErrInput, "an object"},
		{"input that is no JSON", httpTool(address, input(`{`)), ErrInput, "an object"},
		{"input with something behind", httpTool(address, input(`{} {}`)), ErrInput, "one object"},
		{"input that is too large", mcpTool(address, input(`{"q":"`+strings.Repeat("x", MaxInput)+`"}`)), ErrInput, "at most 16384 bytes"},
		{"an object as query parameter", httpTool(address, input(`{"filter":{"a":1}}`)), ErrInput, `spec.probe.input["filter"]`},
		{"a list of lists as query parameter", httpTool(address, input(`{"a":[[1]]}`)), ErrInput, "a list of these"},
		{"null as query parameter", httpTool(address, input(`{"a":null}`)), ErrInput, "a string, a number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := TargetOf(tc.tool)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.wantText)
			}
		})
	}
}

func TestAReadOnlyCallStaysOnTheHost(t *testing.T) {
	base, err := url.Parse("https://tool.example:8443/v1?a=b")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/":                  "https://tool.example:8443/",
		"/healthz?deep=1":    "https://tool.example:8443/healthz?deep=1",
		"/a%2Fb":             "https://tool.example:8443/a%2Fb",
		"/x#fragment":        "https://tool.example:8443/x",
		"/@evil.example/":    "https://tool.example:8443/@evil.example/",
		"/:80@evil.example":  "https://tool.example:8443/:80@evil.example",
		"/http://evil/":      "https://tool.example:8443/http://evil/",
		"/a?u=//evil":        "https://tool.example:8443/a?u=//evil",
		"//evil.example/":    "",
		"///evil.example/":   "",
		`/\evil.example/`:    "",
		`\\evil.example/`:    "",
		"/a\\..\\b":          "",
		"http://evil/":       "",
		"@evil":              "",
		".evil.example/":     "",
		":80":                "",
		"":                   "",
		"/a b":               "",
		"/a\r\nHost: evil":   "",
		"/a\x00":             "",
		"/%zz":               "",
		"\t//evil.example/":  "",
		"/\t/evil.example/x": "",
	} {
		got, err := onSameHost(base, path)
		switch {
		case want == "" && !errors.Is(err, ErrNotSafe):
			t.Errorf("%q: got %v and %v, want ErrNotSafe", path, got, err)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%q: got %v and %v, want %s", path, got, err, want)
		}
	}
}

func FuzzAReadOnlyCallStaysOnTheHost(f *testing.F) {
	for _, seed := range []string{"/x", "//e", "/\\e", "/@e", "/?//e", "/#@e", "/%2f%2fe", "/\u2215\u2215e"} {
		f.Add(seed)
	}
	base := &url.URL{Scheme: "https", Host: "tool.example"}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := onSameHost(base, path)
		if err != nil {
			return
		}
		again, err := url.Parse(got.String())
		if err != nil || again.Scheme != "https" || again.Host != "tool.example" || again.User != nil {
			t.Errorf("%q became %s, read again as %+v (%v)", path, got, again, err)
		}
	})
}

func TestInputBecomesQueryParameters(t *testing.T) {
	for _, tc := range []struct{ name, url, input, want string }{
		{"none", "http://t/v1", "", "http://t/v1"},
		{"an empty object", "http://t/v1", "{}", "http://t/v1"},
		{"scalars as they are written", "http://t/v1", `{"q":"a b&c","n":1e3,"big":12345678901234567890,"t":true}`, "http://t/v1?big=12345678901234567890&n=1e3&q=a+b%26c&t=true"},
		{"a list repeats the parameter", "http://t/v1", `{"id":[2,1]}`, "http://t/v1?id=2&id=1"},
		{"an empty list says nothing", "http://t/v1?x", `{"id":[]}`, "http://t/v1?x"},
		{"beside those of the address", "http://t/v1?z=%20&a", `{"a":"1"}`, "http://t/v1?z=%20&a&a=1"},
		{"a fragment is never sent", "http://t/v1#frag", `{"a":"1"}`, "http://t/v1?a=1"},
		{"nothing but a query", "http://t", `{"a":"/../@evil#?"}`, "http://t?a=%2F..%2F%40evil%23%3F"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := httpTool(tc.url)
			if tc.input != "" {
				input(tc.input)(&tool.Spec)
			}
			r := &run{target: target(t, tool)}
			request, err := r.request(t.Context(), r.target.Input)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, request.URL.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTargetOfReadsTheTool(t *testing.T) {
	target := target(t, mcpTool("https://Tool.Example/mcp", func(s *v1alpha1.ToolSpec) {
		s.ToolName, s.Endpoint.MCP.Tool, s.Probe.TimeoutSeconds = "find books", "", 900
	}))
	if target.Tool != "find books" || target.Host != "tool.example" || target.mcp.tool != "find books" || target.port() != "443" {
		t.Errorf("got %+v", target)
	}
	if target.timeout != maxTimeout {
		t.Errorf("got a timeout of %s, want the most that is allowed", target.timeout)
	}
	if string(target.Input.JSON) != `{"q":"towel"}` {
		t.Errorf("got input %s", target.Input.JSON)
	}
}
