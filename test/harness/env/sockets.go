// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return false // it has ended
	}
	sockets := socketsFrom(pid, local, remote)
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(folder, f.Name()))
		return err == nil && slices.Contains(sockets, target)
	})
}

// socketsFrom returns the sockets with these addresses in the process's network, in the notation of
// links to open files.
func socketsFrom(pid int, local, remote netip.AddrPort) []string {
	var found []string
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // there is no such protocol, or the process has ended
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			// sl, local_address, rem_address, st, queues, timer, retransmits, uid,
			// timeout, inode; see proc(5).
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && addressOf(fields[1]) == local && addressOf(fields[2]) == remote {
				found = append(found, "socket:["+fields[9]+"]")
			}
		}
		_ = file.Close() // it was only read
	}
	return found
}

// addressOf reads an address as the kernel's tables have it: words of four bytes,
// each with the lowest byte first, and the port. What is no address is the zero one.
func addressOf(text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	if err != nil || len(bytes)%4 != 0 {
		return netip.AddrPort{}
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(bytes)
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number))
}
