// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// blockSize is the number of ports in a block, including its marker.
const blockSize = 500

// pool has the ports of this process. They are below the ephemeral ports of most systems. A control
// plane has many outgoing connections, which could otherwise use a port before the program that is
// to listen on it, or during its restart.
var pool = portPool{first: 15_000, last: 29_999}

// FreePorts returns n ports of 127.0.0.1 that nothing listens on. None is handed out
// twice, nor to two processes, before all of the block have been.
func FreePorts(n int) ([]int, error) { return pool.free(n) }

// portPool allocates ports from a block that no other process uses. The owner of a block listens on
// its first port, the marker, until it ends.
type portPool struct {
	first, last int

	mu     sync.Mutex
	marker net.Listener
	handed int // ports of the block that were allocated or skipped, in all rounds
}

func (p *portPool) free(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := p.first; p.marker == nil && at+blockSize-1 <= p.last; at += blockSize {
		p.marker, _ = listen(at) // another process has the block
	}
	if p.marker == nil {
		return nil, fmt.Errorf("finding free ports: other processes have all blocks from %d to %d", p.first, p.last)
	}
	var free []int
	for range blockSize - 1 {
		if len(free) == n {
			break
		}
		// The port that was handed out longest ago, or never.
		port := p.marker.Addr().(*net.TCPAddr).Port + 1 + p.handed%(blockSize-1)
		p.handed++
		if listener, err := listen(port); err == nil {
			if err := listener.Close(); err != nil {
				return nil, fmt.Errorf("finding a free port: %w", err)
			}
			free = append(free, port)
		}
	}
	if len(free) < n {
		return nil, fmt.Errorf("finding %d free ports: a block has fewer", n)
	}
	return free, nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
