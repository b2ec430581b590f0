// Package s3 looks at one bucket of an S3-compatible service, and makes and
// removes it. It says what it found in the words of the API, never in those of
// the server: what a server writes is not to be trusted with a place in a status.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
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
type Client struct {
	target      Target
	endpoint    *url.URL
	credentials Credentials
	transport   *http.Transport
	http        *http.Client
	minio       *minio.Client
	last        exchange
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
	bounded := boundedTransport{c.transport, &c.last}
	c.http = &http.Client{
		Transport:     bounded,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	lookup := minio.BucketLookupPath
	if target.VirtualHost {
		lookup = minio.BucketLookupDNS
	}
	c.minio, err = minio.New(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(creds.AccessKeyID, creds.SecretAccessKey, creds.SessionToken),
		Secure:       endpoint.Scheme == "https",
		Region:       target.Region, // set, or minio-go asks the server for it first
		BucketLookup: lookup,
		Transport:    bounded,
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("building the S3 client: %w", err)
	}
	return c, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Probe looks whether the bucket can be used: a HEAD and, where its answer can
// mean several things, a GET for the error code, which a HEAD cannot carry.
func (c *Client) Probe(ctx context.Context) Verdict {
	return c.judge(ctx, func(ctx context.Context) error {
		exists, err := c.minio.BucketExists(ctx, c.target.Bucket)
		if err == nil && !exists {
			// minio-go says "no such bucket" of some other answers too.
			status, _ := c.last.was()
			return minio.ErrorResponse{StatusCode: status, Code: minio.NoSuchBucket}
		}
		if !ambiguous(err) {
			return err
		}
		return c.explain(ctx, err)
	})
}

// ambiguous tells whether the answer to a HEAD can mean several things.
func ambiguous(err error) bool {
	switch answer := minio.ToErrorResponse(err); answer.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden:
		return true
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return answer.Region == ""
	}
	return false
}

// explain asks for one key of the bucket, only to read the error code of the
// answer. A success is none: the HEAD was refused. minio-go's listing is not
// used, as a server could make it ask for page after page.
func (c *Client) explain(ctx context.Context, head error) error {
	err := c.send(ctx, http.MethodGet, "list-type=2&max-keys=1", nil)
	if err == nil {
		return head
	}
	return err
}

// judge runs a request and puts its error into words.
func (c *Client) judge(ctx context.Context, request func(context.Context) error) Verdict {
	var handshakeFailed atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { handshakeFailed.Store(err != nil) },
	})
	err := request(traced)
	if err != nil {
		// minio-go puts other words in place of some errors of the transport.
		_, cause := c.last.was()
		err = errors.Join(err, cause)
	}
	return verdictOn(err, handshakeFailed.Load())
}

// exchange is how the last request went, below minio-go.
type exchange struct {
	mu     sync.Mutex
	status int   // of the answer; zero if there was none
	err    error // why there was none
}

func (e *exchange) note(status int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status, e.err = status, err
}

func (e *exchange) was() (status int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status, e.err
}

// boundedTransport reads no more than maxBody of any answer, and notes how the
// request went.
type boundedTransport struct {
	next http.RoundTripper
	last *exchange
}

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		t.last.note(0, err)
		return nil, err
	}
	t.last.note(response.StatusCode, nil)
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxBody), response.Body}
	return response, nil
}
