package env

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// taken remembers the ports that were handed out, so that none is handed out
// twice by this process, not even one whose owner has not bound it yet.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePorts returns n ports of 127.0.0.1 that nothing listens on. They are free
// at this moment; a program that wants one binds it soon.
func freePorts(n int) (ports []int, err error) {
	taken.Lock()
	defer taken.Unlock()
	// Held until all are found: the system gives each out once.
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	for len(ports) < n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		held = append(held, listener)
		port := listener.Addr().(*net.TCPAddr).Port
		if !taken.ports[port] {
			taken.ports[port] = true
			ports = append(ports, port)
		}
	}
	return ports, nil
}
