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

// Wire is how a proxy treats a connection, below HTTP.
type Wire string

// Plain and TLS are what a proxy can begin with; the others are faults. Plain
// is one too for a client that speaks TLS, and TLS for one that does not.
const (
	Plain Wire = "plain HTTP"
	TLS   Wire = "TLS" // with a certificate of the proxy's own CA

	UnknownCA   Wire = "TLS, certificate of an unknown CA"
	Expired     Wire = "TLS, certificate has expired"
	NotYetValid Wire = "TLS, certificate is not valid yet"
	WrongHost   Wire = "TLS, certificate of another host"
	OldTLS      Wire = "TLS, 1.0 and 1.1 only"

	Reset  Wire = "connection is closed at once"
	Silent Wire = "connection is read and never answered"
)

// WrongHostName is the only name in the certificate of WrongHost.
const WrongHostName = "other.example.com"

// authority is a CA that signs the certificates of wires.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	now  time.Time
}

// The certificates are valid for a day around now, or were, or will be.
const day = 24 * time.Hour

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of a CA: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: now.Add(-2 * day)}, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of a CA: %w", err)
	}
	return &authority{key, ca, now}, nil
}

// config returns a server's TLS configuration with the certificate of w.
func (a *authority) config(w Wire) (*tls.Config, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: string(w)},
		NotBefore: a.now.Add(-day), NotAfter: a.now.Add(day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	switch w {
	case Expired:
		template.NotAfter = a.now.Add(-time.Hour)
	case NotYetValid:
		template.NotBefore = a.now.Add(time.Hour)
	case WrongHost:
		template.DNSNames, template.IPAddresses = []string{WrongHostName}, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a server's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a server's certificate: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	if w == OldTLS {
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	}
	return config, nil
}

// newTLSConfigs creates the certificates of all wires. The second result is the CA for clients, in
// PEM.
func newTLSConfigs(now time.Time) (map[Wire]*tls.Config, []byte, error) {
	known, err := newAuthority("fault proxy", now)
	if err != nil {
		return nil, nil, err
	}
	unknown, err := newAuthority("unknown", now)
	if err != nil {
		return nil, nil, err
	}
	configs := map[Wire]*tls.Config{}
	for _, w := range []Wire{TLS, UnknownCA, Expired, NotYetValid, WrongHost, OldTLS} {
		signer := known
		if w == UnknownCA {
			signer = unknown
		}
		if configs[w], err = signer.config(w); err != nil {
			return nil, nil, err
		}
	}
	bundle, err := cert.EncodeCertificates(known.cert)
	return configs, bundle, err
}
