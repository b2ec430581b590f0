// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"sync"

	"k8s.io/client-go/util/cert"
)

// identity is what proxies with TLS show to their clients.
type identity struct {
	config *tls.Config
	ca     []byte // in PEM
}

// newIdentity makes a certificate, and a CA for nothing else. All proxies of a program share them,
// because the keys take a tenth of a second. The certificates have the real time, which clients check.
var newIdentity = sync.OnceValues(func() (identity, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return identity{}, fmt.Errorf("generating a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return identity{}, fmt.Errorf("reading the generated certificate: %w", err)
	}
	_, ca := pem.Decode(chain) // the server's certificate is the first
	return identity{
		config: &tls.Config{
			Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
		},
		ca: ca,
	}, nil
})
