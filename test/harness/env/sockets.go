// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Owns reports whether the program has an open TCP connection from the address local, such as
// 127.0.0.1:40000, to the address remote. Connections to different addresses may share a local
// port. Without /proc it always returns false.
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
		addresses := " " + tableText(local, table) + " " + tableText(remote, table) + " "
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			// sl, local_address, rem_address, st, queues, timer, retransmits, uid,
			// timeout, inode; see proc(5).
			if !strings.Contains(lines.Text(), addresses) {
				continue
			}
			if fields := strings.Fields(lines.Text()); len(fields) > 9 {
				found = append(found, "socket:["+fields[9]+"]")
			}
		}
		_ = file.Close() // it was only read
	}
	return found
}

// tableText is an address as a table of the kernel has it: words of four bytes, each with the lowest byte
// first, and the port.
func tableText(a netip.AddrPort, table string) string {
	bytes := a.Addr().Unmap().AsSlice()
	if table == "tcp6" {
		whole := a.Addr().As16()
		bytes = whole[:]
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	return fmt.Sprintf("%X:%04X", bytes, a.Port())
}
