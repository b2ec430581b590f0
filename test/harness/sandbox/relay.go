package sandbox

import (
	"errors"
	"io"
	"net"
	"sync"
)

// relay passes each connection that its listener accepts on to a new connection. An end of one
// direction and a reset arrive at the other side as such.
type relay struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	running  sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	stopped bool
	// dialing is held while a connection is dialed and not yet in open.
	dialing sync.RWMutex
}

func newRelay(listener net.Listener, dial func() (net.Conn, error)) *relay {
	r := &relay{listener: listener, dial: dial, open: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	return r
}

func (r *relay) accept() {
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

func (r *relay) serve(accepted net.Conn) {
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
	var both sync.WaitGroup
	both.Go(func() { pass(dialed, accepted) })
	both.Go(func() { pass(accepted, dialed) })
	both.Wait()
}

func (r *relay) connect() (net.Conn, error) {
	r.dialing.Lock()
	defer r.dialing.Unlock()
	dialed, err := r.dial()
	if err != nil {
		return nil, err
	}
	if !r.track(dialed) {
		return nil, errClosed
	}
	return dialed, nil
}

// track notes a connection so that stop closes it, or closes it if that has passed.
func (r *relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		reset(c)
		return false
	}
	r.open[c] = struct{}{}
	return true
}

func (r *relay) drop(c net.Conn) {
	_ = c.Close() // both directions have ended
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// dialed reports whether an open connection was dialed from a local address.
func (r *relay) dialed(local string) bool {
	r.dialing.RLock()
	defer r.dialing.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		if c.LocalAddr().String() == local {
			return true
		}
	}
	return false
}

// stop ends the listener and all connections, and returns when nothing of the relay runs.
func (r *relay) stop() {
	_ = r.listener.Close() // it has no buffers
	r.mu.Lock()
	r.stopped = true
	for c := range r.open {
		reset(c)
	}
	r.mu.Unlock()
	r.running.Wait()
}

// pass copies until from has ended, then ends that direction of to. A broken connection breaks
// both.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	if half, ok := to.(*net.TCPConn); ok {
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
