package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// pipes is a listener whose connections are in memory, so that time is the bubble's.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(t *testing.T, path string, length int) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	p <- server
	if _, err := fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length,
		strings.Repeat("x", length)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	return client
}

// Attackers send complete requests, whose responses are long, and read no response. A review of
// 32 KiB can have a response of 2 MiB, with one error for each invalid name.
func TestUnreadResponsesDelayRequestsBriefly(t *testing.T) {
	for size, length := range map[string]int{"small": 1, "large": 4 * smallBody} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mux := http.NewServeMux()
				mux.HandleFunc("/a", func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = w.Write(make([]byte, 2<<20))
				})
				mux.HandleFunc("/b", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				l := make(pipes)
				s := New(context.WithoutCancel(t.Context()), limitBodies(mux, clock.RealClock{}), logr.Discard())
				ended := make(chan error, 1)
				go func() { ended <- s.Serve(l) }()
				for range 2 * smallAtOnce {
					go l.dial(t, "/a", length) // a body that waits for its place is sent only in part
				}
				synctest.Wait()
				began := time.Now()
				response, err := http.ReadResponse(bufio.NewReader(l.dial(t, "/b?timeout=5s", length)), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); response.StatusCode != http.StatusOK || took > 2*time.Second {
					t.Errorf("answered %d after %s, want 200 within 2 s", response.StatusCode, took)
				}
				_ = response.Body.Close()
				_ = s.Close()
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
