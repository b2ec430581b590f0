// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// enteredVariable is set in a program that Enter started.
const enteredVariable = "SANDBOX_ENTERED"

// Enter restarts this program in a user namespace if it needs one to create sandboxes. Enter then
// waits until the restarted program exits, and returns its exit code and true. It returns false if
// no user namespace is needed, or if the machine does not allow one; Check returns the reason. A
// program must call Enter before anything else.
func Enter() (code int, done bool, err error) {
	if os.Getuid() == 0 || os.Getenv(enteredVariable) != "" || Check() == nil {
		return 0, false, nil
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), enteredVariable+"=true")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		// It must not outlive this program.
		Pdeathsig: syscall.SIGKILL,
	}
	// Pdeathsig refers to the thread that started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A terminal sends SIGINT to both.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if cmd.Start() != nil { // Check returns the reason
		return 0, false, nil
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 1, true, fmt.Errorf("waiting for the program in a user namespace: %w", err)
	}
	return cmd.ProcessState.ExitCode(), true, nil
}
