package mcpresult

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAFailedResultIsSentAsOnTheWire(t *testing.T) {
	const most = 1000
	long := strings.Repeat("x", most)
	of := func(content ...mcp.Content) *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: true, Content: content}
	}
	for _, tc := range []struct {
		name         string
		result, want *mcp.CallToolResult
	}{
		{"nothing", of(), of()},
		{"one text", of(&mcp.TextContent{Text: "no <such> file & \"more\""}), of(&mcp.TextContent{Text: "no <such> file & \"more\""})},
		{"several, and what is no text", of(&mcp.TextContent{Text: "a"}, &mcp.ImageContent{Data: []byte("x")}, &mcp.TextContent{Text: "b"}), of(&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"})},
		{"a resource in it", of(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "a"}}), of(&mcp.TextContent{Text: "a"})},
		{"structured content alone", &mcp.CallToolResult{StructuredContent: map[string]any{"error": "gone"}}, of(&mcp.TextContent{Text: `{"error":"gone"}`})},
		{"no more than is worth sending", of(&mcp.TextContent{Text: long + "y"}), of(&mcp.TextContent{Text: long})},
		{"nor of several", of(&mcp.TextContent{Text: long[1:]}, &mcp.TextContent{Text: "yz"}, &mcp.TextContent{Text: "z"}), of(&mcp.TextContent{Text: long[1:]}, &mcp.TextContent{Text: "y"})},
	} {
		got := &mcp.CallToolResult{}
		if err := json.Unmarshal([]byte(Body(tc.result, most)), got); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(mcp.CallToolResult{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if got := Body(of(&mcp.TextContent{Text: "<a & b>"}), most); !strings.Contains(got, "<a & b>") {
		t.Errorf("a text is not sent as it stands: %s", got)
	}
}
