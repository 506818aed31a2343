package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// tool is one that was created so many seconds after the first.
func tool(namespace, name, calledAs string, after time.Duration) *v1alpha1.Tool {
	created := time.Date(2026, 5, 23, 14, 0, 0, 0, time.UTC).Add(after)
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.ToolSpec{ToolName: v1alpha1.ToolName(calledAs)},
	}
}

func cacheOf(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&v1alpha1.Tool{}, CalledAsIndex, IndexCalledAs).Build()
}

func TestTheOldestToolOfANameIsFound(t *testing.T) {
	cache := cacheOf(t, tool("shop", "young", "search", 2*time.Second), tool("shop", "old", "search", time.Second), tool("shop", "search", "find", 0),
		tool("shop", "weather", "", 0), tool("other", "oldest", "search", 0), tool("shop", "b", "twin", time.Second), tool("shop", "a", "twin", time.Second))
	for _, tc := range []struct{ name, calledAs, want string }{
		{"of two the older, wherever an older one of another namespace", "search", "old"},
		{"by its spec, not by its name", "find", "search"},
		{"by its name where its spec says none", "weather", "weather"},
		{"of two of one second the first by name", "twin", "a"},
		{"none", "nowhere", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := Find(t.Context(), cache, "shop", tc.calledAs)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if found != nil {
				got = found.Name
			}
			if got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
	names, err := Names(t.Context(), cache, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"search": true, "find": true, "weather": true, "twin": true}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestEndpointHost(t *testing.T) {
	mcp := func(url v1alpha1.URL) *v1alpha1.ToolEndpoint {
		return &v1alpha1.ToolEndpoint{MCP: &v1alpha1.MCPEndpoint{URL: url}}
	}
	for _, tc := range []struct {
		name     string
		endpoint *v1alpha1.ToolEndpoint
		want     string
	}{
		{"a host with a port", mcp("https://tools.example.com:8443/mcp"), "tools.example.com:8443"},
		{"a host in upper case is left to the rules", mcp("https://TOOLS.example.com"), "TOOLS.example.com"},
		{"an address", mcp("http://[::1]:80/"), "[::1]:80"},
		{"an HTTP endpoint", &v1alpha1.ToolEndpoint{HTTP: &v1alpha1.HTTPEndpoint{URL: "https://api.example.com/v1"}}, "api.example.com"},
		{"no endpoint", nil, ""},
		{"an empty endpoint", &v1alpha1.ToolEndpoint{}, ""},
		{"no URL at all", mcp("https://%zz"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := EndpointHost(&v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Endpoint: tc.endpoint}}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := EndpointHost(nil); got != "" {
		t.Errorf("without a Tool: %q", got)
	}
}
