package sampletools

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// HTTPAPI is a small search service: GET /v1/search?q=… answers with documents. It is safe for concurrent use.
type HTTPAPI struct {
	mu           sync.Mutex
	tokens       map[string]bool   // those that it knows
	refused      map[string]Answer // by token
	failure      *Answer
	authRequired bool
	calls        int
	callsBy      map[string]int
}

// documents are what can be found.
var documents = map[string]string{
	"towel":  "A towel is about the most massively useful thing an interstellar hitch hiker can have.",
	"health": "All departments of the library are open.",
}

// NewHTTPAPI returns a healthy service that knows the tokens and answers requests without a token, too.
func NewHTTPAPI(tokens ...string) *HTTPAPI {
	api := &HTTPAPI{tokens: map[string]bool{}, refused: map[string]Answer{}, callsBy: map[string]int{}}
	for _, token := range tokens {
		api.tokens[token] = true
	}
	return api
}

// Fail makes every request be answered with the answer, until Heal.
func (a *HTTPAPI) Fail(answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = &answer
}

// Heal ends what Fail and RefuseToken began.
func (a *HTTPAPI) Heal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = nil
	clear(a.refused)
}

// RequireAuth says whether requests without a known token are answered 401.
func (a *HTTPAPI) RequireAuth(required bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.authRequired = required
}

// RefuseToken makes requests with this token be answered with a plain 401, as if it had been revoked, until Heal.
func (a *HTTPAPI) RefuseToken(token string) {
	a.RefuseTokenWith(token, Answer{Status: http.StatusUnauthorized, Body: `{"error":"unauthorized"}`})
}

// RefuseTokenWith makes requests with this token be answered with the answer, until Heal.
func (a *HTTPAPI) RefuseTokenWith(token string, answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[token] = answer
}

// Calls returns how many requests came.
func (a *HTTPAPI) Calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// CallsBy returns how many requests came with the token, "" for those without.
func (a *HTTPAPI) CallsBy(token string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.callsBy[token]
}

// ServeHTTP answers a request.
func (a *HTTPAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.answer(r).write(w) }

func (a *HTTPAPI) answer(r *http.Request) Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := bearer(r)
	a.calls++
	a.callsBy[token]++
	refusal, isRefused := a.refused[token]
	switch {
	case a.failure != nil:
		return *a.failure
	case isRefused && token != "":
		return refusal
	case !a.tokens[token] && (a.authRequired || token != ""):
		return Answer{
			Status:  http.StatusUnauthorized,
			Headers: map[string]string{"WWW-Authenticate": `Bearer realm="sample library"`},
			Body:    `{"error":"unauthorized"}`,
		}
	case r.URL.Path != "/v1/search":
		return Answer{Status: http.StatusNotFound, Body: `{"error":"there is nothing here: try /v1/search?q=towel"}`}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return Answer{Status: http.StatusMethodNotAllowed, Headers: map[string]string{"Allow": "GET, HEAD"}, Body: `{"error":"use GET"}`}
	}
	return found(r.URL.Query().Get("q"))
}

// found answers a search.
func found(query string) Answer {
	var texts []string
	for _, word := range slices.Sorted(maps.Keys(documents)) {
		if word == query {
			texts = append(texts, documents[word])
		}
	}
	body, err := json.Marshal(map[string]any{"query": query, "found": len(texts), "documents": texts})
	if err != nil {
		return Answer{Status: http.StatusInternalServerError, Body: err.Error()}
	}
	return Answer{Status: http.StatusOK, Body: string(body)}
}
