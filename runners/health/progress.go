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

// Progress is the liveness check of the workers of any number of controllers. It fails if requests
// are queued and either a reconcile has run for longer than stuckAfter or no worker has taken a
// request for that long.
//
// It observes the queue, so a controller needs one option:
//
//	controller.Options{NewQueue: progress.NewQueue}
//
// An idle controller passes. So does a standby, whose queue is filled: the time counts from the
// first call of a worker, which is after the election.
type Progress struct {
	stuckAfter time.Duration
	clock      clock.PassiveClock

	mu     sync.Mutex
	queues map[string]*observedQueue // by controller name
}

// NewProgress returns a check that allows stuckAfter for one reconcile.
func NewProgress(stuckAfter time.Duration, c clock.PassiveClock) *Progress {
	return &Progress{stuckAfter: stuckAfter, clock: c, queues: map[string]*observedQueue{}}
}

// NewQueue is for controller.Options.NewQueue. It returns a fair queue that it observes. A nil
// Progress returns a queue without observing it. The backoff is that of the fair queue, and not the
// limiter's, which controller-runtime always sets.
func (p *Progress) NewQueue(
	controller string, _ workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := fairqueue.New(controller, nil)
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

// Check is a healthz.Checker. Its error names each stuck controller, for how long it has been stuck
// and the number of waiting requests.
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
	// Working is true once a worker has taken a request: not on a standby.
	Working bool `json:"working"`
	// Queued is the number of requests that wait for a worker.
	Queued int `json:"queued"`
	// Running is the number of running reconciles; the oldest has run for OldestSeconds.
	Running       int     `json:"running"`
	OldestSeconds float64 `json:"oldestSeconds"`
	// Started is the number of reconciles that this process has started.
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

// observedQueue records when workers take and finish requests. The controller calls Done in a
// defer, so a panicking reconcile counts as finished like any other.
type observedQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	clock clock.PassiveClock

	mu      sync.Mutex
	working bool                            // a worker has called GetWithPriority
	taken   map[reconcile.Request]time.Time // the start of each running reconcile
	count   uint64                          // requests taken so far

	// The first check that found requests waiting, and the count at that time. If a later check
	// finds the same count, nothing has been taken since.
	waitingSince time.Time
	waitingCount uint64
}

// GetWithPriority is called by workers; the first call shows that the workers run.
func (q *observedQueue) GetWithPriority() (reconcile.Request, int, bool) {
	q.mu.Lock()
	q.working = true
	q.mu.Unlock()

	item, priority, shutdown := q.PriorityQueue.GetWithPriority()

	q.mu.Lock()
	defer q.mu.Unlock()
	if shutdown {
		// The next leader reconciles the remaining objects.
		q.working = false
		return item, priority, shutdown
	}
	q.taken[item] = q.clock.Now()
	q.count++
	return item, priority, shutdown
}

// Get is GetWithPriority without the priority.
func (q *observedQueue) Get() (reconcile.Request, bool) {
	item, _, shutdown := q.GetWithPriority()
	return item, shutdown
}

// Done is called by workers at the end of a reconcile. It updates the record first, because another
// worker may take the same request as soon as the queue is updated.
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
	// No reconcile runs: one that began before waitingSince is beyond the limit, too.
	if waited := now.Sub(q.waitingSince); waited > stuckAfter {
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

// oldest returns the request whose reconcile has run for the longest time.
func (q *observedQueue) oldest() (item reconcile.Request, since time.Time, ok bool) {
	for held, at := range q.taken {
		if !ok || at.Before(since) {
			item, since, ok = held, at, true
		}
	}
	return item, since, ok
}
