// Package client is how a Go program reports failed tool calls to Agrajag and asks whether a tool can be used.
//
// Client speaks the REST API. Guard puts it around calls: Transport for HTTP, and the package mcpclient for MCP. Guards
// fail open: while Agrajag is away or slow, calls go on as if it were not there.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/api/rest"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 20

// Options say where Agrajag is and who calls.
type Options struct {
	// URL is where the REST API is, as in https://agrajag-api.agrajag-system.svc.
	URL string
	// Project is the namespace whose tools are called.
	Project string
	// Token returns the bearer token of each request. It must be for the API's audience (agrajag).
	Token func() (string, error)
	// CAFile holds the certificates by which the API's is trusted, as PEM; a renewed one is taken up. Empty: the system's.
	CAFile string
	// HTTPClient sends the requests instead of one that trusts CAFile. Nil: that one.
	HTTPClient *http.Client
}

// TokenFile reads the token from a file each time, as Kubernetes renews those that it projects into pods.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		return strings.TrimSpace(string(data)), err
	}
}

// Client asks the REST API. It is safe for concurrent use.
type Client struct {
	base  string
	token func() (string, error)
	http  *http.Client
}

// New returns a Client.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the URL must be an address such as https://agrajag-api.agrajag-system.svc, not %q", o.URL)
	}
	if o.Project == "" {
		return nil, errors.New("the Project must name a namespace")
	}
	if o.Token == nil {
		return nil, errors.New("the Token must be given: TokenFile reads it from a file")
	}
	c := &Client{base: strings.TrimRight(o.URL, "/") + "/v1/projects/" + url.PathEscape(o.Project), token: o.Token, http: o.HTTPClient}
	if c.http != nil {
		return c, nil
	}
	if c.http, err = newHTTPClient(o.CAFile); err != nil {
		return nil, err
	}
	return c, nil
}

// Caller is on whose behalf a tool is called. Both may be empty.
type Caller struct {
	User, Session string
}

// Report reports a failed call and returns the verdict.
func (c *Client) Report(ctx context.Context, r rest.Report) (rest.Verdict, error) {
	var v rest.Verdict
	return v, c.do(ctx, http.MethodPost, "/errors", r, &v)
}

// ReportAll reports several failed calls, at most 100, and returns their verdicts in order.
func (c *Client) ReportAll(ctx context.Context, reports []rest.Report) ([]rest.Verdict, error) {
	var v []rest.Verdict
	return v, c.do(ctx, http.MethodPost, "/errors", reports, &v)
}

// Success reports a call that worked and returns what is in force then.
func (c *Client) Success(ctx context.Context, s rest.Success) (rest.Health, error) {
	var h rest.Health
	return h, c.do(ctx, http.MethodPost, "/successes", s, &h)
}

// Event tells of a connection that closed or opened again, or of a session that ended.
func (c *Client) Event(ctx context.Context, e rest.Event) error {
	return c.do(ctx, http.MethodPost, "/events", e, &rest.EventResult{})
}

// Health returns what is in force for a caller of a tool.
func (c *Client) Health(ctx context.Context, tool string, caller Caller) (rest.Health, error) {
	var h rest.Health
	return h, c.do(ctx, http.MethodGet, "/tools/"+url.PathEscape(tool)+"/health?"+caller.query().Encode(), nil, &h)
}

// List returns the health of all tools for a caller.
func (c *Client) List(ctx context.Context, caller Caller) ([]rest.Health, error) {
	var list rest.HealthList
	err := c.do(ctx, http.MethodGet, "/tools?"+caller.query().Encode(), nil, &list)
	return list.Items, err
}

// Recheck has a tool looked at now and waits for what is found, for at most a minute; with 0 it does not wait.
func (c *Client) Recheck(ctx context.Context, tool string, caller Caller, wait time.Duration) (rest.Recheck, error) {
	query := caller.query()
	query.Set("wait", wait.String())
	var r rest.Recheck
	return r, c.do(ctx, http.MethodPost, "/tools/"+url.PathEscape(tool)+"/recheck?"+query.Encode(), nil, &r)
}

func (caller Caller) query() url.Values {
	query := url.Values{}
	if caller.User != "" {
		query.Set("user", caller.User)
	}
	if caller.Session != "" {
		query.Set("session", caller.Session)
	}
	return query
}

// ProblemError is what the API answers instead: it says what is wrong and what to do.
type ProblemError struct{ rest.Problem }

// Error tells the problem.
func (e *ProblemError) Error() string {
	return fmt.Sprintf("agrajag: %d %s: %s", e.Status, e.Title, e.Detail)
}

// do sends a request and reads the answer.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("agrajag: %w", err)
		}
		sent = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return fmt.Errorf("agrajag: %w", err)
	}
	token, err := c.token()
	if err != nil {
		return fmt.Errorf("agrajag: read the token: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("agrajag: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("agrajag: read the answer: %w", err)
	}
	if response.StatusCode >= 300 {
		problem := &ProblemError{rest.Problem{Status: response.StatusCode, Title: http.StatusText(response.StatusCode)}}
		_ = json.Unmarshal(answer, &problem.Problem) // Something between us may answer something else.
		problem.Status = response.StatusCode
		return problem
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("agrajag: read the answer: %w", err)
	}
	return nil
}
