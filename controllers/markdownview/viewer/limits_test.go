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

// Of more connections than the bound the later ones wait until one ends. 13,000 connections took the
// viewer beyond its memory limit.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	var open []net.Conn
	for range maxConnections + 1 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		must(t, err)
		must(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		t.Cleanup(func() { _ = c.Close() })
	}
	for range maxConnections {
		open = append(open, <-accepted)
	}
	select {
	case <-accepted:
		t.Error("a connection beyond the bound is accepted")
	default:
	}
	// The kernel keeps little of a response that is not read.
	must(t, open[0].SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := open[0].Write(make([]byte, 8<<20)); err == nil || n > 1<<20 {
		t.Errorf("%d bytes of an unread response are kept, %v, want less than a MiB", n, err)
	}
	must(t, open[0].Close())
	open[0] = <-accepted
	for _, c := range open {
		must(t, c.Close())
	}
	must(t, listener.Close())
	for range accepted {
		t.Error("a connection is left")
	}
}
