package restapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// How long a client may take, so that slow ones hold nothing for long. A request that waits for a diagnosis takes
// maxRecheckWait.
const (
	readHeaderWithin = 5 * time.Second
	readWithin       = 15 * time.Second
	answerWithin     = maxRecheckWait + 30*time.Second
	idleFor          = 2 * time.Minute
	maxHeaders       = 32 << 10
	shutdownWithin   = 10 * time.Second
)

// Listener serves the API over TLS, on every replica.
type Listener struct {
	// Address is where, as in ":8443".
	Address string
	// CertDir holds tls.crt and tls.key. A renewed certificate is taken up.
	CertDir string
	// Handler answers.
	Handler http.Handler

	// readHeader and read are for tests: 0 is readHeaderWithin and readWithin.
	readHeader, read time.Duration

	bound atomic.Pointer[net.TCPAddr]
}

// NeedLeaderElection says that every replica serves.
func (l *Listener) NeedLeaderElection() bool { return false }

// Start serves until ctx ends; then requests that are under way are answered first.
func (l *Listener) Start(ctx context.Context) error {
	watcher, err := certwatcher.New(filepath.Join(l.CertDir, "tls.crt"), filepath.Join(l.CertDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("read the certificate of the REST API: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			logf.FromContext(ctx).Error(err, "Certificate of the REST API not watched")
		}
	}()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listen for the REST API: %w", err)
	}
	l.bound.Store(listener.Addr().(*net.TCPAddr))
	server := &http.Server{
		Handler: l.Handler, ReadHeaderTimeout: cmp.Or(l.readHeader, readHeaderWithin), ReadTimeout: cmp.Or(l.read, readWithin), WriteTimeout: answerWithin,
		IdleTimeout: idleFor, MaxHeaderBytes: maxHeaders,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}},
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWithin)
		defer cancel()
		done <- server.Shutdown(ctx)
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the REST API: %w", err)
	}
	return <-done
}

// Serving is a readiness check: nil once the API is served.
func (l *Listener) Serving(*http.Request) error {
	if l.bound.Load() == nil {
		return errors.New("the REST API is not served yet")
	}
	return nil
}

// Port returns the port on which the API is served; 0: not yet.
func (l *Listener) Port() int {
	if addr := l.bound.Load(); addr != nil {
		return addr.Port
	}
	return 0
}
