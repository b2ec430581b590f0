// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// servingPod is a Pod whose ports are all at one address.
type servingPod struct {
	at   string
	down atomic.Bool
}

func (p *servingPod) Ready(context.Context) error {
	if p.down.Load() {
		return errors.New("down")
	}
	return nil
}

func (p *servingPod) address(int) (string, error) { return p.at, nil }

// listening returns a listener and a Pod at its address.
func listening(t *testing.T) (net.Listener, *servingPod) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	return listener, &servingPod{at: listener.Addr().String()}
}

// connected returns a connection to an address, which ends with the test.
func connected(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRouter_FollowsReadiness(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, a := listening(t)
	_, b := listening(t)
	a.down.Store(true)
	b.down.Store(true)
	r := &router{}
	t.Cleanup(r.stop)
	r.add(a)
	dialed := func() (string, error) {
		conn, err := r.dial(t.Context(), 1)
		if err != nil {
			return "", err
		}
		return conn.RemoteAddr().String(), conn.Close()
	}
	_, err := dialed()
	g.Expect(err).To(MatchError("no Pod is ready"))

	t.Log("one is ready: it gets all of them")
	a.down.Store(false)
	g.Expect(dialed()).To(Equal(a.at))
	r.add(b)
	for range 4 {
		g.Expect(dialed()).To(Equal(a.at))
	}

	t.Log("both are ready: in turn")
	b.down.Store(false)
	count := map[string]int{}
	for range 10 {
		at, err := dialed()
		g.Expect(err).NotTo(HaveOccurred())
		count[at]++
	}
	g.Expect(count).To(Equal(map[string]int{a.at: 5, b.at: 5}))

	t.Log("a new one counts at once, and one that is not ready gets none")
	a.down.Store(true)
	b.down.Store(true)
	_, err = dialed()
	g.Expect(err).To(MatchError("no Pod is ready"))
	_, c := listening(t)
	r.add(c)
	g.Expect(dialed()).To(Equal(c.at))

	t.Log("after the end none gets one")
	r.stop()
	_, err = dialed()
	g.Expect(err).To(MatchError("no Pod is ready"))
}

// The API server's connections are Unix sockets. It has to learn that a replica has closed one, or
// it sends its next requests there.
func TestEgress_PassesTheEndOfEachDirection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *WithT, client *net.UnixConn, server net.Conn){
		"of a request": func(g *WithT, client *net.UnixConn, server net.Conn) {
			fmt.Fprint(client, "question")
			g.Expect(client.CloseWrite()).To(Succeed())
			question, err := io.ReadAll(server)
			g.Expect(err).NotTo(HaveOccurred())
			fmt.Fprint(server, strings.ToUpper(string(question)))
			g.Expect(server.Close()).To(Succeed())
			g.Expect(io.ReadAll(client)).To(BeEquivalentTo("QUESTION"))
		},
		"of a replica": func(g *WithT, client *net.UnixConn, server net.Conn) {
			g.Expect(server.Close()).To(Succeed())
			g.Expect(io.ReadAll(client)).To(BeEmpty())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			listener, p := listening(t)
			r := &router{}
			t.Cleanup(r.stop)
			r.add(p)
			// With the folder of the test, it is longer than the path of a socket.
			dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
			g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
			e, err := startEgress(t.Context(), dir, func(context.Context) ([]corev1.Service, error) {
				return []corev1.Service{{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"},
					Ports: []corev1.ServicePort{{Port: 443}}}}}, nil
			})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(e.stop()).To(Succeed()) })
			var route serviceRoute = func(ctx context.Context, _ *corev1.Service, _ corev1.ServicePort) (net.Conn, error) {
				return r.dial(ctx, 1)
			}
			e.routes.Store("test", route)
			client := connected(t, "unix", socketIn(e.folder)).(*net.UnixConn)
			g.Expect(client.SetDeadline(time.Now().Add(eventually))).To(Succeed())
			fmt.Fprint(client, "CONNECT 10.0.0.9:443 HTTP/1.1\r\nHost: x\r\n\r\n")
			answer := make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"))
			_, err = io.ReadFull(client, answer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(answer)).To(Equal("HTTP/1.1 200 OK\r\n\r\n"))
			server, err := listener.Accept()
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = server.Close() })
			g.Expect(server.SetDeadline(time.Now().Add(eventually))).To(Succeed())
			end(g, client, server)
		})
	}
}
