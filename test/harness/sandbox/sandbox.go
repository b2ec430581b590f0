// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"sync"

	"leasehold.dev/test/harness/relay"
)

// Mount makes a file or folder of the machine visible at another path.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Options describe a sandbox.
type Options struct {
	// Hostname is the host name that the processes see.
	Hostname string
	// Mounts are mounted in this order.
	Mounts []Mount
	// Keep are paths of the machine that stay visible if a mount would hide them.
	Keep []string
	// Folder is an empty folder of the machine, on which a new root is mounted. It is required only
	// for mounts directly below /.
	Folder string
}

// Sandbox is a set of namespaces. Its methods may be called concurrently.
type Sandbox struct {
	namespaces *namespaces

	mu     sync.Mutex
	relays map[string]*relay.Relay // by the side and the address that they connect
	closed bool
}

// New creates a sandbox. The caller must call Close. If the machine does not allow sandboxes, New
// returns an error; see Check.
func New(o Options) (*Sandbox, error) {
	n, err := newNamespaces(o)
	if err != nil {
		return nil, fmt.Errorf("creating a sandbox: %w", err)
	}
	return &Sandbox{namespaces: n, relays: map[string]*relay.Relay{}}, nil
}

// Start starts a command in the sandbox. cmd.Path and cmd.Dir must be absolute.
func (s *Sandbox) Start(cmd *exec.Cmd) error {
	if err := s.namespaces.start(cmd); err != nil {
		return fmt.Errorf("starting %s in a sandbox: %w", cmd.Path, err)
	}
	return nil
}

// Publish returns the address on this machine at which a port of the sandbox's loopback interface
// can be reached. Connections are reset while no process listens inside. Repeated calls return the
// same address.
func (s *Sandbox) Publish(port int) (string, error) {
	inside := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	r, err := s.relay("published "+inside, listen, func() (c net.Conn, err error) {
		err = s.namespaces.inNetwork(func() error { c, err = net.Dial("tcp", inside); return err })
		return c, err
	})
	if err != nil {
		return "", fmt.Errorf("publishing port %d of a sandbox: %w", port, err)
	}
	return r.Addr().String(), nil
}

// Reach makes an address of the machine's loopback interface, such as 127.0.0.1:6443, reachable
// inside at the same address. Repeated calls change nothing.
func (s *Sandbox) Reach(address string) error {
	dial := func() (net.Conn, error) { return net.Dial("tcp", address) }
	listen := func() (l net.Listener, err error) {
		err = s.namespaces.inNetwork(func() error { l, err = net.Listen("tcp", address); return err })
		return l, err
	}
	if _, err := s.relay("reached "+address, listen, dial); err != nil {
		return fmt.Errorf("making %s reachable in a sandbox: %w", address, err)
	}
	return nil
}

// Unreach reverts Reach and closes the connections that use the address.
func (s *Sandbox) Unreach(address string) {
	name := "reached " + address
	s.mu.Lock()
	r := s.relays[name]
	delete(s.relays, name)
	s.mu.Unlock()
	if r != nil {
		r.Stop()
	}
}

// relay returns the relay of that name, and starts it if there is none.
func (s *Sandbox) relay(name string, listen func() (net.Listener, error),
	dial func() (net.Conn, error)) (*relay.Relay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if r := s.relays[name]; r != nil {
		return r, nil
	}
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	s.relays[name] = relay.New(listener, dial)
	return s.relays[name], nil
}

// Owns reports whether a process of the sandbox has an open connection that appears on the machine
// as a connection from the address local to the address remote. Reach must have made remote
// reachable.
func (s *Sandbox) Owns(local, remote string) bool {
	s.mu.Lock()
	r := s.relays["reached "+remote]
	s.mu.Unlock()
	return r != nil && r.Dialed(local)
}

// Close closes all connections. The kernel removes the namespaces when their last process exits.
// Close may be called more than once.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	relays := s.relays
	s.relays, s.closed = map[string]*relay.Relay{}, true
	s.mu.Unlock()
	for _, r := range relays {
		r.Stop()
	}
	if err := s.namespaces.close(); err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	return nil
}

var errClosed = errors.New("the sandbox is closed")
