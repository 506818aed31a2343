package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// answerWithin bounds one request of a client that New makes: longer than a recheck waits.
	answerWithin = 90 * time.Second
	// dialWithin bounds the making of a connection.
	dialWithin = 10 * time.Second
	// maxIdle is how many connections are kept for the next requests.
	maxIdle = 64
)

// newHTTPClient returns what requests are sent with. It trusts the certificates in a file, or with "" the system's.
// The file is read for each connection, as Kubernetes renews it. No proxy is asked: the API is a service of the cluster.
func newHTTPClient(caFile string) (*http.Client, error) {
	if caFile == "" {
		return &http.Client{Timeout: answerWithin}, nil
	}
	if _, err := readCAs(caFile); err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		roots, err := readCAs(caFile)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialWithin}, Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		return dialer.DialContext(ctx, network, address)
	}
	return &http.Client{Timeout: answerWithin, Transport: &http.Transport{
		DialTLSContext: dial, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute,
	}}, nil
}

// readCAs reads the certificates in a file.
func readCAs(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read whom to trust: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("read whom to trust: there is no certificate in " + file)
	}
	return roots, nil
}
