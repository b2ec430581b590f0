// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/sandbox"
)

// Process is a child process that the watchdog kills if this process ends first.
type Process struct {
	Name  string
	Log   string // path of the file that receives both of its outputs
	cmd   *exec.Cmd
	Ended chan struct{}    // closed when it has been waited for
	State *os.ProcessState // set before ended is closed
}

// Restartable is a program that is started again, as one process at a time. Its methods may be called
// from several goroutines. Types embed it for these methods; what starts it is a function.
type Restartable struct {
	mu      sync.Mutex
	process *Process
}

// Begin starts r unless its last process still runs.
func Begin(r *Restartable, w *Watchdog, s Spec) (*Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.Running() {
		return nil, errors.New("it is running already")
	}
	process, err := w.Start(s)
	if err == nil {
		r.process = process
	}
	return process, err
}

// Current returns the process of r that was started last; nil before the first.
func Current(r *Restartable) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Pid returns the id of the process, also of one that has exited.
func (r *Restartable) Pid() int { return Current(r).Pid() }

// Running reports whether the process exists; a paused one does.
func (r *Restartable) Running() bool { return Current(r).Running() }

// Done is closed when the current process exits. Each restart has another channel.
func (r *Restartable) Done() <-chan struct{} { return Current(r).Ended }

// Signal sends s to the process. A process that has exited is no error.
func (r *Restartable) Signal(s os.Signal) error { return Current(r).Signal(s) }

// stoppedPoll is the period of checks of whether a paused process has stopped.
const stoppedPoll = 5 * time.Millisecond

// Pause stops the process from running until Resume: it gets no signal that it can handle, and its
// connections stay open. It returns when the process has stopped, or with an error when ctx ends or
// the process has exited.
func (r *Restartable) Pause(ctx context.Context) error {
	p := Current(r)
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// Sending the signal only begins the stop.
	err := wait.PollUntilContextCancel(ctx, stoppedPoll, true, func(ctx context.Context) (bool, error) {
		if !p.Running() {
			return false, errors.New("it has exited")
		}
		state, err := exec.CommandContext(ctx, "ps", "-o", "stat=", "-p", strconv.Itoa(p.Pid())).Output()
		if err != nil {
			return false, fmt.Errorf("asking ps for its state: %w", err)
		}
		return bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")), nil
	})
	if err != nil {
		return fmt.Errorf("pausing %s: %w", p.Name, err)
	}
	return nil
}

// Resume lets a paused process go on.
func (r *Restartable) Resume() error { return r.Signal(syscall.SIGCONT) }

// Spec is the program to start.
type Spec struct {
	Name    string
	Program string
	Args    []string
	Env     []string         // on top of environ, except in a sandbox
	Log     string           // appended to
	Dir     string           // where it runs; empty: where this process does
	Sandbox *sandbox.Sandbox // nil: in the namespaces of this process
}

// Start starts a program with the watchdog's environment, or in a sandbox with its own alone.
func (w *Watchdog) Start(s Spec) (*Process, error) {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", s.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	cmd := w.command(s.Program, s.Args...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	start := cmd.Start
	if s.Sandbox == nil {
		cmd.Env = append(w.Environ(), s.Env...)
	} else {
		cmd.Env = s.Env
		start = func() error { return s.Sandbox.Start(cmd) }
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	p := &Process{Name: s.Name, Log: s.Log, cmd: cmd, Ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // an exit code other than 0 is part of the state
		p.State = cmd.ProcessState
		w.forget(p.Pid())
		close(p.Ended)
	}()
	return p, nil
}

// Pid returns the id of the process, also of one that has exited.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running reports whether the process exists; a paused one does.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Signal sends s to the process. One that has exited is not an error: nothing a
// caller could do about it would be different.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// Kill kills the process and its process group, and waits until it has exited.
func (p *Process) Kill() {
	if p.Running() {
		// The process is the leader of its group, which may have exited already.
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
	<-p.Ended
}

// ErrNotEnded means that a program did not exit in time after SIGTERM, which is an error of the
// program and not of the harness.
var ErrNotEnded = errors.New("the program did not end")

// SplitNotEnded separates the errors that wrap ErrNotEnded from all other errors.
func SplitNotEnded(err error) (notEnded, others error) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, part := range joined.Unwrap() {
			one, other := SplitNotEnded(part)
			notEnded, others = errors.Join(notEnded, one), errors.Join(others, other)
		}
		return notEnded, others
	}
	if errors.Is(err, ErrNotEnded) {
		return err, nil
	}
	return nil, err
}

// Stop sends SIGTERM, and SIGKILL after grace or when ctx ends. It returns the exit code, -1 for a
// process that a signal ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.Ended:
		return p.State.ExitCode(), nil
	case <-patience.C:
		p.Kill()
		return p.State.ExitCode(), fmt.Errorf("stopping %s: %w: still running %v after SIGTERM, killed; the end of its log:\n%s",
			p.Name, ErrNotEnded, grace, Tail(p.Log, tailLines))
	case <-ctx.Done():
		p.Kill()
		return p.State.ExitCode(), fmt.Errorf("stopping %s: killed: %w", p.Name, ctx.Err())
	}
}

// tailLines is the length of a log's end in a message.
const tailLines = 5

// Tail returns the last lines of the file at path, or why it cannot.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimRight(text, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
