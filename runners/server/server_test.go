package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

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

// Many made-up tokens of one client, which take a second each, delay the review of another one by a
// turn. A client that reads its page slowly delays none.
func TestReviewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading := make(chan struct{})
		page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-reading })
		handler, err := takeTurns(newTurns(reviewsAtOnce), page, func(page http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if connections.HostOf(r.RemoteAddr) != "attacker" {
					page.ServeHTTP(w, r)
					return
				}
				<-time.After(time.Second)
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
			}), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan int, 100)
		for range 100 {
			go func() { answers <- send(handler, post("attacker", "/metrics", nil)).Code }()
		}
		synctest.Wait()
		began := time.Now()
		served := make(chan time.Duration)
		for range 2 * reviewsAtOnce { // none of them reads its page
			go func() {
				send(handler, post("scraper", "/metrics", nil))
				served <- time.Since(began)
			}()
		}
		<-time.After(3 * time.Second)
		close(reading)
		for range 2 * reviewsAtOnce {
			if took := <-served; took > 3*time.Second {
				t.Errorf("a scraper waited for %s", took)
			}
		}
		codes := map[int]int{}
		for range 100 {
			codes[<-answers]++
		}
		// No request waits for longer than the time in which a request has to arrive.
		if codes[http.StatusUnauthorized] < 30 || codes[http.StatusUnauthorized]+codes[http.StatusServiceUnavailable] != 100 {
			t.Errorf("the attacker got %v", codes)
		}
	})
}
