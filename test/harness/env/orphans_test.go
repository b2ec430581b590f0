// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// TestWatchdog_LeavesNoProcesses ends the process that holds a control plane in the
// ways in which processes end.
func TestWatchdog_LeavesNoProcesses(t *testing.T) {
	needsControllers(t) // the holder of this test looks for its process
	t.Parallel()
	for name, tc := range map[string]struct {
		end   func(*exec.Cmd) error
		stops bool
	}{
		"killed":             {func(cmd *exec.Cmd) error { return cmd.Process.Kill() }, false},
		"its group killed":   {func(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }, false},
		"stopped by SIGTERM": {func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			cmd, has := startHolder(t)
			// All of them were alive when the holder looked.
			g.Expect(has.Pids).To(HaveLen(4), "etcd, kube-apiserver, kube-controller-manager and the replica")
			g.Expect(tc.end(cmd)).To(Succeed())
			err := cmd.Wait()
			g.Expect(err == nil).To(Equal(tc.stops), "how the holder ended: %v", err)
			for _, pid := range has.Pids {
				g.Eventually(alive, eventually).WithArguments(pid).Should(BeFalse(), "pid %d after the end", pid)
			}
			g.Eventually(func() error { _, err := os.Stat(has.Dir); return err }, eventually).
				Should(MatchError(os.ErrNotExist), "the working folder")
		})
	}
}

// startHolder runs the test binary as a holder and returns the list that it prints.
func startHolder(t *testing.T) (*exec.Cmd, held) {
	t.Helper()
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleHolds)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var has held
	if err := json.NewDecoder(out).Decode(&has); err != nil {
		_ = cmd.Wait()
		t.Fatalf("reading what the holder holds: %v\n%s", err, stderr.String())
	}
	return cmd, has
}

// alive reports whether pid names a process that is not a zombie.
func alive(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}
