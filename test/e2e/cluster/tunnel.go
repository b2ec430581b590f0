// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
)

// Tunnel makes an address in the cluster, such as a Service's, reachable at the returned local
// address. Each connection is opened on the node, so kube-proxy there selects a Pod for it. It
// needs only `docker exec`, independent of the network between this machine and the nodes. stop
// ends it and all its connections.
func (c *Cluster) Tunnel(ctx context.Context, node, host string, port int32) (address string, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening for a tunnel to %s: %w", host, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener was closed
			}
			running.Go(func() { c.carry(ctx, conn, node, host, port) })
		}
	})
	return listener.Addr().String(), func() {
		cancel()
		listener.Close()
		running.Wait()
	}, nil
}

// carry forwards one connection until either side ends it. An error ends the connection, as in a
// network failure.
func (c *Cluster) carry(ctx context.Context, conn net.Conn, node, host string, port int32) {
	const script = `exec 3<>"/dev/tcp/$1/$2" 4<&0 || exit
cat <&4 >&3 & sender=$!
cat <&3 & receiver=$!
wait -n
kill $sender $receiver 2>/dev/null`
	defer conn.Close()
	cmd := exec.CommandContext(ctx, "docker", "exec", "--interactive", node, "bash", "-c", script, "bash", host,
		fmt.Sprint(port))
	in, err := cmd.StdinPipe()
	if err != nil {
		c.logf("tunnel to %s: %v", host, err)
		return
	}
	cmd.Stdout = conn
	if err := cmd.Start(); err != nil {
		c.logf("tunnel to %s: %v", host, err)
		return
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = io.Copy(in, conn) // either side may close at any time
		_ = in.Close()
	})
	_ = cmd.Wait() // usually killed by a signal
	conn.Close()
	sending.Wait()
}
