// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
)

// The certificates of a proxy are valid for a day before and after its start.
const day = 24 * time.Hour

// newTLSConfig returns a server's configuration with a certificate of a CA of its own. The second
// result is the CA, in PEM.
func newTLSConfig(now time.Time) (*tls.Config, []byte, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating the key of a CA: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "fault proxy", NotBefore: now.Add(-day)}, authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of a CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a server's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "fault proxy"},
		NotBefore: now.Add(-day), NotAfter: now.Add(day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a server's certificate: %w", err)
	}
	bundle, err := cert.EncodeCertificates(ca)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}, bundle, err
}
