package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/agrajag-dev/agrajag/api/rest"
	"github.com/agrajag-dev/agrajag/client"
)

// agrajag stands for the service: search is DOWN, and a 403 is the user's permission.
func agrajag() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/projects/shop/errors", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"classification":"USER_PERMISSION","retryAfterSeconds":86400,"message":"do not retry until access is granted"}`)
	})
	mux.HandleFunc("GET /v1/projects/shop/tools/search/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"toolName":"search","state":"DOWN","text":"Currently unavailable until about 15:04: plan without it."}`)
	})
	return httptest.NewServer(mux)
}

func token() (string, error) { return "a token", nil }

// Report a failed call, and do what the verdict says.
func ExampleClient_Report() {
	service := agrajag()
	defer service.Close()
	c, err := client.New(client.Options{URL: service.URL, Project: "shop", Token: token})
	if err != nil {
		panic(err)
	}
	verdict, err := c.Report(context.Background(), rest.Report{
		ToolName: "calendar", OriginatingUserID: "alice", Error: &rest.ToolError{HTTPStatus: 403, Body: "Forbidden"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(verdict.Classification, verdict.RetryAfterSeconds, verdict.Message)
	// Output: USER_PERMISSION 86400 do not retry until access is granted
}

// Guard the HTTP calls of tools: those that are DOWN are not called, and errors are reported.
func ExampleTransport() {
	service := agrajag()
	defer service.Close()
	c, err := client.New(client.Options{URL: service.URL, Project: "shop", Token: token})
	if err != nil {
		panic(err)
	}
	guard := client.NewGuard(c, client.GuardOptions{})
	defer func() { _ = guard.Close(context.Background()) }()
	tools := &http.Client{Transport: &client.Transport{Guard: guard, Tool: func(*http.Request) string { return "search" }}}

	_, err = tools.Get("https://search.example.com/?q=tea") //nolint:bodyclose // There is no response beside an error.
	fmt.Println(err)
	// Output: Get "https://search.example.com/?q=tea": search was not called: it is DOWN. Currently unavailable until about 15:04: plan without it.
}
