// Package s3 probes, creates and removes one bucket of an S3-compatible service. It returns reasons
// and messages of the StorageBucket API. It never returns text of the server, which is not trusted
// and must not get into a status.
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
	// maxBody bounds the bytes that are read of a response's body.
	maxBody = 64 << 10
	// maxHeaders bounds the bytes of a response's header.
	maxHeaders = 64 << 10
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

// Client sends requests about one bucket. It sends each request once; the caller retries by its own
// schedule.
//
// It uses minio-go for signatures and errors, but not its client. That client takes any 404
// for a missing bucket, even a load balancer's, sends requests to other hosts if the endpoint is
// Amazon's, and lists page after page.
type Client struct {
	target      Target
	endpoint    *url.URL
	credentials Credentials
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
	c := &Client{target: target, endpoint: endpoint, credentials: creds}
	c.transport = &http.Transport{
		// Proxy is not set: the transport would dial the proxy, and the rules would not apply to
		// the endpoint.
		DialContext:            rules.dialer().DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: target.Roots, MinVersion: tls.VersionTLS12},
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

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Probe checks whether the bucket can be used. It sends a HEAD request. If the response is
// ambiguous, it sends a GET request for the error code, which HEAD responses cannot contain.
func (c *Client) Probe(ctx context.Context) Verdict {
	return c.judge(ctx, func(ctx context.Context) error {
		_, head := c.send(ctx, http.MethodHead, "", nil)
		if !isAmbiguous(head) {
			return head
		}
		// The list is limited to one key, because only the error code matters.
		_, get := c.send(ctx, http.MethodGet, listOneKey, nil)
		if get == nil {
			return head // denied, without a code
		}
		return get
	})
}

// isAmbiguous reports whether a response to HEAD has several possible causes. A 404 may come from a
// load balancer without an S3 server.
func isAmbiguous(err error) bool {
	answer, _ := errors.AsType[minio.ErrorResponse](err) // zero if there was no response
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		return true
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return answer.Region == ""
	}
	return false
}

// judge executes a request and returns the verdict on its error.
func (c *Client) judge(ctx context.Context, request func(context.Context) error) Verdict {
	var handshakeFailed atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { handshakeFailed.Store(err != nil) },
	})
	return verdictOn(request(traced), handshakeFailed.Load())
}
