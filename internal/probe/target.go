package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// MaxInput bounds the arguments of a probe, in bytes of JSON (ToolProbe.input).
const MaxInput = 16 << 10

// Why a Tool has no Target. The text of the error tells a person what to write instead.
var (
	// ErrDisabled means that spec.diagnosis keeps diagnoses away from the tool.
	ErrDisabled = errors.New("diagnosis is disabled")
	// ErrNoEndpoint means that the Tool does not say where the tool is.
	ErrNoEndpoint = errors.New("no usable endpoint")
	// ErrNotSafe means that the Tool declares nothing that a probe may call.
	ErrNotSafe = errors.New("nothing is declared that a probe may call")
	// ErrInput means that spec.probe.input cannot be sent.
	ErrInput = errors.New("the probe's input cannot be used")
)

// Target is what a probe of a tool may call. It is made from the Tool alone, by TargetOf.
type Target struct {
	// Tool is what agents call the tool.
	Tool string
	// Host is the host that is called, without port, in lower case.
	Host string
	// Input is spec.probe.input, the arguments of a probe unless a model chooses others.
	Input Input
	// AllowModelInput is true if a model may choose arguments in the place of Input.
	AllowModelInput bool

	timeout time.Duration
	url     *url.URL
	http    *httpCall // exactly one of http and mcp is set
	mcp     *mcpCall
	expect  v1alpha1.ProbeExpectation
	header  string // carries the credential
	scheme  string // stands before the token
}

// httpCall is the request of a probe over HTTP, its URL apart.
type httpCall struct {
	method  string
	headers http.Header
	body    string
}

// mcpCall is the call of a probe over MCP.
type mcpCall struct{ tool string }

// TargetOf returns what a probe of the tool may call. The error is one of ErrDisabled, ErrNoEndpoint, ErrNotSafe and
// ErrInput, and its text says what to write instead.
func TargetOf(tool *v1alpha1.Tool) (Target, error) {
	if tool.Spec.Diagnosis == v1alpha1.DiagnosisDisabled {
		return Target{}, fmt.Errorf("%w: set spec.diagnosis to Enabled to have errors of this tool diagnosed", ErrDisabled)
	}
	probe := v1alpha1.ToolProbe{}
	if tool.Spec.Probe != nil {
		probe = *tool.Spec.Probe
	}
	t := Target{Tool: tool.CalledAs(), timeout: timeoutOf(probe), header: "Authorization", scheme: "Bearer"}
	if probe.Expect != nil {
		t.expect = *probe.Expect.DeepCopy()
	}
	if c := tool.Spec.Credentials; c != nil {
		if c.Header != "" {
			t.header = c.Header
		}
		if c.Scheme != nil {
			t.scheme = *c.Scheme
		}
	}
	if err := t.setCall(tool.Spec.Endpoint, tool.Spec.Safety, probe.ReadOnlyCall); err != nil {
		return Target{}, err
	}
	if probe.Input != nil {
		t.Input.JSON = bytes.Clone(probe.Input.Raw)
	}
	// Over HTTP there is no schema that a model's arguments could be held against.
	t.AllowModelInput = probe.AllowModelInput && t.mcp != nil
	if _, err := t.arguments(t.Input); err != nil {
		return Target{}, err
	}
	return t, nil
}

func timeoutOf(probe v1alpha1.ToolProbe) time.Duration {
	timeout := time.Duration(probe.TimeoutSeconds) * time.Second
	if timeout <= 0 {
		return defaultTimeout
	}
	return min(timeout, maxTimeout)
}

