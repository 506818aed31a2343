// Package mcpresult reads what the result of an MCP tool says, and writes a failed one as MCP has it on the wire. That is
// the form that rules know: one may ask whether words stand in an answer that says it is an error.
package mcpresult

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Texts returns the texts of a result, or its structured content as JSON if there is none.
func Texts(result *mcp.CallToolResult) []string {
	var texts []string
	for _, content := range result.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				texts = append(texts, c.Resource.Text)
			}
		}
	}
	if len(texts) == 0 && result.StructuredContent != nil {
		if structured, err := json.Marshal(result.StructuredContent); err == nil {
			texts = append(texts, string(structured))
		}
	}
	return texts
}

// content is a text in a result.
type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Body returns a failed result with the first limit bytes of its texts.
func Body(result *mcp.CallToolResult, limit int) string {
	said := []content{}
	for _, text := range Texts(result) {
		if limit > 0 {
			said = append(said, content{"text", text[:min(len(text), limit)]})
			limit -= len(text)
		}
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // As servers do not: texts are read as they stand.
	_ = encoder.Encode(struct {
		Content []content `json:"content"`
		IsError bool      `json:"isError"`
	}{said, true}) // Nothing in it can fail.
	return strings.TrimSuffix(b.String(), "\n")
}
