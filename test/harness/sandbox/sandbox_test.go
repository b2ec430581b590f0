// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/sandbox"
)

// roleVariable makes the test binary play a program in a sandbox.
const roleVariable = "SANDBOX_TEST_ROLE"

// eventually is the timeout for conditions that take well under a second.
const eventually = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		serve(os.Args[1])
		return
	}
	if code, done, err := sandbox.Enter(); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// serve serves the environment of the process at an address.
func serve(address string) {
	mux := http.NewServeMux()
	var dialed sync.Map
	mux.HandleFunc("/hostname", func(w http.ResponseWriter, _ *http.Request) {
		name, err := os.Hostname()
		fmt.Fprint(w, name, err)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.FormValue("path"))
		fmt.Fprint(w, string(content), err)
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, os.WriteFile(r.FormValue("path"), []byte("written"), 0o600))
	})
	mux.HandleFunc("/dial", func(w http.ResponseWriter, r *http.Request) {
		connection, err := net.Dial("tcp", r.FormValue("address"))
		dialed.Store(connection, true) // it stays open
		fmt.Fprint(w, err)
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: eventually}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
}

// create returns a sandbox. It skips the test only if the machine does not allow any.
func create(t *testing.T, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	if err := sandbox.Check(); err != nil {
		t.Skip(err)
	}
	s, err := sandbox.New(o)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(s.Close()).To(Succeed()) })
	return s
}

// start runs serve at a port of a sandbox, and returns the address at which it is published.
func start(t *testing.T, s *sandbox.Sandbox, port int) (published string) {
	t.Helper()
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(t.Context(), self, fmt.Sprintf(":%d", port))
	cmd.Env = append(os.Environ(), roleVariable+"=serve")
	cmd.Stderr = os.Stderr
	g.Expect(s.Start(cmd)).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	published, err = s.Publish(port)
	g.Expect(err).NotTo(HaveOccurred())
	return published
}

// ask waits for a response of a program in a sandbox and returns it.
func ask(t *testing.T, address, path string) string {
	t.Helper()
	var answer string
	NewWithT(t).Eventually(func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answer = string(body)
		return err
	}, eventually).Should(Succeed())
	return answer
}

func TestTwoProcessesListenOnOnePort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	addresses := map[string]string{}
	for _, name := range []string{"manager-0", "manager-1"} {
		s := create(t, sandbox.Options{Hostname: name})
		addresses[name] = start(t, s, 9443)
		g.Expect(s.Publish(9443)).To(Equal(addresses[name]), "again")
	}
	for name, address := range addresses {
		g.Expect(ask(t, address, "/hostname")).To(Equal(name + "<nil>"))
	}
}

func TestNothingButWhatIsReachedIsReachable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	outside := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(outside.Close)
	s := create(t, sandbox.Options{Hostname: "alone"})
	address := start(t, s, 80)
	target := outside.Listener.Addr().String()
	g.Expect(ask(t, address, "/dial?address="+target)).To(ContainSubstring("refused"))
	g.Expect(s.Reach(target)).To(Succeed())
	g.Expect(s.Reach(target)).To(Succeed(), "again")
	g.Expect(ask(t, address, "/dial?address="+target)).To(Equal("<nil>"))
	s.Unreach(target)
	s.Unreach(target) // it is not reached any more
	g.Expect(ask(t, address, "/dial?address="+target)).To(ContainSubstring("refused"))
}

func TestPublish_ResetsWhileNothingListens(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := create(t, sandbox.Options{Hostname: "silent"})
	address, err := s.Publish(8081)
	g.Expect(err).NotTo(HaveOccurred())
	connection, err := net.Dial("tcp", address)
	if err == nil { // otherwise the reset arrived before the end of the dial
		_, err = connection.Read(make([]byte, 1))
		g.Expect(connection.Close()).To(Succeed())
	}
	g.Expect(err).To(MatchError(syscall.ECONNRESET))
}

