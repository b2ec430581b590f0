package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// noted is a connection that tells when the server has closed it.
type noted struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *noted) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// single is a listener to which one client comes.
type single struct {
	conn net.Conn
	done chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *single) Close() error   { close(l.done); return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{} }

// A client that is slow, or leaves without a word, holds its connection for a bounded time,
// at each point of an exchange.
func TestClientsThatDawdleAreLeft(t *testing.T) {
	const request = "GET /one.html HTTP/1.1\r\nHost: viewer\r\n\r\n"
	m := newMount(t, map[string]string{"SUMMARY.md": "[One](one.md)", "one.md": strings.Repeat("word ", 100<<10)})
	for name, tc := range map[string]struct {
		client func(net.Conn)
		after  time.Duration
	}{
		"says nothing":             {func(net.Conn) {}, 5 * time.Second},
		"stops within its header":  {func(c net.Conn) { _, _ = io.WriteString(c, request[:30]); discard(c) }, 5 * time.Second},
		"stops within its body":    {func(c net.Conn) { _, _ = io.WriteString(c, withBody(request)); discard(c) }, 10 * time.Second},
		"does not read the answer": {func(c net.Conn) { _, _ = io.WriteString(c, request) }, 30 * time.Second},
		"reads a byte of it":       {func(c net.Conn) { _, _ = io.WriteString(c, request); _, _ = c.Read(make([]byte, 1)) }, 30 * time.Second},
		"has read it, and stays":   {func(c net.Conn) { _, _ = io.WriteString(c, request); discard(c) }, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(&site{shelf: &shelf{dir: m.dir}, printer: &printer{language: "en"}, log: slog.New(slog.DiscardHandler)})
				client, served := net.Pipe()
				conn := &noted{Conn: served, closed: make(chan struct{})}
				ended := make(chan error, 1)
				go func() { ended <- s.Serve(&single{conn: conn, done: make(chan struct{})}) }()
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

// withBody announces a body that never comes.
func withBody(request string) string {
	return strings.Replace(request, "\r\n\r\n", "\r\nContent-Length: 10\r\n\r\n", 1)
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// A header has room for what browsers send, and for little more.
func TestHeadersAreBounded(t *testing.T) {
	m := newMount(t, sample())
	for size, want := range map[int]int{8 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		s := newServer(&site{shelf: &shelf{dir: m.dir}, printer: &printer{language: "en"}, log: slog.New(slog.DiscardHandler)})
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
