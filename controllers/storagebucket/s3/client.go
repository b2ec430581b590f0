// SPDX-License-Identifier: Apache-2.0

// Package s3 probes, creates and removes one bucket of an S3-compatible service. It returns reasons
// and messages of the StorageBucket API. They contain no text of the server, because the server is
// not trusted and its text must not get into a status.
package s3

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxBody bounds what is read of a response. S3 permits 50 tags of 128 and 256 characters, and XML
	// takes up to 9 bytes for a character.
	maxBody    = 256 << 10
	maxHeaders = 64 << 10
	// maxHandshake bounds what is read before a TLS handshake ends. Real certificates take a fifth.
	maxHandshake = 32 << 10
	// maxBundle bounds the PEM text that is parsed. A parsed certificate can take a hundred times more.
	maxBundle = 64 << 10
	// maxRSABits is crypto/tls's limit for a peer. A larger key takes seconds to verify a signature.
	maxRSABits = 8192
)

// Target identifies a bucket and its endpoint.
type Target struct {
	Endpoint       *url.URL // only the scheme, the host and the port count
	Region, Bucket string
	// VirtualHost puts the bucket's name into the host name instead of the path.
	VirtualHost bool
	Roots       *x509.CertPool // nil means the system's roots
	Timeout     time.Duration  // of all requests of a client together
}

// Credentials sign the requests. The client never reads other credentials, such as those of
// the environment.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// String keeps the secrets out of logs and errors.
func (Credentials) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (c Credentials) GoString() string { return c.String() }

// Client sends requests about one bucket until its timeout, each of them once.
type Client struct {
	target      Target
	location    url.URL // of the bucket
	host        string  // the header, as SDKs sign it
	credentials Credentials
	deadline    time.Time
	transport   *http.Transport
	http        *http.Client
}

// New returns a Client. It sends no request.
func New(target Target, creds Credentials, rules Rules) *Client {
	location := url.URL{Scheme: target.Endpoint.Scheme, Host: target.Endpoint.Host, Path: "/" + target.Bucket}
	if target.VirtualHost {
		location.Host, location.Path = target.Bucket+"."+location.Host, "/"
	}
	c := &Client{target: target, location: location, host: hostHeader(&location), credentials: creds}
	c.deadline = time.Now().Add(target.Timeout) //nolint:forbidigo // contexts have deadlines of the real clock
	c.transport = &http.Transport{
		// Proxy is not set: the rules would not apply to the endpoint behind it.
		// net/http dials in a context that outlives the request.
		DialContext:            (&net.Dialer{Control: rules.control, Deadline: c.deadline}).DialContext,
		DialTLSContext:         c.dialTLS,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true,        // the bounds are of what the network sends
		IdleConnTimeout:        time.Second, // between the requests of one reconcile
	}
	var guarded http.RoundTripper = c.transport
	if rules.Guard != nil {
		guarded = rules.Guard(c.transport)
	}
	c.http = &http.Client{
		Transport:     guarded,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// hostHeader returns the Host header of requests to a URL. Proxies write a host in lower case,
// without a final dot and without the default port, and the signature must be of what arrives.
func hostHeader(location *url.URL) string {
	host, port := strings.TrimSuffix(strings.ToLower(location.Hostname()), "."), location.Port()
	switch {
	case port != "" && port != map[string]string{"http": "80", "https": "443"}[location.Scheme]:
		return net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	return host
}

var errHandshake = errors.New("the TLS handshake failed")

type boundedConn struct {
	net.Conn

	reader io.Reader // of the connection; until the handshake ends bounded
}

func (c *boundedConn) Read(into []byte) (int, error) { return c.reader.Read(into) }

// dialTLS dials through the transport's dialer, which the guard has wrapped, and bounds what is read
// before the handshake ends. crypto/tls keeps all of a peer's certificates in memory. Like the dialer, it
// needs the deadline itself.
func (c *Client) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.transport.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	bounded := &boundedConn{conn, http.MaxBytesReader(nil, conn, maxHandshake)}
	secured := tls.Client(bounded, &tls.Config{
		ServerName: strings.TrimSuffix(c.location.Hostname(), "."), RootCAs: c.target.Roots, MinVersion: tls.VersionTLS12,
	})
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error is the cause
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	bounded.reader = conn
	return secured, nil
}

// Roots returns the certificates in a PEM bundle, or the problem with it. A certificate that cannot be
// parsed is left out: bundles of systems have such ones. Editors of some systems write byte order
// marks, which concatenation moves between the certificates.
func Roots(bundle []byte) (roots *x509.CertPool, problem string) {
	if len(bundle) > maxBundle {
		return nil, fmt.Sprintf("has more than %d KiB; remove the authorities that the endpoint does not need",
			maxBundle>>10)
	}
	problem, roots = "contains no valid PEM certificate", x509.NewCertPool()
	bundle = bytes.ReplaceAll(bundle, []byte("\ufeff"), nil)
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, ok := root.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, fmt.Sprintf("contains a certificate with an RSA key of more than %d bits; use a smaller key", maxRSABits)
		}
		problem = ""
		roots.AddCert(root)
	}
	return roots, problem
}
