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
	"syscall"
	"testing"
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
		"not HTTP":         {sent(errors.New("malformed HTTP response")), notS3},
		"TLS, cut":         {sent(fmt.Errorf("%w: %w", errHandshake, io.EOF)), closed},
		"TLS, out of time": {sent(fmt.Errorf("%w: %w", errHandshake, context.DeadlineExceeded)), timedOut},
	} {
		if got := verdictOnError(tc.err); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
