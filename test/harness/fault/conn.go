// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"crypto/tls"
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
		now := c.owner.clock.Now()
		c.owner.journal.note(func() { c.entry.Closed = now })
	})
	return err
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
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
	if l.config != nil {
		return tls.Server(c, l.config), nil
	}
	return c, nil
}
