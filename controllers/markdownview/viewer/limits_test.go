// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net"
	"testing"
	"time"
)

// With these times net/http closes the connection of a slow or silent client in each phase of a
// request. The header limit accepts what browsers send, and little more.
func TestSlowClientsAndLargeHeadersAreBounded(t *testing.T) {
	s := newServer(&site{log: slog.New(slog.DiscardHandler)})
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 10*time.Second || s.WriteTimeout != 30*time.Second ||
		s.IdleTimeout != 10*time.Second || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("%s for a header, %s for a request, %s for a response, %s idle, headers of %d bytes", s.ReadHeaderTimeout,
			s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes)
	}
}

// The notice that a page takes too long is sent while its connection is open. A viewer ends before the kubelet kills it
// 30 s after the deletion of its Pod began, in the first 5 of which it goes on to serve.
func TestTimesFitIntoThoseAroundThem(t *testing.T) {
	if most := newServer(&site{log: slog.New(slog.DiscardHandler)}).WriteTimeout / 2; pageTimeout > most {
		t.Errorf("a page may take %s, want at most %s", pageTimeout, most)
	}
	if most := 25 * time.Second; drainTimeout >= most {
		t.Errorf("a viewer ends %s after SIGTERM, want less than %s", drainTimeout, most)
	}
}

// Of more connections than the bound the later ones wait until one ends. 13,000 connections took the
// viewer beyond its memory limit.
func TestConnectionsAreBounded(t *testing.T) {
	address, stop := serving(t, newMount(t, sample()))
	open := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		must(t, err)
		_, err = c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"))
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	answers := func(c net.Conn, within time.Duration) bool {
		must(t, c.SetReadDeadline(time.Now().Add(within)))
		n, _ := c.Read(make([]byte, 1))
		return n > 0
	}
	var accepted []net.Conn
	for range maxConnections {
		accepted = append(accepted, open())
	}
	for _, c := range accepted {
		if !answers(c, 10*time.Second) {
			t.Fatal("a connection within the bound has no answer")
		}
	}
	late := open()
	if answers(late, 200*time.Millisecond) {
		t.Error("a connection beyond the bound has an answer")
	}
	must(t, accepted[0].Close())
	if !answers(late, 10*time.Second) {
		t.Error("a connection that waited has no answer")
	}
	for _, c := range append(accepted, late) {
		_ = c.Close() // or the viewer waits for them to become idle
	}
	must(t, stop())
}
