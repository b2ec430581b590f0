package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"leasehold.dev/runners/connections"
)

// The server ends each phase of a request that is too slow.
func TestServerAsItShips(t *testing.T) {
	s := New(t.Context(), http.NotFoundHandler(), logr.Discard())
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 10*time.Second || s.WriteTimeout != 30*time.Second ||
		s.IdleTimeout != 100*time.Second || s.MaxHeaderBytes != 32<<10 {
		t.Errorf("the server is %+v", s)
	}
}

// A request whose body does not arrive still waits, whether or not the server reads bodies. So one
// connection too many closes the first one, and not itself.
func TestIncompleteRequestsWait(t *testing.T) {
	const incomplete = "POST /unknown HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Content-Length: 200000\r\n\r\nx"
	entered := make(chan struct{}, 2)
	entering := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			entered <- struct{}{}
			next.ServeHTTP(response, request)
		})
	}
	for name, handler := range map[string]http.Handler{
		"unknown path": entering(limitBodies(http.NewServeMux(), nil)),
		"page":         withoutBodies(entering(http.NotFoundHandler())),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := connections.Listen(t.Context(), "127.0.0.1:0", 2)
			if err != nil {
				t.Fatal(err)
			}
			s := New(context.WithoutCancel(t.Context()), handler, logr.Discard())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(l) }()
			var first net.Conn
			for i := range 3 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if i == 2 {
					break
				}
				if _, err := io.WriteString(c, incomplete); err != nil {
					t.Fatal(err)
				}
				<-entered
				if i == 0 {
					first = c
				}
			}
			_ = first.SetReadDeadline(time.Now().Add(4 * time.Second)) // before a deadline of the server
			if _, err := io.Copy(io.Discard, first); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the first connection is still open")
			}
			_ = s.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}
