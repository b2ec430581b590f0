package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// closeNotifier is a connection that reports when the server has closed it.
type closeNotifier struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closeNotifier) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// singleListener is a listener with one connection.
type singleListener struct {
	conn net.Conn
	done chan struct{}
}

func (l *singleListener) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *singleListener) Close() error   { close(l.done); return nil }
func (l *singleListener) Addr() net.Addr { return &net.TCPAddr{} }

// The server closes the connection of a slow or silent client after a bounded time, in each phase
// of a request.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const request = "GET /one.html HTTP/1.1\r\nHost: viewer\r\n\r\n"
	m := newMount(t, map[string]string{"SUMMARY.md": "[One](one.md)", "one.md": strings.Repeat("word ", 100<<10)})
	for name, tc := range map[string]struct {
		client func(net.Conn)
		after  time.Duration
	}{
		"sends nothing":       {func(net.Conn) {}, 5 * time.Second},
		"stops in the header": {func(c net.Conn) { _, _ = io.WriteString(c, request[:30]); discard(c) }, 5 * time.Second},
		"stops in the body": {func(c net.Conn) { _, _ = io.WriteString(c, withBody(request)); discard(c) },
			10 * time.Second},
		"does not read the response": {func(c net.Conn) { _, _ = io.WriteString(c, request) }, 30 * time.Second},
		"reads one byte of the response": {func(c net.Conn) {
			_, _ = io.WriteString(c, request)
			_, _ = c.Read(make([]byte, 1))
		}, 30 * time.Second},
		"stays idle after the response": {func(c net.Conn) { _, _ = io.WriteString(c, request); discard(c) },
			60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(&site{books: &bookCache{dir: m.dir}, renderer: &pageRenderer{language: "en"},
					log: slog.New(slog.DiscardHandler)})
				client, served := net.Pipe()
				conn := &closeNotifier{Conn: served, closed: make(chan struct{})}
				ended := make(chan error, 1)
				go func() { ended <- s.Serve(&singleListener{conn: conn, done: make(chan struct{})}) }()
				began := time.Now()
				go tc.client(client)
				select {
				case <-conn.closed:
				case <-time.After(time.Hour):
					t.Error("the connection is still open after an hour")
				}
				if took := time.Since(began); took != tc.after {
					t.Errorf("the connection was closed after %s, want %s", took, tc.after)
				}
				_ = client.Close()
				_ = s.Close()
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// serving runs the viewer until the end of the test, and returns its address.
func serving(t *testing.T, m *mount) string {
	t.Helper()
	logged, log := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, options{dir: m.dir, address: "127.0.0.1:0"}, slog.New(slog.NewTextHandler(log, nil)))
		log.Close()
	}()
	t.Cleanup(func() { // after the connections of the test are closed
		cancel()
		must(t, <-ended)
	})
	return awaitAddress(t, logged)
}

// More connections than the bound close the oldest ones, and keep no reader of another address from
// a page. 13,000 connections took the viewer beyond its memory limit.
func TestConnectionsAreBounded(t *testing.T) {
	m := newMount(t, sample())
	address := serving(t, m)
	attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var open []net.Conn
	for range 2 * maxConnections {
		c, err := attacker.DialContext(t.Context(), "tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		open = append(open, c)
	}
	client := &http.Client{Transport: &http.Transport{}}
	if status, page := fetch(t, client, http.MethodGet, "http://"+address+"/"); status != http.StatusOK {
		t.Errorf("a reader gets %d %s", status, page)
	}
	client.CloseIdleConnections()
	for _, c := range open[:maxConnections] { // the oldest ones
		must(t, c.SetReadDeadline(time.Now().Add(3*time.Second))) // before that of the server for a header
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection beyond the bound is still open")
		}
	}
}

// Responses that are not read, to so many addresses that none has more connections than others, keep
// no probe out.
func TestUnreadResponsesKeepNobodyOut(t *testing.T) {
	m := newMount(t, map[string]string{"SUMMARY.md": "[One](one.md)", "one.md": strings.Repeat(`"`, 900<<10)})
	address := serving(t, m)
	for i := range maxConnections {
		attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i/2))}}
		c, err := attacker.DialContext(t.Context(), "tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		must(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = io.WriteString(c, "GET /one.html HTTP/1.1\r\nHost: viewer\r\n\r\n")
		must(t, err)
		_, err = io.ReadFull(c, make([]byte, 1)) // the server has begun to send
		must(t, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	probe, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/healthz", nil)
	must(t, err)
	for range 10 {
		response, err := client.Do(probe)
		if err != nil {
			t.Errorf("a probe gets %v", err)
			continue
		}
		_ = response.Body.Close()
	}
}

// withBody announces a body that is never sent.
func withBody(request string) string {
	return strings.Replace(request, "\r\n\r\n", "\r\nContent-Length: 10\r\n\r\n", 1)
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// The header limit accepts what browsers send, and little more.
func TestHeaderSizeIsBounded(t *testing.T) {
	m := newMount(t, sample())
	for size, want := range map[int]int{8 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		s := newServer(&site{books: &bookCache{dir: m.dir}, renderer: &pageRenderer{language: "en"},
			log: slog.New(slog.DiscardHandler)})
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(listener) }()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/", nil)
		must(t, err)
		request.Header.Set("Cookie", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, response.StatusCode, want)
		}
		must(t, s.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}