func TestOwns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = outside.Close() })
	target := outside.Addr().String()
	caller, other := create(t, sandbox.Options{Hostname: "caller"}), create(t, sandbox.Options{Hostname: "other"})
	g.Expect(caller.Reach(target)).To(Succeed())
	g.Expect(other.Reach(target)).To(Succeed())
	address := start(t, caller, 80)
	answer := make(chan string, 1)
	go func() { answer <- ask(t, address, "/dial?address="+target) }()
	accepted, err := outside.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = accepted.Close() })
	from := accepted.RemoteAddr().String()
	g.Expect(caller.Owns(from, target)).To(BeTrue())
	g.Expect(caller.Owns(from, "127.0.0.1:1")).To(BeFalse())
	g.Expect(other.Owns(from, target)).To(BeFalse())
	g.Eventually(answer, eventually).Should(Receive(Equal("<nil>")))
}

// Targets may exist, lie deep below a folder that exists, or directly below /.
func TestMounts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder, kept := t.TempDir(), t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "key"), []byte("secret"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(kept, "log"), []byte("kept"), 0o600)).To(Succeed())
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	targets := []string{"/var/run/secrets/sandbox-test/deep", "/sandbox-test", "/tmp/sandbox-test/certs", kept}
	var mounts []sandbox.Mount
	for _, target := range targets {
		mounts = append(mounts, sandbox.Mount{Source: folder, Target: target, ReadOnly: true})
	}
	mounts = append(mounts,
		sandbox.Mount{Source: filepath.Join(folder, "key"), Target: "/etc/hosts"},
		sandbox.Mount{Source: t.TempDir(), Target: "/sandbox-test-writable"},
		sandbox.Mount{Source: t.TempDir(), Target: "/tmp"})
	s := create(t, sandbox.Options{Hostname: "mounted", Mounts: mounts, Keep: []string{self, kept}, Folder: t.TempDir()})
	address := start(t, s, 80)
	file := func(path string) string { return ask(t, address, "/file?path="+path) }
	for _, target := range targets[:2] {
		g.Expect(file(target+"/key")).To(Equal("secret<nil>"), target)
		g.Expect(ask(t, address, "/write?path="+target+"/key")).To(ContainSubstring("read-only"))
		_, err := os.Stat(target)
		g.Expect(err).To(MatchError(os.ErrNotExist), "the machine stays as it was")
	}
	g.Expect(file("/tmp/sandbox-test/certs/key")).To(ContainSubstring("no such file"), "a later mount hides it")
	g.Expect(file("/etc/hosts")).To(Equal("secret<nil>"))
	g.Expect(file(kept+"/log")).To(Equal("kept<nil>"), "it stays visible below /tmp")
	g.Expect(ask(t, address, "/write?path=/sandbox-test-writable/x")).To(Equal("<nil>"))
	g.Expect(file("/sandbox-test-writable/x")).To(Equal("written<nil>"))
	g.Expect(file("/proc/self/cmdline")).To(ContainSubstring(filepath.Base(self)), "other mounts stay")
	g.Expect(os.WriteFile(filepath.Join(folder, "key"), []byte("rotated"), 0o600)).To(Succeed())
	g.Expect(file("/sandbox-test/key")).To(Equal("rotated<nil>"), "a change of the source is visible")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	if err := sandbox.Check(); err != nil {
		t.Skip(err)
	}
	_, err := sandbox.New(sandbox.Options{Mounts: []sandbox.Mount{{Source: "/no/such/folder", Target: "/etc"}}})
	g.Expect(err).To(And(MatchError(ContainSubstring("mounting /etc")), MatchError(os.ErrNotExist)))
	_, err = sandbox.New(sandbox.Options{Mounts: []sandbox.Mount{{Source: "/etc", Target: "/directly-below"}}})
	g.Expect(err).To(MatchError(ContainSubstring("no folder to make a root in")))
	s := create(t, sandbox.Options{Hostname: "closed"})
	g.Expect(s.Start(exec.CommandContext(t.Context(), "/no/such/program"))).To(MatchError(os.ErrNotExist))
	g.Expect(s.Reach("192.0.2.1:80")).NotTo(Succeed(), "it is no address of the loopback interface")
	g.Expect(s.Close()).To(Succeed())
	g.Expect(s.Start(exec.CommandContext(t.Context(), "/bin/true"))).To(MatchError(ContainSubstring("is closed")))
	g.Expect(s.Reach("127.0.0.1:80")).To(MatchError(ContainSubstring("is closed")))
	_, err = s.Publish(80)
	g.Expect(err).To(MatchError(ContainSubstring("is closed")))
}
