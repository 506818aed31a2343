package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const (
	// account is the service account of an agent runtime, and audience what its tokens are for.
	account, audience = "agent-runtime", "agrajag"
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 10
)

// accountManifest makes the account, the right to make tokens of it, and the right to read Events, which every cluster's
// own viewers have.
const accountManifest = `apiVersion: v1
kind: ServiceAccount
metadata: {name: ` + account + `, namespace: ` + namespace + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: token-maker}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [` + account + `], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: event-reader}
rules:
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [get, list, watch]}
`

// caFile names the file by which the REST API is trusted.
func (s *stage) caFile() string { return filepath.Join(s.dir, "ca.crt") }

// overHTTP does what docs/integrate.md describes: before a call, after one that failed, after one that worked.
func (s *stage) overHTTP(ctx context.Context) error {
	args := []string{"create", "token", account, "--audience=" + audience}
	token, err := s.kubectl(ctx, you, "", args...)
	if err != nil {
		return fmt.Errorf("kubectl %s: %s: %w", strings.Join(args, " "), token, err)
	}
	show(you, args, token[:min(len(token), 24)]+"...\n")
	pem, err := os.ReadFile(s.caFile())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer caller.CloseIdleConnections()
	for _, step := range []struct{ method, path, body, want string }{
		{http.MethodGet, "/tools/inventory/health?user=carol", "", `"state": "DOWN"`},
		{http.MethodPost, "/errors", `{"toolName":"search","originatingUserId":"carol","error":{"httpStatus":429,"headers":{"Retry-After":"90"}}}`, `"retryAfterSeconds": 90`},
		{http.MethodPost, "/successes", `{"toolName":"search","originatingUserId":"carol"}`, `"state": "OK"`},
	} {
		if err := s.request(ctx, caller, strings.TrimSpace(token), step.method, step.path, step.body, step.want); err != nil {
			return err
		}
	}
	return nil
}

// request sends one request, shows it and the answer as a terminal would, and fails unless the answer holds what is wanted.
func (s *stage) request(ctx context.Context, caller *http.Client, token, method, path, body, want string) error {
	url := s.api + "/v1/projects/" + namespace + path
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	fmt.Printf("  %s$ curl --cacert ca.crt -H \"Authorization: Bearer $TOKEN\" '%s'", agent, url)
	if body != "" {
		fmt.Printf(" \\\n      --json '%s'", body)
	}
	fmt.Println()
	response, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	var shown bytes.Buffer
	if err := json.Indent(&shown, bytes.TrimSpace(answer), "    ", "  "); err != nil {
		return fmt.Errorf("%s %s: %s: %w", method, path, answer, err)
	}
	fmt.Printf("    %s\n", shown.String())
	if response.StatusCode != http.StatusOK || !strings.Contains(shown.String(), want) {
		return fmt.Errorf("%s %s: %s should hold %s", method, path, response.Status, want)
	}
	return nil
}
