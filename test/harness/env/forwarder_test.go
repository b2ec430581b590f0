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
	defer f.Stop()

	t.Log("without a ready backend the connection is reset")
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

// listening returns a listener and a Forwarder to it.
func listening(t *testing.T) (net.Listener, *Forwarder) {
	t.Helper()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	f, err := StartForwarder(t.Context(), pollEvery, Backend{
		Address: listener.Addr().String(), Ready: func(context.Context) error { return nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		f.Stop()
		_ = listener.Close()
	})
	return listener, f
}

// connected returns a connection to an address, which ends with the test.
func connected(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestForwarderPassesTheEndOfEachDirection(t *testing.T) {
	g := NewWithT(t)
	listener, f := listening(t)
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
	conn := connected(t, "tcp", f.Addr().String())
	fmt.Fprint(conn, "question")
	g.Expect(conn.(*net.TCPConn).CloseWrite()).To(Succeed())
	g.Expect(io.ReadAll(conn)).To(BeEquivalentTo("QUESTION"))
}

func TestForwarderStopEndsOpenConnections(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g := NewWithT(t)
	listener, f := listening(t)
	conn := connected(t, "tcp", f.Addr().String())
	server, err := listener.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	defer server.Close()
	f.Stop()
	f.Stop()
	for _, c := range []net.Conn{server, conn} {
		_, err = c.Read(make([]byte, 1))
		g.Expect(err).To(HaveOccurred())
	}
	goleak.VerifyNone(t, before)
}

// The API server's connections are Unix sockets. It has to learn that a replica has closed one, or
// it sends its next requests there.
func TestForward_EndsWithTheBackend(t *testing.T) {
	g := NewWithT(t)
	backend, f := listening(t)
	front, err := net.Listen("unix", filepath.Join(t.TempDir(), "front"))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = front.Close() })
	go func() {
		if conn, err := front.Accept(); err == nil {
			f.Forward(conn)
		}
	}()
	client := connected(t, "unix", front.Addr().String())
	server, err := backend.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Close()).To(Succeed())
	g.Expect(client.SetReadDeadline(time.Now().Add(eventually))).To(Succeed())
	_, err = client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(io.EOF))
}
