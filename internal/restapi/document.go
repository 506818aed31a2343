package restapi

import (
	_ "embed"
	"net/http"
)

// Document describes the API as OpenAPI 3.0. Tests hold the handlers to it.
//
//go:embed openapi.yaml
var Document []byte

// serveDocument serves the document. It says nothing that is not public, so nobody need sign in for it.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(Document)
}
