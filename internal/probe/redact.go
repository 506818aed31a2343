package probe

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// redactor takes secrets out of text that a server wrote: some echo the request in their error pages.
type redactor struct {
	replacer *strings.Replacer // nil: there is no secret
	longest  int               // length of the longest form of a secret, in bytes
}

// redactorOf returns a redactor of the given secrets in the forms that servers commonly give them.
func redactorOf(secrets ...string) redactor {
	var forms []string
	for _, secret := range secrets {
		if secret != "" {
			forms = append(forms, formsOf(secret)...)
		}
	}
	if len(forms) == 0 {
		return redactor{}
	}
	// At one place the longest form must win, or the rest of it would stay.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	return redactor{replacer: strings.NewReplacer(pairs...), longest: len(forms[0])}
}

// formsOf returns the secret as it is and as it looks in URLs, JSON, HTML and Base64. Of a secret that is Base64
// itself, as Basic credentials are, it returns what it encodes, too.
func formsOf(secret string) []string {
	forms := []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		html.EscapeString(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.RawStdEncoding.EncodeToString([]byte(secret)),
		base64.URLEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	if plain, err := base64.StdEncoding.DecodeString(secret); err == nil {
		if _, password, ok := strings.Cut(string(plain), ":"); ok && password != "" {
			forms = append(forms, string(plain), password)
		}
	}
	return forms
}

// text returns s as valid UTF-8 without secrets. Invalid bytes are replaced before, not dropped after: dropped, they
// could join the parts of a secret.
func (r redactor) text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r.replacer == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// beginning is text for the beginning of a longer text: it ends before anything that may be part of a secret.
func (r redactor) beginning(s string) string {
	return r.text(s[:max(0, len(s)-max(0, r.longest-1))])
}

// secretHeaders commonly carry credentials. Those of a Tool do not belong there, but they are not shown either.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token"}

// secretsOf returns a redactor of what the probe sends as credentials.
func (t Target) secretsOf(credential *Credential) redactor {
	var secrets []string
	if credential != nil {
		secrets = append(secrets, credential.Token)
	}
	return redactorOf(append(secrets, t.headerSecrets()...)...)
}

// headerSecrets returns the credentials in the Tool's own headers, without the scheme before them.
func (t Target) headerSecrets() []string {
	if t.http == nil {
		return nil
	}
	var secrets []string
	for _, name := range append([]string{t.header}, secretHeaders...) {
		value := t.http.headers.Get(name)
		if _, token, ok := strings.Cut(value, " "); ok {
			value = token
		}
		secrets = append(secrets, value)
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
