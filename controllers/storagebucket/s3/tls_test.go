// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// succeed answers like S3 for a bucket.
func succeed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
}

// certificate returns a certificate that signs itself, for the loopback address unless changed.
func certificate(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func smallKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(all ...tls.Certificate) []byte {
	var text bytes.Buffer
	for _, c := range all {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	}
	return text.Bytes()
}

// probeTLS probes a server with a TLS configuration. Its list of the bucket is longer than a handshake
// may be. Roots is the bundle, nil for the system's roots.
func probeTLS(t *testing.T, config *tls.Config, bundle []byte) Verdict {
	t.Helper()
	server := httptest.NewUnstartedServer(respond(200, "<ListBucketResult/>"+strings.Repeat(" ", 2*maxHandshake)))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = config
	if server.StartTLS(); config == nil {
		server.Close()
		server = httptest.NewServer(http.HandlerFunc(succeed))
	}
	t.Cleanup(server.Close)
	c := clientOf(strings.Replace(server.URL, "http:", "https:", 1), allowLoopback)
	if bundle != nil {
		c.target.Roots, _ = Roots(bundle)
	}
	return c.Probe(t.Context())
}

// The message names why a certificate is not trusted. The bound of a handshake ends with it.
func TestTLSVerdicts(t *testing.T) {
	good := certificate(t, smallKey(t), nil)
	elsewhere := certificate(t, smallKey(t), func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = nil, []string{"s3.example.com"}
	})
	old := certificate(t, smallKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := certificate(t, smallKey(t), func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
	ofClients := certificate(t, smallKey(t), func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	serving := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	tls11, tls12, mutual := serving(good), serving(good), serving(good)
	tls11.MinVersion, tls11.MaxVersion, tls12.MaxVersion = tls.VersionTLS11, tls.VersionTLS11, tls.VersionTLS12
	mutual.ClientAuth, mutual.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	for name, tc := range map[string]struct {
		config *tls.Config
		bundle []byte
		want   Verdict
	}{
		"trusted, TLS 1.3":                 {serving(good), pemOf(good), Succeeded},
		"trusted, TLS 1.2":                 {tls12, pemOf(good), Succeeded},
		"TLS 1.1":                          {tls11, pemOf(good), badHandshake},
		"a certificate of clients":         {mutual, pemOf(good), badHandshake},
		"only for clients":                 {serving(ofClients), pemOf(ofClients), badCertificate},
		"another host":                     {serving(elsewhere), pemOf(elsewhere), wrongHost},
		"expired":                          {serving(old), pemOf(old), expired},
		"not valid yet":                    {serving(early), pemOf(early), expired},
		"an authority beside the bundle":   {serving(good), pemOf(elsewhere), unknownAuthority},
		"an authority beside the system's": {serving(good), nil, unknownAuthority},
		"no TLS":                           {nil, nil, noTLS},
	} {
		t.Run(name, func(t *testing.T) {
			if got := probeTLS(t, tc.config, tc.bundle); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// What an endpoint sends before the handshake ends is bounded: crypto/tls would keep it.
func TestHandshakeIsBounded(t *testing.T) {
	key := smallKey(t)
	leaf := certificate(t, key, nil)
	for size, want := range map[int]Verdict{maxHandshake - 4<<10: Succeeded, maxHandshake + 4<<10: badHandshake} {
		other := certificate(t, key, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, size/2)}}
		}).Certificate[0]
		chain := tls.Certificate{Certificate: [][]byte{leaf.Certificate[0], other, other}, PrivateKey: key}
		if got := probeTLS(t, &tls.Config{Certificates: []tls.Certificate{chain}}, pemOf(leaf)); got != want {
			t.Errorf("%d bytes of certificates: %+v, want %+v", size, got, want)
		}
	}
}

// A bundle of roots is bounded before it is parsed, and with it what a verification can cost. Byte
// order marks and other line ends change nothing.
func TestRoots(t *testing.T) {
	first, second := certificate(t, smallKey(t), nil), certificate(t, smallKey(t), nil)
	both, mark := string(pemOf(first, second)), "\ufeff"
	broken := string(pemOf(tls.Certificate{Certificate: [][]byte{[]byte("x")}}))
	rsaRoot := func(bits int) string {
		// The key of the certificate need not be the one that signs it.
		modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		key := &rsa.PublicKey{N: modulus.Add(modulus, big.NewInt(1)), E: 65537}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key, smallKey(t))
		if err != nil {
			t.Fatal(err)
		}
		return string(pemOf(tls.Certificate{Certificate: [][]byte{der}}))
	}
	for name, tc := range map[string]struct {
		bundle  string
		problem string
		count   int
	}{
		"two":                       {both, "", 2},
		"marks before and between":  {mark + string(pemOf(first)) + mark + string(pemOf(second)), "", 2},
		"line ends of Windows":      {strings.ReplaceAll(mark+both, "\n", "\r\n"), "", 2},
		"text around them":          {"# first\n" + string(pemOf(first)) + "\n# end", "", 1},
		"a key of 8,192 bits":       {rsaRoot(8192), "", 1},
		"none":                      {"", "contains no valid PEM certificate", 0},
		"only one that is no one":   {broken, "contains no valid PEM certificate", 0},
		"one that is no one first":  {broken + both, "", 2},
		"a private key between":     {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" + both, "", 2},
		"a key of 8,193 bits":       {both + rsaRoot(8193), "RSA key of more than 8192 bits", 0},
		"a byte beyond the limit":   {both + strings.Repeat("\n", maxBundle+1-len(both)), "has more than 64 KiB", 0},
		"as large as it may become": {both + strings.Repeat("\n", maxBundle-len(both)), "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			roots, problem := Roots([]byte(tc.bundle))
			if (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
				t.Fatalf("problem %q, want %q", problem, tc.problem)
			}
			if tc.count > 0 && len(roots.Subjects()) != tc.count { //nolint:staticcheck // no system roots are in it
				t.Errorf("%d roots, want %d", len(roots.Subjects()), tc.count) //nolint:staticcheck // as above
			}
		})
	}
}

// With the bucket in the host name the certificate must be of that name, and not of the endpoint alone.
func TestCertificateIsOfTheBucketsHost(t *testing.T) {
	for host, want := range map[string]Verdict{"team-data.s3.example.com": Succeeded, "s3.example.com": wrongHost} {
		served := certificate(t, smallKey(t), func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{host} })
		server := httptest.NewUnstartedServer(http.HandlerFunc(succeed))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{served}}
		server.StartTLS()
		t.Cleanup(server.Close)
		// The name of the endpoint leads to the server.
		rules := Rules{Guard: func(transport *http.Transport) http.RoundTripper {
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			}
			return transport
		}}
		roots, _ := Roots(pemOf(served))
		c := New(Target{Endpoint: parse("https://s3.example.com"), Region: "us-east-1", Bucket: "team-data",
			VirtualHost: true, Roots: roots, Timeout: time.Minute}, Credentials{AccessKeyID: "key"}, rules)
		if got := c.Probe(t.Context()); got != want {
			t.Errorf("a certificate of %s: %+v, want %+v", host, got, want)
		}
	}
}
