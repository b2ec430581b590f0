// SPDX-License-Identifier: Apache-2.0

package process

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"leasehold.dev/test/harness/program"
)

//go:embed scripts/*.sh
var scripts embed.FS

// watchdogPatience is the time for which a clean stop waits for the watchdog. It needs a few
// milliseconds if there is nothing to kill, and bounds itself to 5 seconds.
const watchdogPatience = 30 * time.Second

// Watchdog kills the children of this process after this process has exited.
type Watchdog struct {
	Dir  string        // its scripts and the folder pids, one note a child
	pipe *os.File      // the end that keeps it waiting
	gone chan struct{} // closed when it has exited
}

// StartWatchdog keeps its files in dir. If removes is not empty, that folder is
// removed at the end.
func StartWatchdog(dir, removes string) (*Watchdog, error) {
	for _, folder := range []string{filepath.Join(dir, "pids"), homeOf(dir)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("creating the watchdog's folder: %w", err)
		}
	}
	files, err := fs.Sub(scripts, "scripts")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the watchdog's scripts: %w", err)
	}
	// Both ends are close-on-exec, so no other child keeps the pipe open.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("opening the watchdog's pipe: %w", err)
	}
	defer func() { _ = read.Close() }() // the watchdog has its own handle
	cmd := exec.Command("/bin/sh", filepath.Join(dir, "watchdog.sh"), removes)
	cmd.Stdin = read
	// In its own process group: Ctrl-C in a terminal goes to the caller's group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the watchdog: %w", err), write.Close())
	}
	w := &Watchdog{Dir: dir, pipe: write, gone: make(chan struct{})}
	go func() {
		defer close(w.gone)
		_ = cmd.Wait() // its exit code is meaningless
	}()
	return w, nil
}

// GuardedDir creates a new folder in workDir, or if that is empty in the system's temporary folder,
// and starts a watchdog for its processes. The watchdog removes the folder.
func GuardedDir(workDir, prefix string) (string, *Watchdog, error) {
	if workDir != "" {
		if err := os.MkdirAll(workDir, 0o755); err != nil {
			return "", nil, fmt.Errorf("creating the working folder: %w", err)
		}
	}
	dir, err := os.MkdirTemp(workDir, prefix)
	if err != nil {
		return "", nil, fmt.Errorf("creating a folder of its own: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, fmt.Errorf("resolving that folder: %w", err)
	}
	watchdog, err := StartWatchdog(filepath.Join(dir, "watchdog"), dir)
	return dir, watchdog, err
}

// Environ returns the environment of a program: nothing that the shell of the user has set for other programs. With a
// proxy, kube-apiserver would send the requests of webhooks there; ETCD_ variables are flags of etcd, and below the
// user's HOME are settings of kubectl and S3 servers.
func (w *Watchdog) Environ() []string {
	own := []string{"HOME=" + homeOf(w.Dir)}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			own = append(own, name+"="+value)
		}
	}
	return own
}

func homeOf(dir string) string { return filepath.Join(dir, "home") }

// command returns a command that starts program through the script which notes its pid for the
// watchdog.
func (w *Watchdog) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{filepath.Join(w.Dir, "shim.sh"), program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Wrap writes an executable file that starts program as command does, for callers that accept only a path.
func (w *Watchdog) Wrap(binary string) (string, error) {
	path := filepath.Join(w.Dir, filepath.Base(binary))
	words := slices.Concat([]string{"exec", "env", "-i"}, w.Environ(),
		[]string{"/bin/sh", filepath.Join(w.Dir, "shim.sh"), binary})
	for i := range words {
		words[i] = program.Quote(words[i])
	}
	text := "#!/bin/sh\n" + strings.Join(words, " ") + " \"$@\"\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		return "", fmt.Errorf("wrapping %s: %w", binary, err)
	}
	return path, nil
}

// forget drops the note of a child that has been waited for.
func (w *Watchdog) forget(pid int) {
	_ = os.Remove(filepath.Join(w.Dir, "pids", strconv.Itoa(pid))) // its start time guards a note that stays
}

// Release lets the watchdog do its work now and waits until it has.
func (w *Watchdog) Release() error {
	if err := w.pipe.Close(); err != nil {
		return fmt.Errorf("closing the watchdog's pipe: %w", err)
	}
	select {
	case <-w.gone:
		return nil
	case <-time.After(watchdogPatience):
		return fmt.Errorf("waiting for the watchdog: still at work after %v", watchdogPatience)
	}
}
