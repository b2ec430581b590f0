// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// eventually is the timeout for conditions that take well under 5 seconds.
const eventually = 30 * time.Second

// TestEnviron_IsOfTheHarness starts programs in all ways, from a shell with the variables that change what they do.
func TestEnviron_IsOfTheHarness(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "ETCD_LISTEN_PEER_URLS",
		"KUBECONFIG", "KUBERNETES_MASTER", "KUBE_EDITOR", "AWS_PROFILE", "GODEBUG", "HELM_NAMESPACE", "POD_NAMESPACE",
		"VGW_PORT", "BASH_ENV"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Setenv("HOME", "/nonexistent")
	// Paths may have characters of shells and of patterns.
	dir := filepath.Join(t.TempDir(), `it's a [path] $HOME "x"`)
	temporary := filepath.Join(dir, "tmp")
	t.Setenv("TMPDIR", temporary)
	g := NewWithT(t)
	g.Expect(os.MkdirAll(temporary, 0o700)).To(Succeed())
	w, err := StartWatchdog(filepath.Join(dir, "watchdog"), "")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(w.Release()).To(Succeed()) })

	home := filepath.Join(dir, "watchdog", "home")
	want := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temporary}
	env := filepath.Join(dir, "env")
	const script = "#!/bin/sh\nenv -u PWD -u OLDPWD -u SHLVL -u _\nprintf '%s\\n' \"ARG=$*\"\n"
	g.Expect(os.WriteFile(env, []byte(script), 0o700)).To(Succeed())

	p, err := w.Start(Spec{Name: "env", Program: env, Args: []string{"a  b"}, Env: []string{"OWN=1"},
		Log: filepath.Join(dir, "log")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.Ended, eventually).Should(BeClosed())
	text, err := os.ReadFile(p.Log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lines(text)).To(ConsistOf(slices.Concat(want, []string{"OWN=1", "ARG=a  b"})))

	wrapped, err := w.Wrap(env)
	g.Expect(err).NotTo(HaveOccurred())
	text, err = exec.CommandContext(t.Context(), wrapped, "a  b").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(text))
	g.Expect(lines(text)).To(ConsistOf(append(want, "ARG=a  b")))
	g.Expect(os.WriteFile(filepath.Join(home, "cache"), nil, 0o600)).To(Succeed(), "programs may write there")
}

func lines(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }

// TestWatchdogSparesOtherProcesses gives the watchdog a note with a reused pid: another process got
// it after the noted one had ended.
func TestWatchdogSparesOtherProcesses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	w, err := StartWatchdog(filepath.Join(dir, "watchdog"), "")
	g.Expect(err).NotTo(HaveOccurred())
	noted, err := w.Start(Spec{Name: "noted", Program: "/bin/sleep", Args: []string{"600"},
		Log: filepath.Join(dir, "log")})
	g.Expect(err).NotTo(HaveOccurred())
	note := filepath.Join(dir, "watchdog", "pids", strconv.Itoa(noted.Pid()))
	g.Eventually(os.ReadFile, eventually).WithArguments(note).ShouldNot(BeEmpty())

	other := exec.Command("/bin/sleep", "600")
	g.Expect(other.Start()).To(Succeed())
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	note = filepath.Join(dir, "watchdog", "pids", strconv.Itoa(other.Process.Pid))
	g.Expect(os.WriteFile(note, []byte("1\n"), 0o600)).To(Succeed())

	g.Expect(w.Release()).To(Succeed())
	g.Eventually(noted.Ended, eventually).Should(BeClosed())
	g.Expect(other.Process.Signal(syscall.Signal(0))).To(Succeed(), "a process that was not started here was killed")
}

// TestShimRefusesAfterTheEnd tests a child that starts while its parent dies: the watchdog may have
// read the notes before the child's.
func TestShimRefusesAfterTheEnd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	w, err := StartWatchdog(filepath.Join(dir, "watchdog"), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Release()).To(Succeed())
	late, err := w.Start(Spec{Name: "late", Program: "/bin/sleep", Args: []string{"600"}, Log: filepath.Join(dir, "log")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(late.Ended, eventually).Should(BeClosed())
	g.Expect(late.State.ExitCode()).To(Equal(1))
}
