package health

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/fairqueue"
)

var _ healthz.Checker = (*Progress)(nil).Check

// Progress is the liveness check of the workers of any number of controllers.
// It fails when work is queued and either a reconcile has run for longer than
// stuckAfter or no worker has taken anything for that long.
//
// It sees the work through the queue, so a controller takes part by one option:
//
//	controller.Options{NewQueue: progress.NewQueue}
//
// An idle controller passes. So does a standby: its warmed-up queue fills, but
// counting starts when the first worker asks for work, which is after election.
type Progress struct {
	stuckAfter time.Duration
	clock      clock.PassiveClock

	mu     sync.Mutex
	queues map[string]*observedQueue // by controller name
}

// NewProgress returns a check that allows a worker stuckAfter for one item.
func NewProgress(stuckAfter time.Duration, c clock.PassiveClock) *Progress {
	return &Progress{stuckAfter: stuckAfter, clock: c, queues: map[string]*observedQueue{}}
}

// NewQueue is for controller.Options.NewQueue. It builds a fair queue and observes
// it. A nil Progress builds the queue and observes nothing.
func (p *Progress) NewQueue(
	controller string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := fairqueue.New(controller, limiter)
	if p == nil {
		return queue
	}
	observed := &observedQueue{
		PriorityQueue: queue,
		clock:         p.clock,
		taken:         map[reconcile.Request]time.Time{},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues[controller] = observed
	return observed
}

// Check is the healthz.Checker. Its error names each stuck controller, for how
// long it has been stuck and how many items wait behind.
func (p *Progress) Check(*http.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stuck []error
	for _, controller := range slices.Sorted(maps.Keys(p.queues)) {
		if err := p.queues[controller].check(p.stuckAfter); err != nil {
			stuck = append(stuck, fmt.Errorf("controller %s: %w", controller, err))
		}
	}
	return errors.Join(stuck...)
}

// Controller is the state of one controller's queue and workers.
type Controller struct {
	Name string `json:"name"`
	// Working is true once a worker has taken work: not on a standby.
	Working bool `json:"working"`
	// Queued items wait for a worker.
	Queued int `json:"queued"`
	// Running reconciles, the oldest of them since OldestSeconds.
	Running       int     `json:"running"`
	OldestSeconds float64 `json:"oldestSeconds"`
	// Started is how many reconciles have begun in this process.
	Started uint64 `json:"started"`
}

// Controllers returns the state of each controller, by name.
func (p *Progress) Controllers() []Controller {
	p.mu.Lock()
	defer p.mu.Unlock()
	controllers := []Controller{}
	for _, name := range slices.Sorted(maps.Keys(p.queues)) {
		controllers = append(controllers, p.queues[name].state(name))
	}
	return controllers
}

// observedQueue notes when workers take and finish items. The controller calls
// Done in a defer, so a panicking reconcile is counted as finished like any other.
type observedQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	clock clock.PassiveClock

	mu      sync.Mutex
	working bool                            // a worker has asked for work
	taken   map[reconcile.Request]time.Time // what workers hold now, and since when
	count   uint64                          // items taken so far

	// The first look that saw work waiting, and the count it saw. A later look
	// that finds the same count knows how long nothing has been taken.
	waitingSince time.Time
	waitingCount uint64
}

// GetWithPriority is how a worker takes an item; the first call shows that the
// workers run.
func (q *observedQueue) GetWithPriority() (reconcile.Request, int, bool) {
	q.mu.Lock()
	q.working = true
	q.mu.Unlock()

	item, priority, shutdown := q.PriorityQueue.GetWithPriority()

	q.mu.Lock()
	defer q.mu.Unlock()
	if shutdown {
		// What is still queued now is left to the next leader.
		q.working = false
		return item, priority, shutdown
	}
	q.taken[item] = q.clock.Now()
	q.count++
	return item, priority, shutdown
}

// Get is GetWithPriority for callers that do not ask for the priority.
func (q *observedQueue) Get() (reconcile.Request, bool) {
	item, _, shutdown := q.GetWithPriority()
	return item, shutdown
}

// Done is how a worker gives an item back. The note goes first: once the queue
// knows, another worker may take the same item.
func (q *observedQueue) Done(item reconcile.Request) {
	q.mu.Lock()
	delete(q.taken, item)
	q.mu.Unlock()
	q.PriorityQueue.Done(item)
}

func (q *observedQueue) check(stuckAfter time.Duration) error {
	queued := q.Len()
	now := q.clock.Now()

	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.working || queued == 0 {
		q.waitingSince = time.Time{}
		return nil
	}
	if item, since, ok := q.oldest(); ok && now.Sub(since) > stuckAfter {
		return fmt.Errorf("a worker has been reconciling %q for %s (limit %s) with %d more queued",
			item, now.Sub(since).Round(time.Second), stuckAfter, queued)
	}
	if q.waitingSince.IsZero() || q.waitingCount != q.count {
		q.waitingSince, q.waitingCount = now, q.count
		return nil
	}
	if waited := now.Sub(q.waitingSince); waited > stuckAfter && len(q.taken) == 0 {
		return fmt.Errorf("no worker has started a reconcile for %s (limit %s) with %d queued",
			waited.Round(time.Second), stuckAfter, queued)
	}
	return nil
}

func (q *observedQueue) state(name string) Controller {
	queued := q.Len()
	q.mu.Lock()
	defer q.mu.Unlock()
	c := Controller{Name: name, Working: q.working, Queued: queued, Running: len(q.taken), Started: q.count}
	if _, since, ok := q.oldest(); ok {
		c.OldestSeconds = q.clock.Since(since).Seconds()
	}
	return c
}

// oldest returns the item that a worker has held for the longest time.
func (q *observedQueue) oldest() (item reconcile.Request, since time.Time, ok bool) {
	for held, at := range q.taken {
		if !ok || at.Before(since) {
			item, since, ok = held, at, true
		}
	}
	return item, since, ok
}
