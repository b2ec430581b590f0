// SPDX-License-Identifier: Apache-2.0

package env

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTableText(t *testing.T) {
	g := NewWithT(t)
	for _, tc := range []struct{ address, table, want string }{
		{"127.0.0.1:8080", "tcp", "0100007F:1F90"},
		{"[::ffff:127.0.0.1]:8080", "tcp", "0100007F:1F90"},
		{"127.0.0.1:8080", "tcp6", "0000000000000000FFFF00000100007F:1F90"},
		{"[::1]:80", "tcp6", "00000000000000000000000001000000:0050"},
	} {
		g.Expect(tableText(netip.MustParseAddrPort(tc.address), tc.table)).To(Equal(tc.want), tc.address)
	}
}

func TestOwns_OneProcessPerConnection(t *testing.T) {
	g := NewWithT(t)
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("there is no /proc here to ask")
	}
	other := exec.CommandContext(t.Context(), "sleep", "60")
	g.Expect(other.Start()).To(Succeed())
	t.Cleanup(func() {
		g.Expect(other.Process.Kill()).To(Succeed())
		_ = other.Wait() // it was killed
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	client := connected(t, "tcp", listener.Addr().String())
	server, err := listener.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = server.Close() })

	address, ours := server.RemoteAddr().String(), server.LocalAddr().String()
	g.Expect(owns(os.Getpid(), address, ours)).To(BeTrue())
	g.Expect(owns(os.Getpid(), address, "127.0.0.2:80")).To(BeFalse(), "another connection may have that port")
	g.Expect(owns(other.Process.Pid, address, ours)).To(BeFalse(), "it is another's")
	g.Expect(owns(os.Getpid(), "nonsense", ours)).To(BeFalse())
	g.Expect(owns(os.Getpid(), address, "nonsense")).To(BeFalse())
	g.Expect(client.Close()).To(Succeed())
	g.Expect(owns(os.Getpid(), address, ours)).To(BeFalse(), "it is closed")
}
