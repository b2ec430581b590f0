// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// restartDelay is the pause before the restart of a process that ended by itself, which limits the
// load if it cannot start.
const restartDelay = 500 * time.Millisecond

// process is implemented by env.Replica.
type process interface {
	Name() string
	Ready(ctx context.Context) error
	LogTail(lines int) string
	LogPath() string
	Wait(ctx context.Context) (code int, err error)
	Restart() error
	Kill()
	Owns(local, remote string) bool
	Signal(s os.Signal) error
	Pause(ctx context.Context) error
	Resume() error
	Ports() env.ReplicaPorts
	ReadyURL() string
	Reach(address string) error
	Unreach(address string)
	Close() error
}

// replica is a process of the operator with its proxy. It starts the process again when it has
// ended, as a kubelet does.
type replica struct {
	proxy   *fault.Proxy
	process process
	clock   clock.Clock
	build   string // its build, in the history
	prober  *record.Prober

	cancel     context.CancelFunc
	supervisor sync.WaitGroup

	mu        sync.Mutex
	processes []history.Process // the last one is the process that runs
	wasKilled bool              // the process that runs was
	isLast    bool              // the process that runs is the last
	err       error             // why it was not started again
}

// supervise restarts the process whenever it ends, in the background.
func (r *replica) supervise(ctx context.Context, process process) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.process = process
	r.recordStart(r.clock.Now())
	r.supervisor.Go(func() {
		for {
			code, err := process.Wait(ctx)
			if err != nil {
				return // it is no longer to be kept
			}
			onPurpose, last := r.recordEnd(code)
			if last {
				return
			}
			if !onPurpose && sleep(ctx, r.clock, restartDelay) != nil {
				return
			}
			started := r.beforeRestart()
			if err := process.Restart(); err != nil {
				r.mu.Lock()
				r.err = err
				r.mu.Unlock()
				return
			}
			r.recordStart(started)
		}
	})
}

// beforeRestart separates the probes of the process that has ended from those of the next one, and
// returns the time. The next process may answer before Restart returns.
func (r *replica) beforeRestart() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prober != nil {
		r.prober.Restart()
	}
	return r.clock.Now()
}

func (r *replica) recordStart(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wasKilled = false
	r.processes = append(r.processes, history.Process{Name: r.process.Name(), Build: r.build, Started: at})
}

// recordEnd records the end of the process and reports whether it was on purpose, and whether the
// process was the last.
func (r *replica) recordEnd(code int) (onPurpose, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	life := &r.processes[len(r.processes)-1]
	life.Ended, life.Exit, life.Killed = r.clock.Now(), code, r.wasKilled
	return r.wasKilled || !life.Asked.IsZero(), r.isLast
}

// kill sends SIGKILL to the process and returns when it has ended.
func (r *replica) kill() {
	// The lock keeps a process that ends by itself from being restarted before the kill.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wasKilled = true
	r.process.Kill()
}

// terminate sends SIGTERM to the running process, as a kubelet does, and does not wait. It returns
// the process's index in lifetimes.
func (r *replica) terminate(ctx context.Context) (life int, err error) {
	err = waitUntil(ctx, "its start", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		life = len(r.processes) - 1
		runs := r.processes[life].Ended.IsZero()
		if runs {
			r.processes[life].Asked = r.clock.Now()
		}
		return runs
	})
	if err == nil {
		err = r.process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return life, fmt.Errorf("asking replica %s to stop: %w", r.process.Name(), err)
	}
	return life, nil
}

// waitUntilEnded waits until a process has ended, and kills it after grace. It does not count as
// killed then: it had time to stop.
func (r *replica) waitUntilEnded(ctx context.Context, life int, grace time.Duration) error {
	limit := r.clock.Now().Add(grace)
	return waitUntil(ctx, "the end of replica "+r.process.Name(), func() bool {
		if ended := r.lifetimes()[life].Ended; !ended.IsZero() {
			return true
		}
		if r.clock.Now().After(limit) {
			r.process.Kill()
		}
		return false
	})
}

// stop terminates the process and does not start it again.
func (r *replica) stop(ctx context.Context, grace time.Duration) error {
	r.mu.Lock()
	r.isLast = true
	r.mu.Unlock()
	life, err := r.terminate(ctx)
	if err != nil {
		return err
	}
	return r.waitUntilEnded(ctx, life, grace)
}

// workload returns whether the process has work, and when its metrics were read, if they show it.
func (r *replica) workload() (work history.ProbeResult, read time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prober == nil {
		return "", time.Time{}, false
	}
	return r.prober.Workload()
}

func (r *replica) lifetimes() []history.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.processes)
}

// release ends the supervision; the process may run on. It returns the error of a restart that
// failed.
func (r *replica) release() error {
	if r.cancel == nil {
		return nil
	}
	if r.prober != nil {
		r.prober.Stop()
	}
	r.cancel()
	r.supervisor.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err)
}
