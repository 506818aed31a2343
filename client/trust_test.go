package client

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agrajag-dev/agrajag/api/rest"
)

func TestTheAPIIsTrustedByAFileThatMayChange(t *testing.T) {
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"state":"DOWN"}`))
	}))
	defer service.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := func() (string, error) { return "token", nil }
	health := func(c *Client) string {
		h, err := c.Health(t.Context(), "search", Caller{})
		if err != nil {
			return err.Error()
		}
		return h.State
	}
	o := Options{URL: service.URL, Project: "shop", Token: token, CAFile: file}
	if _, err := New(o); err == nil {
		t.Error("a file that is not there is a mistake")
	}
	write([]byte("no certificate"))
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "no certificate in "+file) {
		t.Errorf("a file without a certificate: %v", err)
	}
	write(own)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := health(c); got != "DOWN" {
		t.Errorf("with its certificate: %s", got)
	}
	// Another host under the same certificate is not the API.
	elsewhere := o
	elsewhere.URL = strings.Replace(service.URL, "127.0.0.1", "localhost", 1)
	other, err := New(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if got := health(other); !strings.Contains(got, "certificate is valid for") {
		t.Errorf("under another name: %s", got)
	}
	// A certificate that is renewed counts for the next connection.
	write([]byte("gone"))
	c.http.CloseIdleConnections()
	if got := health(c); !strings.Contains(got, "no certificate in") {
		t.Errorf("with nothing to trust: %s", got)
	}
	write(own)
	if got := health(c); got != "DOWN" {
		t.Errorf("with its certificate again: %s", got)
	}
	system := o
	system.CAFile = ""
	if other, err = New(system); err != nil {
		t.Fatal(err)
	}
	if got := health(other); !strings.Contains(got, "unknown authority") {
		t.Errorf("trusting the system: %s", got)
	}
}

func TestACallMayEndAfterItsGuard(t *testing.T) {
	api := &fakeAPI{}
	g := NewGuard(api, GuardOptions{})
	g.Failed(t.Context(), "search", rest.ToolError{HTTPStatus: 500})
	finish(t, g)
	finish(t, g) // A second time does nothing.
	g.Failed(context.Background(), "search", rest.ToolError{HTTPStatus: 500})
	if err := g.Before(t.Context(), "search"); err != nil {
		t.Errorf("a call after the end: %v", err)
	}
	if len(api.reports) != 1 || g.Dropped() != 1 {
		t.Errorf("%d reports, %d dropped", len(api.reports), g.Dropped())
	}
}
