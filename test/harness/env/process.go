// SPDX-License-Identifier: Apache-2.0

package env

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

// process is a child process that the watchdog kills if this process ends first.
type process struct {
	name  string
	log   string // path of the file that receives both of its outputs
	cmd   *exec.Cmd
	ended chan struct{}    // closed when it has been waited for
	state *os.ProcessState // set before ended is closed
}

// restartable is a program that is started again, as one process at a time. Its methods may be called
// from several goroutines.
type restartable struct {
	spec     spec
	watchdog *watchdog

	mu      sync.Mutex
	process *process
}

func (r *restartable) current() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Pid returns the id of the process, also of one that has ended.
func (r *restartable) Pid() int { return r.current().pid() }

// Running reports whether the process exists; a paused one does.
func (r *restartable) Running() bool { return r.current().running() }

// Done is closed when the process that runs now has ended. A restart begins another.
func (r *restartable) Done() <-chan struct{} { return r.current().ended }

// Signal sends s to the process. A process that has ended is no error.
func (r *restartable) Signal(s os.Signal) error { return r.current().signal(s) }

// stoppedPoll is the period of checks of whether a paused process has stopped.
const stoppedPoll = 5 * time.Millisecond

// Pause stops the process from running until Resume: it gets no signal that it can handle, and its
// connections stay open. It returns when the process has stopped, or with an error when ctx ends or
// the process has ended.
func (r *restartable) Pause(ctx context.Context) error {
	p := r.current()
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// Sending the signal only begins the stop.
	err := wait.PollUntilContextCancel(ctx, stoppedPoll, true, func(ctx context.Context) (bool, error) {
		if !p.running() {
			return false, errors.New("it has ended")
		}
		state, err := exec.CommandContext(ctx, "ps", "-o", "stat=", "-p", strconv.Itoa(p.pid())).Output()
		if err != nil {
			return false, fmt.Errorf("asking ps for its state: %w", err)
		}
		return bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")), nil
	})
	if err != nil {
		return fmt.Errorf("pausing %s: %w", p.name, err)
	}
	return nil
}

// Resume lets a paused process go on.
func (r *restartable) Resume() error { return r.Signal(syscall.SIGCONT) }

// spec is the program to start.
type spec struct {
	name    string
	program string
	args    []string
	env     []string         // on top of environ, except in a sandbox
	log     string           // appended to
	dir     string           // where it runs; empty: where this process does
	sandbox *sandbox.Sandbox // nil: in the namespaces of this process
}

func (w *watchdog) start(s spec) (*process, error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", s.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	cmd := w.command(s.program, s.args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	start := cmd.Start
	if s.sandbox == nil {
		cmd.Env = append(w.environ(), s.env...)
	} else {
		cmd.Env = s.env
		start = func() error { return s.sandbox.Start(cmd) }
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	p := &process{name: s.name, log: s.log, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // an exit code other than 0 is part of the state
		p.state = cmd.ProcessState
		w.forget(p.pid())
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends s to the process. One that has ended is not an error: nothing a
// caller could do about it would be different.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// kill kills the process and its process group, and waits until it has ended.
func (p *process) kill() {
	if p.running() {
		// The process is the leader of its group, which may have ended already.
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	}
	<-p.ended
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

// stop sends SIGTERM, and SIGKILL after grace or when ctx ends. It returns the exit code, -1 for a
// process that a signal ended.
func (p *process) stop(ctx context.Context, grace time.Duration) (int, error) {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.ended:
		return p.state.ExitCode(), nil
	case <-patience.C:
		p.kill()
		return p.state.ExitCode(), fmt.Errorf("stopping %s: %w: still running %v after SIGTERM, killed; the end of its log:\n%s",
			p.name, ErrNotEnded, grace, tail(p.log, tailLines))
	case <-ctx.Done():
		p.kill()
		return p.state.ExitCode(), fmt.Errorf("stopping %s: killed: %w", p.name, ctx.Err())
	}
}

// tailLines is the length of a log's end in a message.
const tailLines = 5

// tail returns the last lines of the file at path, or why it cannot.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimRight(text, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
