// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

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
	w, err := startWatchdog(filepath.Join(dir, "watchdog"), "")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(w.release()).To(Succeed()) })

	home := filepath.Join(dir, "watchdog", "home")
	want := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temporary}
	env := filepath.Join(dir, "env")
	const script = "#!/bin/sh\nenv -u PWD -u OLDPWD -u SHLVL -u _\nprintf '%s\\n' \"ARG=$*\"\n"
	g.Expect(os.WriteFile(env, []byte(script), 0o700)).To(Succeed())

	p, err := w.start(spec{name: "env", program: env, args: []string{"a  b"}, env: []string{"OWN=1"},
		log: filepath.Join(dir, "log")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.ended, eventually).Should(BeClosed())
	text, err := os.ReadFile(p.log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lines(text)).To(ConsistOf(slices.Concat(want, []string{"OWN=1", "ARG=a  b"})))

	wrapped, err := w.wrap(env)
	g.Expect(err).NotTo(HaveOccurred())
	text, err = exec.CommandContext(t.Context(), wrapped, "a  b").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(text))
	g.Expect(lines(text)).To(ConsistOf(append(want, "ARG=a  b")))
	g.Expect(os.WriteFile(filepath.Join(home, "cache"), nil, 0o600)).To(Succeed(), "programs may write there")
}

func lines(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }

// envtest locks ports in the user's cache folder, and its error has no path.
func TestExplain_NamesTheCacheFolder(t *testing.T) {
	t.Parallel()
	c := &ControlPlane{dir: t.TempDir()}
	for _, cause := range []error{syscall.EROFS, syscall.EACCES} {
		err := c.explain(fmt.Errorf("starting: %w", cause))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("set XDG_CACHE_HOME")))
	}
	NewWithT(t).Expect(c.explain(syscall.EADDRINUSE)).NotTo(MatchError(ContainSubstring("XDG_CACHE_HOME")))
}
