// Package s3 looks at one bucket of an S3-compatible service, and makes and
// removes it. It says what it found in the words of the API, never in those of
// the server: what a server writes is not to be trusted with a place in a status.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
)

const (
	// maxBody bounds what is read of any answer, in bytes.
	maxBody = 64 << 10
	// maxHeaders bounds the header of any answer, in bytes.
	maxHeaders = 64 << 10
)

// Target says which bucket, and how to get there.
type Target struct {
	// Endpoint is a URL of scheme http or https with nothing but a host.
	Endpoint string
	Region   string
	Bucket   string
	// VirtualHost puts the bucket's name before the host, in place of the path.
	VirtualHost bool
	// Roots judge the endpoint's certificate; nil are those of the system.
	Roots *x509.CertPool
}

// Credentials sign the requests. There are no others: nothing is taken from the
// environment, from files or from a metadata service.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// String keeps secrets out of whatever prints it.
func (Credentials) String() string { return "[redacted]" }

// GoString is String for %#v.
func (c Credentials) GoString() string { return c.String() }

// Client talks to one bucket. It sends each request once: repeating is the
// caller's business, who has a schedule for it.
//
// minio-go signs the requests and knows S3's errors and tags. Its client is not
// used: it takes any 404 for "no such bucket", a balancer's page too, asks other
// hosts than the endpoint where that is Amazon's, and lists page after page.
type Client struct {
	target      Target
	endpoint    *url.URL
	credentials Credentials
	transport   *http.Transport
	http        *http.Client
}

// New returns a Client, which must be closed. Nothing is sent yet.
func New(target Target, creds Credentials, rules Rules) (*Client, error) {
	endpoint, err := url.Parse(target.Endpoint)
	if err != nil {
		// The URL may hold a password; url.Error would show it.
		return nil, errors.New("parsing the endpoint: not a URL")
	}
	c := &Client{target: target, endpoint: endpoint, credentials: creds}
	c.transport = &http.Transport{
		// No Proxy: one would be dialled in place of the endpoint, past the rules.
		DialContext:            rules.dialer().DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: target.Roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // a small body could become a large one
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

// Close gives the connections back.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Probe looks whether the bucket can be used: a HEAD and, where its answer can
// mean several things, a GET for the error code, which a HEAD cannot carry.
func (c *Client) Probe(ctx context.Context) Verdict {
	return c.judge(ctx, func(ctx context.Context) error {
		_, head := c.send(ctx, http.MethodHead, "", nil)
		if !ambiguous(head) {
			return head
		}
		// One key is asked for, only to read the error code.
		_, get := c.send(ctx, http.MethodGet, listOne, nil)
		if get == nil {
			return head // refused, and nobody says why
		}
		return get
	})
}

// ambiguous tells whether the answer to a HEAD can mean several things. A 404 can
// be a balancer's, whose S3 service is away.
func ambiguous(err error) bool {
	answer, _ := errors.AsType[minio.ErrorResponse](err) // zero where there was none
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		return true
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return answer.Region == ""
	}
	return false
}

// judge runs a request and puts its error into words.
func (c *Client) judge(ctx context.Context, request func(context.Context) error) Verdict {
	var handshakeFailed atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { handshakeFailed.Store(err != nil) },
	})
	return verdictOn(request(traced), handshakeFailed.Load())
}
