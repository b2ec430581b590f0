package fairqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The backoff begins as that of controller-runtime's own queue, whose maximum is 1,000 s. No watch reports
// that the cause of a failure has ended, so the maximum is the time that an object may then wait.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Minute
)

var _ priorityqueue.PriorityQueue[reconcile.Request] = (*queue)(nil)

// queue has the semantics of controller-runtime's priority queue except for the order of service: a
// request is queued once, with the highest priority and the shortest delay of its additions.
//
// client-go's queue deduplicates, gives no request to two workers, and has the metrics. It serves
// in the order of turns. Delays are timers, because an addition without a delay replaces a delayed
// one, which client-go's delaying queue cannot do.
type queue struct {
	workqueue.TypedDelayingInterface[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	clock   clock.WithDelayedExecution

	mu sync.Mutex
	// added has the requests that were added and that no worker has taken since.
	added map[reconcile.Request]*addition
	// taken has the requests that workers process.
	taken   map[reconcile.Request]taking
	turns   turns
	stopped bool
}

// addition is a request that was added and that no worker has taken.
type addition struct {
	priority int
	readyAt  time.Time
	timer    clock.Timer // nil once the request is ready
}

// taking is a request that a worker processes.
type taking struct {
	priority int
	since    time.Time // of the last charge
}

// New returns a queue for controller.Options.NewQueue. With a nil limiter the delay of failed
// requests doubles from 5 ms to one minute.
func New(
	controller string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) priorityqueue.PriorityQueue[reconcile.Request] {
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
	}
	q := &queue{limiter: limiter, clock: clock.RealClock{}, added: map[reconcile.Request]*addition{},
		taken: map[reconcile.Request]taking{}}
	q.TypedDelayingInterface = workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: controller,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
				Name: controller, Queue: storage{q},
			}),
		})
	return q
}

// AddWithOpts adds requests. Requests with a negative priority are background requests.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	priority := 0
	if o.Priority != nil {
		priority = *o.Priority
	}
	for _, request := range requests {
		after := o.After
		if o.RateLimited {
			if limited := q.limiter.When(request); after == 0 || limited < after {
				after = limited
			}
		}
		if q.schedule(request, priority, after) {
			q.TypedDelayingInterface.Add(request)
		}
	}
}

// schedule records an addition and reports whether the request is ready now.
func (q *queue) schedule(request reconcile.Request, priority int, after time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, known := q.added[request]
	if !known {
		a = &addition{priority: priority}
		q.added[request] = a
	}
	a.priority = max(a.priority, priority)
	readyAt := q.clock.Now().Add(after)
	switch {
	case known && a.timer == nil:
		return true // already ready; its priority may be higher now
	case after > 0 && known && !readyAt.Before(a.readyAt):
		return false
	}
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if after <= 0 {
		return true
	}
	a.readyAt = readyAt
	a.timer = q.clock.AfterFunc(after, func() { q.expire(request, a, readyAt) })
	return false
}

// expire makes a delayed request ready, unless another addition has replaced it.
func (q *queue) expire(request reconcile.Request, a *addition, readyAt time.Time) {
	q.mu.Lock()
	current := q.added[request] == a && a.timer != nil && a.readyAt.Equal(readyAt)
	if current {
		a.timer = nil
	}
	q.mu.Unlock()
	if current {
		// With a zero delay client-go counts a retry and adds at once.
		q.TypedDelayingInterface.AddAfter(request, 0)
	}
}

// Add adds a request that is ready.
func (q *queue) Add(request reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, request) }

// AddAfter adds a request that is ready after a delay.
func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited adds a request that is ready when the rate limiter permits it.
func (q *queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// Len returns the number of ready requests. In contrast to client-go's queue it includes those that
// wait for the end of their current reconcile.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready := q.turns.len()
	for request := range q.taken {
		if a, known := q.added[request]; known && a.timer == nil {
			ready++
		}
	}
	return ready
}

// Forget resets the backoff of a request.
func (q *queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues returns the number of times that the rate limiter has delayed a request.
func (q *queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// GetWithPriority blocks until there is a request, and takes it.
func (q *queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	request, shutdown = q.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	return request, q.taken[request].priority, shutdown
}

// Done ends the processing of a request and charges its time to its namespace. It removes the record
// first, because another worker may take the request as soon as client-go's queue is updated.
func (q *queue) Done(request reconcile.Request) {
	q.mu.Lock()
	if _, taken := q.taken[request]; taken {
		q.charge()
		q.turns.done(request)
	}
	delete(q.taken, request)
	q.mu.Unlock()
	q.TypedDelayingInterface.Done(request)
}

// charge adds the time since the last charge to the usage of all requests that workers process.
// They are as many as workers. A request that runs for long thus counts before it ends.
func (q *queue) charge() {
	now := q.clock.Now()
	for request, t := range q.taken {
		q.turns.charge(request, now.Sub(t.since))
		t.since = now
		q.taken[request] = t
	}
}

// ShutDown stops the queue at once. The next leader reconciles the remaining objects.
func (q *queue) ShutDown() {
	q.mu.Lock()
	q.stopped = true
	for _, a := range q.added {
		if a.timer != nil {
			a.timer.Stop()
		}
	}
	q.mu.Unlock()
	q.TypedDelayingInterface.ShutDown()
}

// ShutDownWithDrain calls ShutDown, as in controller-runtime's queue.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// storage gives client-go's queue the order of service. That queue calls it under its own lock,
// which is always acquired before q.mu.
type storage struct{ q *queue }

// Push queues a request that is ready.
func (s storage) Push(request reconcile.Request) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.q.turns.push(request, s.q.isBackground(request))
}

// Touch is called for a queued request that was added again.
func (s storage) Touch(request reconcile.Request) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if !s.q.isBackground(request) {
		s.q.turns.promote(request)
	}
}

// Len returns the number of available requests. It is zero after a shutdown: otherwise client-go's
// queue would let the workers take all remaining requests.
func (s storage) Len() int {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.q.stopped {
		return 0
	}
	return s.q.turns.len()
}

// Pop removes the next request.
func (s storage) Pop() reconcile.Request {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.q.charge()
	request := s.q.turns.pop()
	t := taking{since: s.q.clock.Now()}
	if a, known := s.q.added[request]; known {
		t.priority = a.priority
		delete(s.q.added, request)
	}
	s.q.taken[request] = t
	return request
}

// isBackground reports whether a request has a negative priority, as those of an initial list and
// of a resync have.
func (q *queue) isBackground(request reconcile.Request) bool {
	a, known := q.added[request]
	return known && a.priority < 0
}
