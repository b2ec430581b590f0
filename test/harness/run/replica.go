package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
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
}

// replica is a process of the operator, its proxy, and what a kubelet does for it:
// when it has ended it is started again.
type replica struct {
	proxy   *fault.Proxy
	process process
	clock   clock.Clock

	end     context.CancelFunc
	keeping sync.WaitGroup

	mu     sync.Mutex
	past   []history.Replica // the last one is the process that runs
	killed bool              // the process that runs was
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
			if !r.ended(code) {
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
	r.past = append(r.past, history.Replica{Name: r.process.Name(), Started: r.clock.Now()})
}

// ended notes the end and reports whether the process was killed on purpose.
func (r *replica) ended(code int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.past[len(r.past)-1]
	last.Ended, last.Exit, last.Killed = r.clock.Now(), code, r.killed
	return r.killed
}

// kill ends the process with SIGKILL. It returns when it is gone.
func (r *replica) kill() {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.process.Kill()
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
	r.end()
	r.keeping.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err)
}
