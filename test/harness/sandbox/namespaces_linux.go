// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// namespaces are open files that keep namespaces alive, by their flags for setns(2).
type namespaces struct {
	mu    sync.RWMutex
	files map[int]*os.File
}

// kinds are the namespaces of a sandbox, by their names in /proc.
var kinds = map[int]string{unix.CLONE_NEWNET: "net", unix.CLONE_NEWUTS: "uts", unix.CLONE_NEWNS: "mnt"}

func newNamespaces(o Options) (*namespaces, error) {
	n := &namespaces{files: map[int]*os.File{}}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making namespaces (needs root, or a user namespace): %w", err)
		}
		if err := unix.Sethostname([]byte(o.Hostname)); err != nil {
			return fmt.Errorf("setting the host name %q: %w", o.Hostname, err)
		}
		if err := bringUpLoopback(); err != nil {
			return fmt.Errorf("bringing up the loopback interface: %w", err)
		}
		for kind, name := range kinds {
			file, err := os.Open("/proc/thread-self/ns/" + name)
			if err != nil {
				return fmt.Errorf("opening a namespace: %w", err)
			}
			n.files[kind] = file
		}
		return mountAll(o)
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// onThread runs do on a thread that ends afterwards, because its namespaces cannot all be left. The
// main thread does not end, and /proc shows its namespaces as those of the process.
func onThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			result <- do()
			return
		}
		result <- onThread(do) // on another thread: this one is occupied
		runtime.UnlockOSThread()
	}()
	return <-result
}

func bringUpLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// start starts a command from a thread in all namespaces: a child inherits those of the thread.
func (n *namespaces) start(cmd *exec.Cmd) error {
	return onThread(func() error {
		// The root and the working folder are shared by the threads of a process, and with them
		// a thread cannot change its mounts.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("preparing a thread: %w", err)
		}
		for kind := range kinds {
			if err := n.enter(kind); err != nil {
				return err
			}
		}
		return cmd.Start()
	})
}

// inNetwork runs do on a thread in the network namespace. A socket stays in the namespace in which
// it was made. do must not use other goroutines for that.
func (n *namespaces) inNetwork(do func() error) error {
	return onThread(func() error {
		if err := n.enter(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

func (n *namespaces) enter(kind int) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	file := n.files[kind]
	if file == nil {
		return errClosed
	}
	if err := unix.Setns(int(file.Fd()), kind); err != nil {
		return fmt.Errorf("entering the namespace %s: %w", kinds[kind], err)
	}
	return nil
}

func (n *namespaces) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, file := range n.files {
		errs = append(errs, file.Close())
	}
	n.files = nil
	return errors.Join(errs...)
}

// Check returns nil if this machine allows sandboxes, and otherwise an error that says what is
// missing. Later calls return the result of the first.
var Check = sync.OnceValue(func() error {
	s, err := New(Options{Hostname: "check"})
	if err != nil {
		return err
	}
	return s.Close()
})
