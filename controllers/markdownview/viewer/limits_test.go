package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// With these times net/http closes the connection of a slow or silent client in each phase of a
// request. The header limit accepts what browsers send, and little more.
func TestSlowClientsAndLargeHeadersAreBounded(t *testing.T) {
	s := newServer(&site{log: slog.New(slog.DiscardHandler)})
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 10*time.Second || s.WriteTimeout != 30*time.Second ||
		s.IdleTimeout != time.Minute || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("%s for a header, %s for a request, %s for a response, %s idle, headers of %d bytes", s.ReadHeaderTimeout,
			s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes)
	}
}

// More connections than the bound close the oldest ones, and keep no reader of another address from
// a page. 13,000 connections took the viewer beyond its memory limit.
func TestConnectionsAreBounded(t *testing.T) {
	m := newMount(t, sample())
	address, stop := serving(t, m)
	t.Cleanup(func() { must(t, stop()) }) // after the connections of the test are closed
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

// Unread responses, to so many addresses that none has more connections than others, do not block probes.
func TestUnreadResponsesDoNotBlockProbes(t *testing.T) {
	m := newMount(t, map[string]string{"SUMMARY.md": "[One](one.md)", "one.md": strings.Repeat(`"`, 900<<10)})
	address, stop := serving(t, m)
	t.Cleanup(func() { must(t, stop()) }) // after the connections of the test are closed
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
