package storagebucket

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// soon is how long a visit may take without a slot. It is what a wrong guess about an
	// endpoint costs a worker.
	soon = 2 * time.Second
	// maxSlots bounds the slots of one namespace, and those of one endpoint.
	maxSlots = 2
	// reserve is the number of workers that never have a slot.
	reserve = 2
)

// errNoSlot is the cause of a context that ended because a visit needs a slot.
var errNoSlot = errors.New("the visit waits for a slot of the endpoint limiter")

// endpointLimiter bounds the workers that wait for slow endpoints. Its attacker is a user whose
// endpoints are slow, at any request and at any time they like. So it judges no endpoint by its
// past: a visit gets `soon`, and needs a slot to take longer or to change anything.
//
// There are slots for maxSlots visits of each namespace, for maxSlots visits of each endpoint, and
// for all but `reserve` workers in all. The other workers are never busy for longer than `soon`
// with an endpoint. A visit that needs a slot and gets none ends, and its request is parked. A free
// slot is granted to the next parked request: of a namespace with the fewest slots, round-robin over
// these, then over the endpoints of each namespace. Invariant: the bounds admit no parked request.
type endpointLimiter struct {
	total int // slots
	clock clock.WithDelayedExecution
	// wake adds a request to the work queue.
	wake func(reconcile.Request)

	mu         sync.Mutex
	slots      map[reconcile.Request]*slot
	parked     map[reconcile.Request]string // the endpoint
	namespaces map[string]*namespaceState   // only those with slots or parked requests
	endpoints  map[string]int               // slots; none is zero
	turns      []string                     // namespaces with parked requests, the next one first
}

// slot is the permission to use an endpoint. It may be granted to a parked request before a
// worker gets the request and acquires it.
type slot struct {
	endpoint string
	acquired bool
}

func newEndpointLimiter(workers int) *endpointLimiter {
	return &endpointLimiter{
		total: max(1, workers-reserve), clock: clock.RealClock{}, wake: func(reconcile.Request) {},
		slots: map[reconcile.Request]*slot{}, parked: map[reconcile.Request]string{},
		namespaces: map[string]*namespaceState{}, endpoints: map[string]int{},
	}
}

// Bound returns a context for a visit without a slot. After `soon` the visit acquires a slot, or
// its context ends with errNoSlot. The caller must call end at the end of the visit, before it
// releases the slot. end reports whether the visit took longer than `soon`.
func (l *endpointLimiter) Bound(ctx context.Context, req reconcile.Request,
	endpoint string) (bounded context.Context, end func() bool) {
	bounded, cancel := context.WithCancelCause(ctx)
	fired := make(chan struct{})
	timer := l.clock.AfterFunc(soon, func() {
		defer close(fired)
		if !l.Acquire(req, endpoint) {
			cancel(errNoSlot)
		}
	})
	return bounded, func() bool {
		defer cancel(nil)
		late := !timer.Stop()
		if late {
			<-fired // a slot that is acquired later would never be released
		}
		return late
	}
}

// Acquire acquires a slot, which the caller must release, or parks the request and returns
// false. A request that has a slot keeps it. A caller whose endpoint has changed releases first.
func (l *endpointLimiter) Acquire(req reconcile.Request, endpoint string) bool {
	endpoint = hostPort(endpoint)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, parked := l.parked[req]; parked {
		return false // the bounds admit no parked request
	}
	if _, granted := l.slots[req]; !granted {
		if !l.admits(req.Namespace, endpoint) {
			l.park(req, endpoint)
			return false
		}
		l.take(req, endpoint)
	}
	l.slots[req].acquired = true
	return true
}

// Release releases the slot of a request, or removes a parked request. It does nothing for others.
func (l *endpointLimiter) Release(req reconcile.Request) {
	l.mu.Lock()
	if s, granted := l.slots[req]; granted {
		delete(l.slots, req)
		if l.endpoints[s.endpoint]--; l.endpoints[s.endpoint] == 0 {
			delete(l.endpoints, s.endpoint)
		}
		l.namespaces[req.Namespace].slots--
	}
	l.unpark(req)
	l.tidy(req.Namespace)
	granted := l.grant()
	l.mu.Unlock()
	for _, req := range granted {
		l.wake(req)
	}
}

// Suspend ends a visit with errNoSlot. If a slot was granted meanwhile, the request is queued again.
func (l *endpointLimiter) Suspend(req reconcile.Request) {
	l.mu.Lock()
	s, granted := l.slots[req]
	if granted {
		s.acquired = false
	}
	l.mu.Unlock()
	if granted {
		l.wake(req)
	}
}

// Granted reports whether a request was granted a slot that it has not acquired yet.
func (l *endpointLimiter) Granted(req reconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, granted := l.slots[req]
	return granted && !s.acquired
}

// Return releases a granted slot that the request does not need.
func (l *endpointLimiter) Return(req reconcile.Request) {
	if l.Granted(req) {
		l.Release(req)
	}
}

// Pending reports whether a request is parked or has a slot. Ticks must not queue it again.
func (l *endpointLimiter) Pending(req reconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, parked := l.parked[req]
	_, granted := l.slots[req]
	return parked || granted
}

func (l *endpointLimiter) admits(namespace, endpoint string) bool {
	n, known := l.namespaces[namespace]
	return len(l.slots) < l.total && l.endpoints[endpoint] < maxSlots && (!known || n.slots < maxSlots)
}

func (l *endpointLimiter) take(req reconcile.Request, endpoint string) {
	l.slots[req] = &slot{endpoint: endpoint}
	l.endpoints[endpoint]++
	l.namespace(req.Namespace).slots++
}

func (l *endpointLimiter) namespace(name string) *namespaceState {
	if _, known := l.namespaces[name]; !known {
		l.namespaces[name] = &namespaceState{parked: map[string][]reconcile.Request{}}
	}
	return l.namespaces[name]
}

// tidy deletes the state of an unused namespace, which bounds the memory.
func (l *endpointLimiter) tidy(namespace string) {
	if n, known := l.namespaces[namespace]; known && n.slots == 0 && len(n.parked) == 0 {
		delete(l.namespaces, namespace)
	}
}

// hostPort returns the canonical host and port of an endpoint URL.
func hostPort(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return endpoint
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
