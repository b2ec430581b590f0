// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// An address is checked after the name of the endpoint is resolved. No proxy is dialled in its place.
func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
		close(accepted)
	}()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		c := clientOf(fmt.Sprintf("http://%s:%d", host, listener.Addr().(*net.TCPAddr).Port), Rules{})
		if got := c.Probe(t.Context()); got != forbidden || c.transport.Proxy != nil {
			t.Errorf("%s: %+v, with a proxy: %t", host, got, c.transport.Proxy != nil)
		}
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if conn, some := <-accepted; some {
		t.Errorf("a connection was made: %v", conn.LocalAddr())
	}
}

// No redirect is followed, wherever it leads. A gateway redirects users without a session to an
// existing page, which is no bucket.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect to %s was followed", r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{elsewhere.URL, "/login", "/team-data?again"} {
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, location, status)
			})
			probe, create := c.Probe(t.Context()), c.Create(t.Context(), "k", "v")
			if sent := strings.Join(requests(), " "); probe != redirected || !errors.Is(create, Error{redirected}) ||
				strings.Contains(sent, "login") || strings.Contains(sent, "again") {
				t.Errorf("%d to %s: %+v, while creating %v, after %s", status, location, probe, create, sent)
			}
		}
	}
}

func TestResponseIsBounded(t *testing.T) {
	for size, want := range map[int]Verdict{
		maxHeaders - 1<<10: Succeeded, // room for the other fields
		maxHeaders + 1<<12: notS3,     // net/http accepts a little more
	} {
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
			succeed(w, r)
		})
		if got := c.Probe(t.Context()); got != want {
			t.Errorf("a header of %d bytes: %+v, want %+v", size, got, want)
		}
	}
	for _, size := range []int{maxBody - 1, maxBody, maxBody + 1} {
		c, _ := serve(t, allowLoopback, respond(200, strings.Repeat("x", size)))
		if a := c.send(t.Context(), http.MethodGet, listOneKey, nil); len(a.body) != min(size, maxBody) {
			t.Errorf("of %d bytes %d were read, want at most %d", size, len(a.body), maxBody)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An error of the connection has its cause as verdict.
func TestConnectionErrors(t *testing.T) {
	sent := func(err error) error { return &url.Error{Op: "Head", URL: "http://s3.example.com/b", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want Verdict
	}{
		"out of time":      {sent(context.DeadlineExceeded), timedOut},
		"a slow DNS":       {sent(&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}), timedOut},
		"no such name":     {sent(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), noName},
		"refused":          {sent(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), unreachable},
		"reset":            {sent(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), closed},
		"cut":              {sent(io.EOF), closed},
		"cut in the body":  {io.ErrUnexpectedEOF, closed},
		"broken pipe":      {sent(&net.OpError{Op: "write", Err: syscall.EPIPE}), closed},
		"not HTTP":         {sent(errors.New("malformed HTTP response")), notS3},
		"TLS, cut":         {sent(fmt.Errorf("%w: %w", errHandshake, io.EOF)), closed},
		"TLS, out of time": {sent(fmt.Errorf("%w: %w", errHandshake, context.DeadlineExceeded)), timedOut},
	} {
		if got := verdictOnError(tc.err); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// closingConn calls a function at the first Close.
type closingConn struct {
	net.Conn
	closed func()
}

func (c closingConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// fullBacklog returns the address of a socket that accepts nothing, and whose queue is full.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	name, nameErr := syscall.Getsockname(fd)
	if err := errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 10 {
		conn, err := (&net.Dialer{Timeout: 100 * time.Millisecond}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue of a listener does not fill up")
	return ""
}

// net/http neither cancels a dial nor a handshake with the request. Nothing of them outlives the timeout of the
// client, however an endpoint is silent.
func TestSilentEndpointsLeaveNothing(t *testing.T) {
	silent := func(first string) string {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1)) // the request, or the ClientHello, has begun
				_, _ = io.WriteString(conn, first)
				t.Cleanup(func() { _ = conn.Close() })
			}
		}()
		return listener.Addr().String()
	}
	for name, endpoint := range map[string]string{
		"HTTP, no answer":            "http://" + silent(""),
		"HTTP, half an answer":       "http://" + silent("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<"),
		"HTTP, nothing accepted":     "http://" + fullBacklog(t),
		"TLS, no answer":             "https://" + silent(""),
		"TLS, half of a ServerHello": "https://" + silent("\x16\x03\x03\x00\x7a\x02\x00\x00\x76"),
		"TLS, nothing accepted":      "https://" + fullBacklog(t),
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			var open atomic.Int32
			c := New(Target{Endpoint: parse(endpoint), Bucket: "team-data", Timeout: 200 * time.Millisecond}, Credentials{},
				Rules{Allow: allowLoopback.Allow, Guard: func(transport *http.Transport) http.RoundTripper {
					dial := transport.DialContext
					transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := dial(ctx, network, address)
						if err == nil {
							open.Add(1)
							conn = closingConn{conn, sync.OnceFunc(func() { open.Add(-1) })}
						}
						return conn, err
					}
					return transport
				}})
			if got := c.Probe(t.Context()); got != timedOut {
				t.Errorf("%+v, want a timeout", got)
			}
			if err := goleak.Find(before); err != nil || open.Load() != 0 {
				t.Errorf("%d connections are open; %v", open.Load(), err)
			}
		})
	}
}

// Each reconcile has a client of its own. A connection that the endpoint leaves open ends soon after the last request.
func TestIdleConnectionsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(succeed))
	t.Cleanup(server.Close)
	closed := make(chan struct{})
	c := clientOf(server.URL, Rules{Allow: allowLoopback.Allow, Guard: func(transport *http.Transport) http.RoundTripper {
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err == nil {
				conn = closingConn{conn, sync.OnceFunc(func() { close(closed) })}
			}
			return conn, err
		}
		return transport
	}})
	if got := c.Probe(t.Context()); got != Succeeded {
		t.Fatalf("%+v, want a success", got)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is open 10 s after the only request")
	}
}
