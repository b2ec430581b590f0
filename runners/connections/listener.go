// Package connections bounds the connections of an HTTP server, and what each of them can use, against
// clients without credentials. The manager and the viewer serve with it.
package connections

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Listener bounds its connections. A connection waits from its start, or from its last response,
// until its next request is complete. One connection more than the bound closes one of the remote
// address that has the most: the one that waits longest, or the oldest one if none waits. Addresses
// with up to 1/64 of the bound count as equal: otherwise many addresses with one idle connection each
// would close all but one of the API server.
//
// A flood from fewer than 64 addresses so closes its own connections. A flood from the API server's
// address, or from more others, has to open as many connections as the bound within one request of
// the API server to close its connection. A large review may wait for seconds.
type Listener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open list.List      // of *connection, in the order in which they began to wait
	of   map[string]int // open connections by remote address
}

// sendBytes bounds what the kernel keeps of a response that its client does not read. By default that
// grows to some MiB for each connection, which count as memory of the container.
const sendBytes = 64 << 10

// fewShare is the part of the bound up to which the connections of an address are few.
const fewShare = 64

// Listen returns a TCP listener with at most this number of connections.
func Listen(ctx context.Context, address string, most int) (*Listener, error) {
	inner, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &Listener{Listener: inner, most: most, of: map[string]int{}}, nil
}

// Accept implements net.Listener. The connection that it returns may be the one that was closed.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		// An error would end the server, and some systems return one for a connection that was reset.
		_ = tcp.SetWriteBuffer(sendBytes)
	}
	c := &connection{Conn: accepted, listener: l, host: HostOf(accepted.RemoteAddr().String())}
	if surplus := l.add(c); surplus != nil {
		// An error means that the client has closed it.
		_ = surplus.Close()
	}
	return c, nil
}

// add returns the connection to close, if there is one too many.
func (l *Listener) add(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[c.host]++
	c.place = l.open.PushBack(c)
	if l.open.Len() <= l.most {
		return nil
	}
	surplus, few := c, l.most/fewShare
	for e := l.open.Front(); e != nil; e = e.Next() {
		other, _ := e.Value.(*connection)
		more := max(l.of[other.host], few) - max(l.of[surplus.host], few)
		if more > 0 || more == 0 && (surplus == c || surplus.served && !other.served) {
			surplus = other
		}
	}
	return surplus
}

// connection is an open connection of a Listener.
type connection struct {
	net.Conn
	listener *Listener
	host     string
	place    *list.Element // nil after it was closed
	served   bool          // its request is complete and has no response yet
}

// Close implements net.Conn.
func (c *connection) Close() error {
	l := c.listener
	l.mu.Lock()
	if c.place != nil {
		l.open.Remove(c.place)
		c.place = nil
		if l.of[c.host]--; l.of[c.host] == 0 {
			delete(l.of, c.host)
		}
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// wait and serve change what the connection does.
func (c *connection) wait() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.served = false
	if c.place != nil {
		c.listener.open.MoveToBack(c.place)
	}
}

func (c *connection) serve() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.served = true
}

type connectionKey struct{}

// Bind makes the server report the states of its connections to a Listener.
func Bind(server *http.Server) {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, connectionOf(c))
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if own := connectionOf(c); own != nil && state == http.StateIdle {
			own.wait()
		}
	}
}

// Complete records that the request has arrived as a whole, so its connection does not wait.
func Complete(request *http.Request) {
	if c, _ := request.Context().Value(connectionKey{}).(*connection); c != nil {
		c.serve()
	}
}

func connectionOf(c net.Conn) *connection {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	own, _ := c.(*connection)
	return own
}

// HostOf returns the host of a remote address.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
