package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"leasehold.dev/test/harness/relay"
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
// turn. Like a Service it resets connections when none is, does not try a
// second backend, and leaves open connections alone when their backend stops
// being ready.
type Forwarder struct {
	*relay.Relay

	cancel  context.CancelFunc
	polling sync.WaitGroup
	looking sync.Mutex // one look at a time, so that the last one saw the newest backends

	mu       sync.Mutex
	backends []Backend
	ready    []string // addresses
	next     int
}

// StartForwarder listens on a free port and probes the readiness of the backends every interval,
// for the first time before it returns.
func StartForwarder(ctx context.Context, interval time.Duration, backends ...Backend) (*Forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a forwarder: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Forwarder{cancel: cancel}
	f.SetBackends(ctx, backends...)
	f.polling.Go(func() { f.poll(ctx, interval) })
	f.Relay = relay.New(listener, f.dial)
	return f, nil
}

// Port returns the port it listens on.
func (f *Forwarder) Port() int { return f.Addr().(*net.TCPAddr).Port }

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
func (f *Forwarder) Stop() {
	f.cancel()
	f.Relay.Stop()
	f.polling.Wait()
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

// dial connects to the next ready backend in turn.
func (f *Forwarder) dial() (net.Conn, error) {
	f.mu.Lock()
	if len(f.ready) == 0 {
		f.mu.Unlock()
		return nil, errors.New("no backend is ready")
	}
	f.next++
	address := f.ready[f.next%len(f.ready)]
	f.mu.Unlock()
	return net.Dial("tcp", address)
}
