package testenv

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
)

// ServingCert writes tls.crt, tls.key and ca.crt for a host into a directory. The webhooks' certificate will not do for
// callers in other languages: it comes without the one that signed it, which OpenSSL insists on.
func ServingCert(dir, host string) error {
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return err
	}
	begin := []byte("-----BEGIN CERTIFICATE-----")
	ca := cert[bytes.LastIndex(cert, begin):] // The chain ends with it.
	return errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600), os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
}
