// SPDX-License-Identifier: Apache-2.0

package env

import (
	"net"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOwns_OneProcessPerConnection(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp6"); err != nil {
		t.Skip("there is no /proc here to ask, or no IPv6")
	}
	g := NewWithT(t)
	other := exec.CommandContext(t.Context(), "sleep", "60")
	g.Expect(other.Start()).To(Succeed())
	t.Cleanup(func() {
		g.Expect(other.Process.Kill()).To(Succeed())
		_ = other.Wait() // it was killed
	})
	for name, listens := range map[string]string{"IPv4": "127.0.0.1:0", "IPv4 at an IPv6 socket": ":0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			listener, err := net.Listen("tcp", listens)
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = listener.Close() })
			target := listener.Addr().(*net.TCPAddr)
			if target.IP.IsUnspecified() {
				target.IP = net.IPv4(127, 0, 0, 1)
			}
			client := connected(t, "tcp", target.String())
			server, err := listener.Accept()
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = server.Close() })

			address, ours := server.RemoteAddr().String(), server.LocalAddr().String()
			g.Expect(owns(os.Getpid(), address, ours)).To(BeTrue())
			g.Expect(owns(os.Getpid(), ours, address)).To(BeTrue(), "it has both ends")
			g.Expect(owns(os.Getpid(), address, "127.0.0.2:80")).To(BeFalse(), "another connection may have that port")
			g.Expect(owns(other.Process.Pid, address, ours)).To(BeFalse(), "it is another's")
			g.Expect(owns(os.Getpid(), "nonsense", ours)).To(BeFalse())
			g.Expect(owns(os.Getpid(), address, "nonsense")).To(BeFalse())
			g.Expect(client.Close()).To(Succeed())
			g.Expect(owns(os.Getpid(), address, ours)).To(BeFalse(), "it is closed")
		})
	}
}
