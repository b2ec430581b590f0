package s3

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

const (
	// maxBundle bounds the PEM text that is parsed. A parsed certificate can take a hundred times
	// its size.
	maxBundle = 64 << 10
	// maxRSABits is the limit of crypto/tls for the certificates that a peer sends. A signature by a
	// larger key takes seconds to verify.
	maxRSABits = 8192
)

// Roots returns the certificates in a PEM bundle, or the problem with it. Editors of some systems
// write byte order marks, which concatenation moves between the certificates.
func Roots(bundle []byte) (roots *x509.CertPool, problem string) {
	if len(bundle) > maxBundle {
		return nil, fmt.Sprintf("has more than %d KiB; leave out the authorities that the endpoint does not need",
			maxBundle>>10)
	}
	roots = x509.NewCertPool()
	found := false
	text := bytes.ReplaceAll(bundle, []byte("\ufeff"), nil)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as x509.CertPool does, which has many authorities in practice
		}
		if key, ok := root.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, fmt.Sprintf("has a certificate with an RSA key of more than %d bits; use a smaller key", maxRSABits)
		}
		roots.AddCert(root)
		found = true
	}
	if !found {
		return nil, "has no PEM certificates"
	}
	return roots, ""
}
