package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// A companion that ends by itself stays down for restartDelay, and longer each time up to
	// maxRestartDelay, to spare the machine if it cannot start.
	restartDelay    = 500 * time.Millisecond
	maxRestartDelay = 8 * time.Second
	// companionLogLines is how much of the log of a companion is reported.
	companionLogLines = 10
)

// Companion is the program of another Deployment than the subject's. One replica of it runs beside
// the subject's, and is started again whenever it ends.
type Companion struct {
	// Binary is the program.
	Binary string
	// Args returns arguments to follow those that the Deployment ships with. Nil: none.
	Args func(ReplicaPorts) []string
	// Env follows the Deployment's environment; see ReplicaOptions.
	Env []string
}

// companion is a Companion that runs.
type companion struct {
	*workload
	// report receives a text about each end.
	report func(string)

	mu      sync.Mutex
	replica *Replica // nil until it has started
	err     error    // why it does not run
}

// run starts the program, and starts it again whenever it ends, until ctx ends.
func (c *companion) run(ctx context.Context) {
	o := c.options(0)
	container := c.shipped.Spec.Template.Spec.Containers[0]
	o.IsUnprobed = !isHTTP(container.ReadinessProbe) && !isHTTP(container.LivenessProbe)
	// Its volumes may need what the subject or another companion creates.
	r, err := StartReplica(ctx, c.cp, o)
	c.set(r, err)
	if err != nil {
		return
	}
	c.router.add(ctx, r.backend)
	for delay := restartDelay; ; delay = min(2*delay, maxRestartDelay) {
		code, err := r.Wait(ctx)
		if err != nil {
			return // it is to stop
		}
		c.report(fmt.Sprintf("companion %s ended with exit code %d, and is started again; the end of its log:\n%s",
			o.Name, code, r.LogTail(companionLogLines)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := r.Restart(); err != nil {
			c.set(r, err)
			return
		}
	}
}

func (c *companion) set(r *Replica, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replica, c.err = r, err
}

// get returns nil before the replica has started, and an error if it cannot.
func (c *companion) get() (*Replica, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replica, c.err
}

// ready returns an error with the end of the log if the companion is not ready.
func (c *companion) ready(ctx context.Context) error {
	r, err := c.get()
	if err == nil && r == nil {
		return fmt.Errorf("companion %s has not started", c.shipped.Name)
	}
	if err != nil {
		return fmt.Errorf("companion %s: %w", c.shipped.Name, err)
	}
	if err := r.Ready(ctx); err != nil {
		return fmt.Errorf("companion %s: %w; the end of its log:\n%s", c.shipped.Name, err, r.LogTail(companionLogLines))
	}
	return nil
}

// stop ends the program. Nothing starts it again then.
func (c *companion) stop(ctx context.Context) error {
	r, _ := c.get()
	if r == nil {
		return nil
	}
	var err error
	if r.Running() {
		_, err = r.Stop(ctx)
	}
	return errors.Join(err, r.Close())
}
