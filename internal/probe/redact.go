package probe

import (
	"net/http"
	"slices"
	"strings"

	"github.com/agrajag-dev/agrajag/internal/redact"
)

// secretsOf returns what the probe sends as credentials.
func (t Target) secretsOf(credential *Credential) redact.Values {
	var secrets []string
	if credential != nil {
		secrets = append(secrets, credential.Token)
	}
	return redact.ValuesOf(append(secrets, t.headerSecrets()...)...)
}

// headerSecrets returns the credentials in the Tool's own headers, without the scheme before them. They do not belong
// there, but they are not shown either.
func (t Target) headerSecrets() []string {
	if t.http == nil {
		return nil
	}
	var secrets []string
	for name, values := range t.http.headers {
		if name != t.header && !redact.IsSecretHeader(name) {
			continue
		}
		for _, value := range values {
			if _, token, ok := strings.Cut(value, " "); ok {
				value = token
			}
			secrets = append(secrets, value)
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// setCredential sets the header that carries the credential.
func (t Target) setCredential(headers http.Header, credential *Credential) {
	value := credential.Token
	if t.scheme != "" {
		value = t.scheme + " " + value
	}
	headers.Set(t.header, value)
}
