package redact

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// IsSecretHeader reports whether a header of that name carries a credential, whatever its value looks like.
func IsSecretHeader(name string) bool { return secretHeaders.MatchString(name) }

var secretHeaders = regexp.MustCompile(`(?i)^(?:(?:proxy-)?authorization|(?:set-)?cookie2?|mcp-session-id|(?:x-)?session-id|x-functions-key|` +
	`ocp-apim-subscription-key|.*api-?key|.*-(?:token|secret|password|passwd|credential|signature)|token)$`)

// scheme is what stands before the credentials in an Authorization header (RFC 9110 §11.4).
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,31} +`)

// maxHeaderName bounds the name of a header, as the schema does.
const maxHeaderName = 256

// headers cleans the headers of a reported error.
func headers(e *v1alpha1.ToolError) bool {
	before := len(e.Headers)
	maps.DeleteFunc(e.Headers, func(name string, _ v1alpha1.HeaderValue) bool {
		return name == "" || len(name) > maxHeaderName || Text(name) != name
	})
	for _, name := range excess(e.Headers, v1alpha1.MaxErrorHeaders) {
		delete(e.Headers, name)
	}
	changed := len(e.Headers) != before
	for name, value := range e.Headers {
		if clean := header(name, string(value)); clean != string(value) {
			e.Headers[name], changed = v1alpha1.HeaderValue(clean), true
		}
	}
	return changed
}

// header cleans the value of one header.
func header(name, value string) string {
	clean := Cut(value, v1alpha1.MaxHeaderValue)
	if !IsSecretHeader(name) || clean == "" {
		return clean
	}
	// A scheme stays: it tells what kind of credential was sent. It is looked for in the clean value, where it still is.
	kept := ""
	if strings.HasSuffix(strings.ToLower(name), "authorization") {
		kept = scheme.FindString(clean)
	}
	if rest := strings.TrimPrefix(clean, kept); isPlaceholder(rest) || isFault(rest) {
		return clean
	}
	return kept + placeholder(strings.TrimPrefix(value, kept))
}

// excess returns the names, in a stable order, by which a map of headers is larger than limit.
func excess(headers map[string]v1alpha1.HeaderValue, limit int) []string {
	if len(headers) <= limit {
		return nil
	}
	return slices.Sorted(maps.Keys(headers))[limit:]
}
