package fairqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The backoff that controller-runtime gives its own queue.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 1000 * time.Second
)

var _ priorityqueue.PriorityQueue[reconcile.Request] = (*queue)(nil)

// queue has the semantics of controller-runtime's priority queue in all but the
// order of service: a request is queued once, with the highest priority and the
// shortest delay that it was added with.
//
// client-go's queue deduplicates, keeps a request from two workers and counts. It
// serves in the order of turns. Delays are timers, since an addition without delay
// replaces a delayed one, which client-go's delaying queue cannot do.
type queue struct {
	workqueue.TypedDelayingInterface[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	clock   clock.WithDelayedExecution

	mu sync.Mutex
	// added has the requests that no worker has taken since they were added.
	added map[reconcile.Request]*addition
	// taken has the priorities of the requests that workers hold.
	taken   map[reconcile.Request]int
	turns   turns
	stopped bool
}

// addition is a request that was added and not taken yet.
type addition struct {
	priority int
	readyAt  time.Time
	timer    clock.Timer // nil once the request is ready
}

// New returns a queue for controller.Options.NewQueue. A nil limiter is
// controller-runtime's default.
func New(
	controller string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) priorityqueue.PriorityQueue[reconcile.Request] {
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
	}
	q := &queue{limiter: limiter, clock: clock.RealClock{}, added: map[reconcile.Request]*addition{}, taken: map[reconcile.Request]int{}}
	q.TypedDelayingInterface = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
		Name: controller,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
			Name: controller, Queue: storage{q},
		}),
	})
	return q
}

// AddWithOpts adds requests. Those of negative priority give way to the others.
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
		return true // ready already; its priority may be higher now
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

// expire makes a delayed request ready, unless another addition was faster.
func (q *queue) expire(request reconcile.Request, a *addition, readyAt time.Time) {
	q.mu.Lock()
	current := q.added[request] == a && a.timer != nil && a.readyAt.Equal(readyAt)
	if current {
		a.timer = nil
	}
	q.mu.Unlock()
	if current {
		// Without a delay client-go counts a retry and adds at once.
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

// Len returns how many requests are ready, with those that wait for their own
// reconcile to end; client-go's queue does not count these.
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

// NumRequeues returns how often the rate limiter has seen a request.
func (q *queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// GetWithPriority waits for a request and takes it.
func (q *queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	request, shutdown = q.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	return request, q.taken[request], shutdown
}

// Done gives a request back. Its priority goes first: the next worker may take it
// as soon as client-go's queue knows.
func (q *queue) Done(request reconcile.Request) {
	q.mu.Lock()
	delete(q.taken, request)
	q.mu.Unlock()
	q.TypedDelayingInterface.Done(request)
}

// ShutDown stops the queue at once. What is left in it is the next leader's.
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

// ShutDownWithDrain is ShutDown, as in controller-runtime's queue.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// storage is what client-go's queue sees of the order of service. That queue calls
// it under its own lock, which is always taken before q.mu.
type storage struct{ q *queue }

// Push queues a request that is ready.
func (s storage) Push(request reconcile.Request) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.q.turns.push(request, s.q.isBackground(request))
}

// Touch is called for a request that is queued and was added again.
func (s storage) Touch(request reconcile.Request) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if !s.q.isBackground(request) {
		s.q.turns.promote(request)
	}
}

// Len returns how many requests may be taken. client-go's queue would have workers
// take all that is left after a shutdown.
func (s storage) Len() int {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.q.stopped {
		return 0
	}
	return s.q.turns.len()
}

// Pop takes the request whose turn it is.
func (s storage) Pop() reconcile.Request {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	request := s.q.turns.pop()
	s.q.taken[request] = 0
	if a, known := s.q.added[request]; known {
		s.q.taken[request] = a.priority
		delete(s.q.added, request)
	}
	return request
}

// isBackground reports whether a request has a negative priority, as those of an
// initial list and of a resync have.
func (q *queue) isBackground(request reconcile.Request) bool {
	a, known := q.added[request]
	return known && a.priority < 0
}
