// Package s3 probes, creates and removes one bucket of an S3-compatible service. It returns reasons
// and messages of the StorageBucket API. It never returns text of the server, which is not trusted
// and must not get into a status.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxBody bounds the bytes that are read of a response's body. S3 permits 50 tags of 128 and 256
	// characters, and XML takes up to 9 bytes for a character.
	maxBody = 256 << 10
	// maxHeaders bounds the bytes of a response's header.
	maxHeaders = 64 << 10
	// maxHandshake bounds the bytes that are read before a TLS handshake ends. The certificates of
	// real services take a tenth of it.
	maxHandshake = 64 << 10
)

// Target identifies a bucket and its endpoint.
type Target struct {
	// Endpoint is an http or https URL that has only a host.
	Endpoint string
	Region   string
	Bucket   string
	// VirtualHost puts the bucket's name into the host name instead of the path.
	VirtualHost bool
	// Roots verify the endpoint's certificate; nil means the system's roots.
	Roots *x509.CertPool
	// Timeout bounds all requests of a client together.
	Timeout time.Duration
}

// Credentials sign the requests. The client never reads others from the environment, from files or
// from a metadata service.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// String keeps the secrets out of logs and errors.
func (Credentials) String() string { return "[redacted]" }

// GoString does the same for %#v.
func (c Credentials) GoString() string { return c.String() }

// Client sends requests about one bucket until its timeout. It sends each request once; the caller
// retries by its own schedule.
//
// It uses minio-go for signatures, but not its client. That client takes any 404 for a missing
// bucket, even a load balancer's, sends requests to other hosts if the endpoint is Amazon's, and
// lists page after page.
type Client struct {
	target      Target
	location    url.URL // of the bucket
	host        string  // the header, as SDKs sign it
	credentials Credentials
	deadline    time.Time
	transport   *http.Transport
	http        *http.Client
}

// New returns a Client, which the caller must close. It sends no request.
func New(target Target, creds Credentials, rules Rules) (*Client, error) {
	endpoint, err := url.Parse(target.Endpoint)
	if err != nil {
		// url.Error would contain the URL, which may contain a password.
		return nil, errors.New("parsing the endpoint: not a URL")
	}
	location := url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host, Path: "/" + target.Bucket}
	if target.VirtualHost {
		location.Host, location.Path = target.Bucket+"."+endpoint.Host, "/"
	}
	c := &Client{target: target, location: location, host: hostHeader(&location), credentials: creds}
	c.deadline = time.Now().Add(target.Timeout) //nolint:forbidigo // contexts have deadlines of the real clock
	c.transport = &http.Transport{
		// Proxy is not set: the transport would dial the proxy, and the rules would not apply to
		// the endpoint.
		DialContext:            rules.dialer().DialContext,
		DialTLSContext:         c.dialTLS,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // a small body could decompress to a large one
	}
	var guarded http.RoundTripper = c.transport
	if rules.Guard != nil {
		guarded = rules.Guard(c.transport)
	}
	c.http = &http.Client{
		Transport:     guarded,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
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

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// handshakeError is the error of a TLS handshake.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// errLongHandshake is returned for a handshake of more than maxHandshake bytes.
var errLongHandshake = errors.New("the handshake is too long")

// dialTLS dials through the transport's dialer, which the guard has wrapped, and bounds what is read
// before the handshake ends. crypto/tls keeps all of a peer's certificates in memory.
func (c *Client) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.transport.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	bounded := &boundedConn{Conn: conn, left: maxHandshake}
	secured := tls.Client(bounded, &tls.Config{
		ServerName: strings.TrimSuffix(c.location.Hostname(), "."), RootCAs: c.target.Roots, MinVersion: tls.VersionTLS12,
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error is the cause
		return nil, handshakeError{err}
	}
	bounded.left = -1
	return secured, nil
}

// boundedConn fails a read after a number of bytes; a negative number is no bound.
type boundedConn struct {
	net.Conn

	left int
}

// Read implements net.Conn.
func (c *boundedConn) Read(into []byte) (int, error) {
	if c.left < 0 {
		return c.Conn.Read(into)
	}
	if c.left == 0 {
		return 0, errLongHandshake
	}
	n, err := c.Conn.Read(into[:min(len(into), c.left)])
	c.left -= n
	return n, err
}
