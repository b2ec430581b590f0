// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"k8s.io/utils/clock"
)

// listener notes every connection.
type listener struct {
	net.Listener

	clock   clock.PassiveClock
	journal *journal
	config  *tls.Config                        // nil: clients do not use TLS
	peer    func(client, server string) string // nil if the peers of connections are unknown

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// conn is a connection that counts the received bytes.
type conn struct {
	net.Conn

	owner *listener
	entry *Connection
	once  sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.owner.journal.note(func() { c.entry.Received += int64(n) })
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.owner.forget(c)
		now := c.owner.clock.Now()
		c.owner.journal.note(func() { c.entry.Closed = now })
	})
	return err
}

// Accept returns the next connection that can carry a request.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, owner: l,
			entry: &Connection{Remote: accepted.RemoteAddr().String(), Accepted: l.clock.Now()}}
		if l.peer != nil {
			c.entry.Peer = l.peer(c.entry.Remote, accepted.LocalAddr().String())
		}
		l.journal.accepted(c.entry)
		if !l.track(c) {
			continue // the listener has been closed, and the next Accept fails
		}
		if l.config != nil {
			return tls.Server(c, l.config), nil
		}
		return c, nil
	}
}

// track notes c so that shut closes it, or closes it when that has passed.
func (l *listener) track(c *conn) bool {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.open[c] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		_ = c.Close() // no handler has the connection yet
	}
	return !closed
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// shut closes the listener and every accepted connection, including those that the HTTP server has
// not received yet.
func (l *listener) shut() error {
	err := l.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.mu.Lock()
	l.closed = true
	var open []*conn
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // only to unblock a reader
	}
	return err
}

// rawConn returns the conn beneath TLS.
func rawConn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	raw, _ := c.(*conn)
	return raw
}
