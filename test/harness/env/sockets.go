package env

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

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

func owns(pid int, from, to string) bool {
	local, err := netip.ParseAddrPort(from)
	if err != nil {
		return false
	}
	remote, err := netip.ParseAddrPort(to)
	if err != nil {
		return false
	}
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false // it has ended, or there is no /proc
	}
	files, err := process.FileDescriptorTargets()
	if err != nil {
		return false
	}
	// The tables of the network that the process sees. One that is missing is empty.
	own, _ := procfs.NewFS(fmt.Sprintf("/proc/%d", pid))
	four, _ := own.NetTCP()
	six, _ := own.NetTCP6()
	isAt := func(ip net.IP, port uint64, at netip.AddrPort) bool {
		address, ok := netip.AddrFromSlice(ip)
		return ok && address.Unmap() == at.Addr().Unmap() && port == uint64(at.Port())
	}
	for _, s := range slices.Concat(four, six) {
		if isAt(s.LocalAddr, s.LocalPort, local) && isAt(s.RemAddr, s.RemPort, remote) &&
			slices.Contains(files, fmt.Sprintf("socket:[%d]", s.Inode)) {
			return true
		}
	}
	return false
}
