package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Backend is one of the places a Forwarder may send a connection to.
type Backend struct {
	// Address is host:port.
	Address string
	// Ready returns nil while connections may be sent there.
	Ready func(context.Context) error
}

// Forwarder stands in for a Service where there is no kube-proxy: it listens on
// 127.0.0.1 and hands each connection to the next backend that is ready, in
// turn. Like a Service it closes connections when none is, does not try a
// second backend, and leaves open connections alone when their backend stops
// being ready.
type Forwarder struct {
	listener net.Listener
	cancel   context.CancelFunc
	running  sync.WaitGroup
	looking  sync.Mutex // one look at a time, so that the last one saw the newest backends

	mu       sync.Mutex
	backends []Backend
	ready    []string // addresses
	next     int
	open     map[net.Conn]struct{}
	stopped  bool
}

// StartForwarder listens on a free port and probes the readiness of the backends every interval,
// for the first time before it returns.
func StartForwarder(ctx context.Context, interval time.Duration, backends ...Backend) (*Forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a forwarder: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Forwarder{listener: listener, cancel: cancel, open: map[net.Conn]struct{}{}}
	f.SetBackends(ctx, backends...)
	f.running.Go(func() { f.poll(ctx, interval) })
	f.running.Go(f.accept)
	return f, nil
}

// Port returns the port it listens on.
func (f *Forwarder) Port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// SetBackends replaces the backends and probes the new ones at once.
func (f *Forwarder) SetBackends(ctx context.Context, backends ...Backend) {
	f.mu.Lock()
	f.backends = backends
	f.mu.Unlock()
	f.look(ctx)
}

// Ready returns the addresses of the backends that were ready at the last poll.
func (f *Forwarder) Ready() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ready...)
}

// Stop closes the listener and all connections and returns when nothing of the
// forwarder runs any more. It is safe to call more than once.
func (f *Forwarder) Stop() error {
	f.cancel()
	err := f.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	f.mu.Lock()
	f.stopped = true
	for conn := range f.open {
		_ = conn.Close() // only to wake up who reads from it
	}
	f.mu.Unlock()
	f.running.Wait()
	if err != nil {
		return fmt.Errorf("stopping a forwarder: %w", err)
	}
	return nil
}

func (f *Forwarder) poll(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look(ctx)
		}
	}
}

// look probes all backends concurrently, so one that does not answer does not delay the others.
func (f *Forwarder) look(ctx context.Context) {
	f.looking.Lock()
	defer f.looking.Unlock()
	f.mu.Lock()
	backends := f.backends
	f.mu.Unlock()
	answers := make([]error, len(backends))
	var all sync.WaitGroup
	for i, backend := range backends {
		all.Go(func() { answers[i] = backend.Ready(ctx) })
	}
	all.Wait()
	var ready []string
	for i, err := range answers {
		if err == nil {
			ready = append(ready, backends[i].Address)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = ready
}

// pick returns the next ready backend in turn, or nothing.
func (f *Forwarder) pick() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		return ""
	}
	f.next++
	return f.ready[f.next%len(f.ready)]
}

func (f *Forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // this connection is lost, as on a busy network
		}
		if f.track(conn) {
			f.running.Go(func() { f.serve(conn) })
		}
	}
}

// Forward hands conn, which another listener accepted, to the next ready backend. It closes conn,
// and returns when both sides have closed.
func (f *Forwarder) Forward(conn net.Conn) {
	f.mu.Lock()
	stopped := f.stopped
	if !stopped {
		f.running.Add(1) // before Stop waits
	}
	f.mu.Unlock()
	if stopped {
		_ = conn.Close() // as when no backend is ready
		return
	}
	defer f.running.Done()
	if f.track(conn) {
		f.serve(conn)
	}
}

// track notes conn so that Stop closes it, or closes it when that has passed.
func (f *Forwarder) track(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		_ = conn.Close()
		return false
	}
	f.open[conn] = struct{}{}
	return true
}

func (f *Forwarder) drop(conn net.Conn) {
	_ = conn.Close() // an error changes nothing: the connection is not used again
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

// serve copies both directions until both sides have closed.
func (f *Forwarder) serve(client net.Conn) {
	defer f.drop(client)
	address := f.pick()
	if address == "" {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	if !f.track(server) {
		return
	}
	defer f.drop(server)
	join(client, server)
}

// join copies both directions until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// pass copies until from has ended, then ends that direction of to. A broken
// connection ends both directions: the reading side gets the error too.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	// TCP and Unix sockets have this: the API server's connections are Unix sockets.
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
