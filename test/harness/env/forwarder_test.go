package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
)

// pollEvery is how often the forwarders of these tests look.
const pollEvery = 5 * time.Millisecond

// named is a backend that answers with its name while it is up.
type named struct {
	Backend
	up atomic.Bool
}

func startNamed(t *testing.T, name string) *named {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(server.Close)
	n := &named{}
	n.Backend = Backend{Address: server.Listener.Addr().String(), Ready: func(context.Context) error {
		if n.up.Load() {
			return nil
		}
		return errors.New("down")
	}}
	return n
}

// ask sends one request on a connection of its own.
func ask(f *Forwarder) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).
		Get(fmt.Sprintf("http://127.0.0.1:%d/", f.Port()))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return string(said), err
}

func TestForwarderFollowsReadiness(t *testing.T) {
	g := NewWithT(t)
	a, b := startNamed(t, "a"), startNamed(t, "b")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	f, err := StartForwarder(t.Context(), pollEvery, a.Backend, b.Backend)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(f.Stop()).To(Succeed()) }()

	t.Log("without a ready backend the connection is closed")
	_, err = ask(f)
	g.Expect(err).To(HaveOccurred())

	t.Log("one is ready: it gets all of them")
	a.up.Store(true)
	g.Eventually(f.Ready, eventually).Should(ConsistOf(a.Address))
	for range 4 {
		g.Expect(ask(f)).To(Equal("a"))
	}

	t.Log("both are ready: in turn")
	b.up.Store(true)
	g.Eventually(f.Ready, eventually).Should(ConsistOf(a.Address, b.Address))
	count := map[string]int{}
	for range 10 {
		said, err := ask(f)
		g.Expect(err).NotTo(HaveOccurred())
		count[said]++
	}
	g.Expect(count).To(Equal(map[string]int{"a": 5, "b": 5}))

	t.Log("the other takes over")
	a.up.Store(false)
	g.Eventually(f.Ready, eventually).Should(ConsistOf(b.Address))
	g.Expect(ask(f)).To(Equal("b"))

	t.Log("new backends count at once")
	f.SetBackends(t.Context())
	g.Expect(f.Ready()).To(BeEmpty())
	_, err = ask(f)
	g.Expect(err).To(HaveOccurred())
}

func TestForwarderPassesTheEndOfEachDirection(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test has said why
		}
		defer conn.Close()
		// Answers when the question has ended, and not before.
		if question, err := io.ReadAll(conn); err == nil {
			fmt.Fprint(conn, strings.ToUpper(string(question)))
		}
	}()
	f, err := StartForwarder(t.Context(), pollEvery, Backend{
		Address: listener.Addr().String(), Ready: func(context.Context) error { return nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(f.Stop()).To(Succeed()) }()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.Port()))
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	fmt.Fprint(conn, "question")
	g.Expect(conn.(*net.TCPConn).CloseWrite()).To(Succeed())
	g.Expect(io.ReadAll(conn)).To(BeEquivalentTo("QUESTION"))
}

func TestForwarderStopEndsOpenConnections(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	f, err := StartForwarder(t.Context(), pollEvery, Backend{
		Address: listener.Addr().String(), Ready: func(context.Context) error { return nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.Port()))
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	server, err := listener.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	defer server.Close()
	g.Expect(f.Stop()).To(Succeed())
	g.Expect(f.Stop()).To(Succeed())
	_, err = server.Read(make([]byte, 1))
	g.Expect(err).To(HaveOccurred())
	_, err = conn.Read(make([]byte, 1))
	g.Expect(err).To(HaveOccurred())
}

// The API server's connections are Unix sockets. It has to learn that a replica has closed one, or
// it sends its next requests there.
func TestForward_EndsWithTheBackend(t *testing.T) {
	g := NewWithT(t)
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = backend.Close() })
	ready := func(context.Context) error { return nil }
	f, err := StartForwarder(t.Context(), time.Hour, Backend{Address: backend.Addr().String(), Ready: ready})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(f.Stop()).To(Succeed()) })
	front, err := net.Listen("unix", filepath.Join(t.TempDir(), "front"))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = front.Close() })
	go func() {
		if conn, err := front.Accept(); err == nil {
			f.Forward(conn)
		}
	}()
	client, err := net.Dial("unix", front.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	server, err := backend.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Close()).To(Succeed())
	g.Expect(client.SetReadDeadline(time.Now().Add(5 * time.Second))).To(Succeed())
	_, err = client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(io.EOF))
}