// setCall sets what is called: the endpoint itself if the tool is safe, else its read-only call. A read-only call
// has precedence, because whoever declares one wants that to be called.
func (t *Target) setCall(endpoint *v1alpha1.ToolEndpoint, safety v1alpha1.Safety, readOnly *v1alpha1.ReadOnlyCall) error {
	var err error
	switch {
	case endpoint == nil || endpoint.MCP == nil && endpoint.HTTP == nil:
		return fmt.Errorf("%w: set spec.endpoint.mcp or spec.endpoint.http to have the tool probed", ErrNoEndpoint)
	case endpoint.MCP != nil && endpoint.HTTP != nil:
		return fmt.Errorf("%w: set only one of spec.endpoint.mcp and spec.endpoint.http", ErrNoEndpoint)
	case endpoint.MCP != nil:
		t.url, err = parseURL("spec.endpoint.mcp.url", endpoint.MCP.URL)
	default:
		t.url, err = parseURL("spec.endpoint.http.url", endpoint.HTTP.URL)
	}
	if err != nil {
		return err
	}
	t.Host = lower(t.url.Hostname())
	if safety != v1alpha1.SafetySafeProbe && readOnly == nil {
		return fmt.Errorf("%w: if a call changes nothing set spec.safety to SAFE_PROBE, else declare one that changes nothing as "+
			"spec.probe.readOnlyCall", ErrNotSafe)
	}
	if endpoint.MCP != nil {
		return t.setMCP(endpoint.MCP, readOnly)
	}
	return t.setHTTP(endpoint.HTTP, readOnly)
}

func (t *Target) setMCP(endpoint *v1alpha1.MCPEndpoint, readOnly *v1alpha1.ReadOnlyCall) error {
	t.mcp = &mcpCall{tool: string(endpoint.Tool)}
	if t.mcp.tool == "" {
		t.mcp.tool = t.Tool
	}
	if readOnly == nil {
		return nil
	}
	if readOnly.MCP == nil || readOnly.HTTP != nil {
		return fmt.Errorf("%w: beside spec.endpoint.mcp, spec.probe.readOnlyCall must be mcp", ErrNotSafe)
	}
	t.mcp.tool = string(readOnly.MCP.Tool)
	return nil
}

func (t *Target) setHTTP(endpoint *v1alpha1.HTTPEndpoint, readOnly *v1alpha1.ReadOnlyCall) error {
	t.http = &httpCall{method: endpoint.Method, headers: make(http.Header), body: endpoint.Body}
	for name, value := range endpoint.Headers {
		if !isToken(name) || !isHeaderValue(string(value)) {
			return fmt.Errorf("%w: spec.endpoint.http.headers: %q is no HTTP header: its name or value holds a character that headers "+
				"may not hold", ErrNoEndpoint, name)
		}
		t.http.headers.Set(name, string(value))
	}
	if t.http.method == "" {
		t.http.method = http.MethodGet
	}
	if readOnly == nil {
		return nil
	}
	if readOnly.HTTP == nil || readOnly.MCP != nil {
		return fmt.Errorf("%w: beside spec.endpoint.http, spec.probe.readOnlyCall must be http", ErrNotSafe)
	}
	return t.setReadOnlyHTTP(readOnly.HTTP)
}

// setReadOnlyHTTP replaces method, path and body, and the headers that speak of them.
func (t *Target) setReadOnlyHTTP(call *v1alpha1.HTTPReadOnlyCall) error {
	method := call.Method
	if method == "" {
		method = http.MethodGet
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method) {
		return fmt.Errorf("%w: spec.probe.readOnlyCall.http.method must be GET, HEAD or OPTIONS, not %q", ErrNotSafe, method)
	}
	u, err := onSameHost(t.url, call.Path)
	if err != nil {
		return err
	}
	t.url, t.http.method, t.http.body = u, method, ""
	// The last three make some servers treat a GET as another method.
	for _, name := range []string{"Content-Type", "Content-Encoding", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		t.http.headers.Del(name)
	}
	return nil
}

// onSameHost returns the URL of path on base's scheme, host and port. A path that some client or proxy could read as
// another host is refused.
func onSameHost(base *url.URL, path string) (*url.URL, error) {
	bad := !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(r rune) bool {
		return r == '\\' || r <= ' ' || r == 0x7f
	})
	if bad {
		return nil, fmt.Errorf("%w: spec.probe.readOnlyCall.http.path must begin with a single / and hold no \\ and no white space, not %q",
			ErrNotSafe, path)
	}
	ref, err := url.Parse(path)
	if err != nil || ref.Scheme != "" || ref.Host != "" || ref.User != nil || ref.Opaque != "" {
		return nil, fmt.Errorf("%w: spec.probe.readOnlyCall.http.path must be a path such as /healthz?deep=1, not %q", ErrNotSafe, path)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: ref.Path, RawPath: ref.RawPath, RawQuery: ref.RawQuery}, nil
}

