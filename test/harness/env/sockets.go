// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"
)

// Owns reports whether the program has an open TCP connection from this local address, such as
// 127.0.0.1:40000, to that remote one. Connections to different addresses may share a local port.
// Without /proc it is always false.
func (r *Replica) Owns(local, remote string) bool {
	if r.sandbox != nil {
		return r.sandbox.Owns(local, remote)
	}
	return owns(r.Pid(), local, remote)
}

func owns(pid int, local, remote string) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false // it has ended
	}
	network, err := procfs.NewFS(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return false
	}
	// Without a protocol there is no table.
	tcp, _ := network.NetTCP()
	tcp6, _ := network.NetTCP6()
	for _, s := range slices.Concat(tcp, tcp6) {
		if addressOf(s.LocalAddr, s.LocalPort) == local && addressOf(s.RemAddr, s.RemPort) == remote {
			files, err := process.FileDescriptorTargets()
			return err == nil && slices.Contains(files, fmt.Sprintf("socket:[%d]", s.Inode))
		}
	}
	return false
}

func addressOf(ip net.IP, port uint64) string {
	return net.JoinHostPort(ip.String(), strconv.FormatUint(port, 10))
}
