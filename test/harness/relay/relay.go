// SPDX-License-Identifier: Apache-2.0

// Package relay forwards TCP connections through this process.
package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Relay passes each connection that its listener accepts on to a new connection. An end of one
// direction and a reset arrive at the other side as such.
type Relay struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	running  sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	stopped bool
	// dialing is held for reading while a connection is dialed and not yet in open.
	dialing sync.RWMutex
}

// errStopped is the error of a connection that a Relay has dialed when it was stopped.
var errStopped = errors.New("the relay has been stopped")

// New starts a Relay, which has to be stopped. Connections are reset while dial fails.
func New(listener net.Listener, dial func() (net.Conn, error)) *Relay {
	r := &Relay{listener: listener, dial: dial, open: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	return r
}

// Addr returns the address that it listens on.
func (r *Relay) Addr() net.Addr { return r.listener.Addr() }

func (r *Relay) accept() {
	for {
		accepted, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // this connection is lost, as on a busy network
		}
		r.running.Go(func() { r.serve(accepted) })
	}
}

func (r *Relay) serve(accepted net.Conn) {
	if !r.track(accepted) {
		return
	}
	defer r.drop(accepted)
	dialed, err := r.connect()
	if err != nil {
		reset(accepted)
		return
	}
	defer r.drop(dialed)
	Join(dialed, accepted)
}

func (r *Relay) connect() (net.Conn, error) {
	r.dialing.RLock()
	defer r.dialing.RUnlock()
	dialed, err := r.dial()
	if err != nil {
		return nil, err
	}
	if !r.track(dialed) {
		return nil, errStopped
	}
	return dialed, nil
}

// track notes a connection so that Stop closes it, or closes it if that has passed.
func (r *Relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		reset(c)
		return false
	}
	r.open[c] = struct{}{}
	return true
}

func (r *Relay) drop(c net.Conn) {
	_ = c.Close() // both directions have ended
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// Dialed reports whether an open connection was dialed from a local address.
func (r *Relay) Dialed(local string) bool {
	r.dialing.Lock() // waits for connections that are being dialed
	defer r.dialing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		if c.LocalAddr().String() == local {
			return true
		}
	}
	return false
}

// Stop ends the listener and all connections, and returns when nothing of the Relay runs. It is safe
// to call more than once.
func (r *Relay) Stop() {
	_ = r.listener.Close() // it has no buffers
	r.mu.Lock()
	r.stopped = true
	for c := range r.open {
		reset(c)
	}
	r.mu.Unlock()
	r.running.Wait()
}

// Join copies both directions of two connections until both have ended.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// pass copies until from has ended, then ends that direction of to. A broken connection breaks
// both.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	// TCP and Unix sockets have this: the API server's connections are Unix sockets.
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it fails if that connection has ended
	}
}

// reset closes a connection so that the other side gets a reset, not an orderly end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the end is orderly
	}
	_ = c.Close()
}
