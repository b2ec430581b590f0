// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// marginShare is the divisor of the lease duration that gives the margin at the end of a term, in
// which guards already reject requests. A request that was sent just before has this time to arrive
// before another replica may lead. A healthy leader never reaches the margin: the elector gives up
// at least a retry period before the term ends.
const marginShare = 10

// ErrNotLeading is the error of requests that a guard rejects.
var ErrNotLeading = errors.New("this replica does not hold the election Lease")

// Term is the time for which this replica may lead. It ends one lease duration after the leader
// sent its last successful renewal: another replica observed that renewal later, so it waits
// for longer. A nil Term, of a process without leader election, guards nothing.
type Term struct {
	elapsed func() time.Duration
	clock   clock.WithDelayedExecution
	lost    func(reason string)
	once    sync.Once // for lost
	// renewTimeout is the time after sending the last renewal at which the elector gives up.
	renewTimeout time.Duration

	mu       sync.Mutex
	active   bool
	end      time.Duration // by elapsed
	duration time.Duration
	timer    clock.Timer
}

func newTerm(elapsed func() time.Duration, c clock.WithDelayedExecution, lost func(string),
	renewTimeout time.Duration) *Term {
	return &Term{elapsed: elapsed, clock: c, lost: lost, renewTimeout: renewTimeout}
}

// extend makes the term end a duration after a renewal was sent.
func (t *Term) extend(sent, duration time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active, t.end, t.duration = true, sent+duration, duration
	if t.timer != nil {
		t.timer.Stop()
	}
	// The timer ends a leader that resumes after its term before the elector sends anything.
	t.timer = t.clock.AfterFunc(t.end-t.elapsed(), func() { _ = t.over() })
}

// finish ends the term because the leader gives the Lease back.
func (t *Term) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = false
	if t.timer != nil {
		t.timer.Stop()
	}
}

// over returns an error if the term has expired, which is a loss.
func (t *Term) over() error {
	t.mu.Lock()
	over := t.active && t.elapsed() >= t.end
	t.mu.Unlock()
	if !over {
		return nil
	}
	t.lose("the Lease was not renewed in time")
	return ErrNotLeading
}

// check returns an error unless a request may be sent now.
func (t *Term) check() error {
	t.mu.Lock()
	allowed := t.active && t.elapsed() < t.end-t.duration/marginShare
	t.mu.Unlock()
	if allowed {
		return nil
	}
	_ = t.over() // a guard may be the first to detect it
	return ErrNotLeading
}

// lose ends the term and reports that, once.
func (t *Term) lose(reason string) {
	t.finish()
	if t.lost != nil {
		t.once.Do(func() { t.lost(reason) })
	}
}

// bound cancels a leader's request when the elector gives up, and at the end of the term at the
// latest. An elector that has given up tries to release the Lease, and would otherwise wait for an
// unresponsive API server until the term ends.
func (t *Term) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.duration == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, t.end-t.duration+min(t.duration, t.renewTimeout)-t.elapsed())
}