func parseURL(field string, raw v1alpha1.URL) (*url.URL, error) {
	u, err := url.Parse(string(raw))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%w: %s must be an address such as https://tools.example.com/v1, not %q", ErrNoEndpoint, field, raw)
	case u.User != nil:
		return nil, fmt.Errorf("%w: %s must not hold a user or password: see spec.credentials", ErrNoEndpoint, field)
	case !isHostName(u.Hostname()):
		return nil, fmt.Errorf("%w: the host in %s must be an IP address in its usual form, or a name of letters, digits, dots and "+
			"hyphens (an international one as xn--...), not %q", ErrNoEndpoint, field, u.Hostname())
	case !isPort(u.Port()):
		return nil, fmt.Errorf("%w: the port in %s must be from 1 to 65535, not %s", ErrNoEndpoint, field, u.Port())
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// isHostName reports whether everybody reads the host alike. Others are names to some and addresses to others: 127.1 and
// 0x7f.1 by the rules of C, full-width digits and dots by those of international names.
func isHostName(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if strings.ContainsFunc(host, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '_'
	}) {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	return !slices.Contains(labels, "") && !isNumber(labels[len(labels)-1])
}

// isNumber reports whether the last label of a host makes some parsers read the host as an IPv4 address: decimal or
// octal digits, or hexadecimal ones behind 0x.
func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(lower(label), "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

func isPort(port string) bool {
	if port == "" {
		return true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// port returns the port that is called, be it the scheme's own.
func (t Target) port() string {
	if port := t.url.Port(); port != "" {
		return port
	}
	if t.url.Scheme == "https" {
		return "443"
	}
	return "80"
}

// mayBeCalled returns why this probe must not be made, nil if it may.
func (t Target) mayBeCalled(id Identity, input Input) error {
	if t.url == nil || (t.http == nil) == (t.mcp == nil) {
		return fmt.Errorf("%w: set spec.endpoint to have the tool probed", ErrNoEndpoint)
	}
	if _, err := t.arguments(input); err != nil {
		return err
	}
	if input.ByModel && !t.AllowModelInput {
		return fmt.Errorf("%w: spec.probe.allowModelInput is not set, so only spec.probe.input is sent", ErrInput)
	}
	if id.Credential != nil {
		return id.Credential.Check(t)
	}
	return nil
}

// arguments returns input as an object, with numbers as they are written. The error is ErrInput.
func (t Target) arguments(input Input) (map[string]any, error) {
	name := "spec.probe.input"
	if input.ByModel {
		name = "the input"
	}
	if len(input.JSON) == 0 {
		return nil, nil
	}
	if len(input.JSON) > MaxInput {
		return nil, fmt.Errorf("%w: %s must be at most %d bytes as JSON, not %d", ErrInput, name, MaxInput, len(input.JSON))
	}
	decoder := json.NewDecoder(bytes.NewReader(input.JSON))
	decoder.UseNumber()
	var args map[string]any
	if err := decoder.Decode(&args); err != nil || args == nil {
		return nil, fmt.Errorf("%w: %s must be an object, as in {q: health}", ErrInput, name)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s must be one object with nothing behind it", ErrInput, name)
	}
	if t.http != nil {
		if _, err := queryOf(args); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// queryOf returns args as query parameters: a list becomes one parameter for each element.
func queryOf(args map[string]any) (url.Values, error) {
	query := make(url.Values, len(args))
	for name, value := range args {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, element := range list {
			switch element.(type) {
			case string, bool, json.Number:
				query.Add(name, fmt.Sprint(element))
			default:
				return nil, fmt.Errorf("%w: spec.probe.input[%q] goes into the query of an HTTP request, so it must be a string, a number, "+
					"a boolean or a list of these", ErrInput, name)
			}
		}
	}
	return query, nil
}

// isToken reports whether s can be a header's name (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alphanumeric := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isHeaderValue reports whether s can be a header's value: no control character can end the header early.
func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// lower folds A to Z and nothing else: hosts are compared as they are sent, and Unicode's folding makes different
// characters equal.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
