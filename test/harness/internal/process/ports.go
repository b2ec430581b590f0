// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// blockSize is the number of ports in a block, including its marker.
const blockSize = 200

// pool has the ports of this process. They are below the ephemeral ports of most systems. A control
// plane has many outgoing connections, which could otherwise use a port before the program that is
// to listen on it, or during its restart.
var pool = portPool{first: 15_000, last: 29_999}

// FreePorts returns n ports of 127.0.0.1 that nothing listens on. None is handed out
// twice, nor to two processes, before all have been.
func FreePorts(n int) ([]int, error) { return pool.free(n) }

// portPool allocates ports from blocks that no other process uses. The owner of a block listens on
// its first port, the marker, until it ends.
type portPool struct {
	first, last int

	mu      sync.Mutex
	markers []net.Listener
	// handed is the number of ports of these blocks that were allocated or skipped in this round.
	handed int
}

func (p *portPool) free(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free []int
	for range p.last - p.first {
		if len(free) == n {
			return free, nil
		}
		port, ok := p.next()
		if !ok {
			break
		}
		if listener, err := listen(port); err == nil {
			if err := listener.Close(); err != nil {
				return nil, fmt.Errorf("finding a free port: %w", err)
			}
			free = append(free, port)
		}
	}
	return nil, fmt.Errorf("finding %d free ports from %d to %d: others listen there, or have the blocks", n,
		p.first, p.last)
}

// next is the port that was handed out longest ago, or never.
func (p *portPool) next() (port int, ok bool) {
	const ports = blockSize - 1
	if p.handed == len(p.markers)*ports && !p.claim() {
		p.handed = 0
	}
	if len(p.markers) == 0 {
		return 0, false
	}
	marker := p.markers[p.handed/ports].Addr().(*net.TCPAddr).Port
	port = marker + 1 + p.handed%ports
	p.handed++
	return port, true
}

// claim takes one more block, if there is one.
func (p *portPool) claim() bool {
	for marker := p.first; marker+blockSize-1 <= p.last; marker += blockSize {
		if listener, err := listen(marker); err == nil {
			p.markers = append(p.markers, listener)
			return true
		}
	}
	return false
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
