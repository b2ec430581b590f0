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

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// backOff is how long a process that has ended by itself stays down, so that one
// that cannot start does not take the machine.
const backOff = 500 * time.Millisecond

// process is what an env.Replica can do.
type process interface {
	Name() string
	Ready(ctx context.Context) error
	LogTail(lines int) string
	Wait(ctx context.Context) (code int, err error)
	Restart() error
	Kill()
	Owns(local, remote string) bool
	Signal(s os.Signal) error
	Pause(ctx context.Context) error
	Resume() error
	Ports() env.ReplicaPorts
}

// replica is a process of the operator, its proxy, and what a kubelet does for it:
// when it has ended it is started again.
type replica struct {
	proxy   *fault.Proxy
	process process
	clock   clock.Clock
	build   string // what the history says it was built from
	prober  *record.Prober

	end     context.CancelFunc
	keeping sync.WaitGroup

	mu     sync.Mutex
	past   []history.Replica // the last one is the process that runs
	killed bool              // the process that runs was
	leaves bool              // the process that runs is the last
	err    error             // why it was not started again
}

// keep begins to keep the process running.
func (r *replica) keep(ctx context.Context, process process) {
	ctx, r.end = context.WithCancel(ctx)
	r.process = process
	r.began()
	r.keeping.Go(func() {
		for {
			code, err := process.Wait(ctx)
			if err != nil {
				return // it is no longer to be kept
			}
			onPurpose, last := r.ended(code)
			if last {
				return
			}
			if !onPurpose {
				select {
				case <-ctx.Done():
					return
				case <-r.clock.After(backOff):
				}
			}
			if err := process.Restart(); err != nil {
				r.mu.Lock()
				r.err = err
				r.mu.Unlock()
				return
			}
			r.began()
		}
	})
}

func (r *replica) began() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = false
	r.past = append(r.past, history.Replica{Name: r.process.Name(), Build: r.build, Started: r.clock.Now()})
}

// ended notes the end and reports whether it was on purpose, and whether the
// replica has come to its end with it.
func (r *replica) ended(code int) (onPurpose, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	life := &r.past[len(r.past)-1]
	life.Ended, life.Exit, life.Killed = r.clock.Now(), code, r.killed
	return r.killed || !life.Asked.IsZero(), r.leaves
}

// kill ends the process with SIGKILL. It returns when it is gone.
func (r *replica) kill() {
	// Under the lock, so that it is the process of this life that is killed: one that
	// ends by itself meanwhile is not started again before.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	r.process.Kill()
}

// ask asks the process that runs to stop, as a kubelet does, and does not wait. It
// returns which of all processes so far that is.
func (r *replica) ask(ctx context.Context) (life int, err error) {
	err = wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		life = len(r.past) - 1
		runs := r.past[life].Ended.IsZero()
		if runs {
			r.past[life].Asked = r.clock.Now()
		}
		return runs, nil
	})
	if err == nil {
		err = r.process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return life, fmt.Errorf("asking replica %s to stop: %w", r.process.Name(), err)
	}
	return life, nil
}

// gone waits until a process has ended. One that takes longer than grace is ended,
// which does not count as killed: it was given its chance.
func (r *replica) gone(ctx context.Context, life int, grace time.Duration) error {
	limit := r.clock.Now().Add(grace)
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		if ended := r.lived()[life].Ended; !ended.IsZero() {
			return true, nil
		}
		if r.clock.Now().After(limit) {
			r.process.Kill()
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of replica %s: %w", r.process.Name(), err)
	}
	return nil
}

// retire asks the process to stop and does not start it again.
func (r *replica) retire(ctx context.Context, grace time.Duration) error {
	r.mu.Lock()
	r.leaves = true
	r.mu.Unlock()
	life, err := r.ask(ctx)
	if err != nil {
		return err
	}
	return r.gone(ctx, life, grace)
}

// lived are all processes so far.
func (r *replica) lived() []history.Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.past)
}

// leave stops keeping the process running, which it may go on doing. It returns
// why it could not be kept running before.
func (r *replica) leave() error {
	if r.end == nil {
		return nil
	}
	if r.prober != nil {
		r.prober.Stop()
	}
	r.end()
	r.keeping.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err)
}
