package fault

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"k8s.io/utils/clock"
)

// listener notes every connection and spoils it before HTTP sees it.
type listener struct {
	net.Listener

	clock   clock.PassiveClock
	journal *journal
	configs map[Wire]*tls.Config
	peer    func(client, server string) string // nil if the peers of connections are unknown
	wire    func() *Injection                  // what the next connection meets
	running *sync.WaitGroup

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// conn is a connection that counts what comes.
type conn struct {
	net.Conn

	owner *listener
	met   *Injection // the wire it was accepted with
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
		injection := l.wire()
		c := &conn{Conn: accepted, owner: l, met: injection, entry: &Connection{
			Remote: accepted.RemoteAddr().String(), Wire: injection.wire, Accepted: l.clock.Now(),
		}}
		if l.peer != nil {
			c.entry.Peer = l.peer(c.entry.Remote, accepted.LocalAddr().String())
		}
		l.journal.accepted(c.entry)
		if !l.track(c) {
			continue // the listener has been closed, and the next Accept fails
		}
		injection.happened()
		if served := l.treat(c, injection); served != nil {
			return served, nil
		}
	}
}

// treat returns what HTTP is to see of c, or nothing.
func (l *listener) treat(c *conn, injection *Injection) net.Conn {
	switch injection.wire {
	case Plain:
		return c
	case Reset:
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an orderly end; if that fails it is closed all the same
		}
		_ = c.Close() // an error changes nothing for the client
		return nil
	case Silent:
		l.running.Go(func() {
			stop := make(chan struct{})
			l.running.Go(func() {
				select {
				case <-injection.healed:
					_ = c.Close() // wakes up the copy
				case <-stop:
				}
			})
			_, _ = io.Copy(io.Discard, c) // ends when either side does
			close(stop)
			_ = c.Close()
		})
		return nil
	default:
		return tls.Server(c, l.configs[injection.wire])
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
		_ = c.Close() // no handler has seen the connection yet
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
		_ = c.Close() // only to wake up a reader
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
