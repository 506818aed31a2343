// Package sampletools holds tools that can be told to fail, so that the demo and the tests diagnose something real.
package sampletools

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Answer is an HTTP answer that a sample tool is told to give.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Headers are added to the answer.
	Headers map[string]string
	// Body is the answer's body.
	Body string
}

func (a Answer) write(w http.ResponseWriter) {
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if strings.HasPrefix(a.Body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// bearer returns the request's bearer token, "" if it has none.
func bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// Serve serves handler on addr, such as 127.0.0.1:0, and returns its base URL and a function that stops it and ends the
// requests in flight. The error is that of listening.
func Serve(addr string, handler http.Handler) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("serving a sample tool: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with http.ErrServerClosed
	}()
	return "http://" + listener.Addr().String(), func() {
		cancel()
		_ = server.Close()
		<-done
	}, nil
}

// Refused returns the base URL of a port of this machine on which nothing listens: connections to it are refused.
func Refused() (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	url = "http://" + listener.Addr().String()
	return url, listener.Close()
}
