package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/sampletools"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// Tokens that the sample API knows.
const (
	aliceToken, bobToken, systemToken = "token-of-alice", "token-of-bob", "token-of-the-system"
)

// tools are the sample tools.
type tools struct {
	api *sampletools.HTTPAPI
	mcp *sampletools.MCPServer
}

// startTools serves the sample tools and describes them to Agrajag.
func (s *stage) startTools(ctx context.Context) error {
	s.tools = &tools{api: sampletools.NewHTTPAPI(aliceToken, bobToken, systemToken), mcp: sampletools.NewMCPServer()}
	s.tools.api.RequireAuth(true)
	apiURL, stopAPI, err := sampletools.Serve("127.0.0.1:0", s.tools.api)
	if err != nil {
		return err
	}
	mcpURL, stopMCP, err := sampletools.Serve("127.0.0.1:0", s.tools.mcp)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func() error { stopAPI(); stopMCP(); return nil })
	refused, err := sampletools.Refused()
	if err != nil {
		return err
	}
	say("")
	if _, err := s.expect(ctx, you, toolsManifest(apiURL, mcpURL, refused), nil, "apply", "-f", "-"); err != nil {
		return err
	}
	return s.credentials(ctx, apiURL)
}

// toolsManifest describes the tools: where they are, and what a probe may do.
func toolsManifest(apiURL, mcpURL, refused string) string {
	return fmt.Sprintf(`apiVersion: tools.agrajag.dev/v1alpha1
kind: Tool
metadata: {name: search, namespace: %[1]s}
spec:
  endpoint: {http: {url: "%[2]s/v1/search"}}
  safety: SAFE_PROBE
  probe: {input: {q: tea}}
  credentials: {system: {name: search-system}}
---
apiVersion: tools.agrajag.dev/v1alpha1
kind: Tool
metadata: {name: mcp-search, namespace: %[1]s}
spec:
  toolName: mcp_search
  endpoint: {mcp: {url: "%[3]s", tool: search}}
  safety: SAFE_PROBE
  probe: {input: {q: tea}}
---
apiVersion: tools.agrajag.dev/v1alpha1
kind: Tool
metadata: {name: inventory, namespace: %[1]s}
spec:
  endpoint: {http: {url: "%[4]s"}}
  safety: SAFE_PROBE
`, namespace, apiURL, mcpURL, refused)
}

// credentials creates the Secrets with which tools are probed. A token goes only to the hosts that its Secret lists.
func (s *stage) credentials(ctx context.Context, apiURL string) error {
	u, err := url.Parse(apiURL)
	if err != nil {
		return err
	}
	var manifest strings.Builder
	for _, secret := range []struct{ name, kind, token string }{
		{"agrajag-user-" + tenancy.Hash12("alice"), "user-credential", aliceToken},
		{"agrajag-user-" + tenancy.Hash12("bob"), "user-credential", bobToken},
		{"search-system", "system-credential", systemToken},
	} {
		fmt.Fprintf(&manifest, "---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: tools.agrajag.dev/%s\nstringData: {token: %s, hosts: %q}\n",
			secret.name, namespace, secret.kind, secret.token, u.Host)
	}
	return s.env.ApplyYAML(ctx, manifest.String())
}
