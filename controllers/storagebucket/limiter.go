package storagebucket

import (
	"net"
	"net/url"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxUnproven bounds the workers of one namespace on unproven endpoints, and the workers
// on one unproven endpoint.
const maxUnproven = 2

// outcome classifies the endpoint's response time while a slot was in use.
type outcome int

const (
	outcomeUnknown outcome = iota // no request was sent
	outcomePrompt                 // a response arrived within soon
	outcomeSlow                   // a late response or none
)

// endpointLimiter bounds the workers that wait for endpoints, so that one slow namespace or
// endpoint never occupies all of them. A reconcile request must acquire a slot before it
// sends a request to an endpoint or to the API server.
//
// A request is proven if its endpoint's last response was prompt. There are slots for:
//
//   - all requests: one for each worker;
//   - those that are not proven: share in all, and maxUnproven for each namespace;
//   - each namespace: share;
//   - each endpoint: share, or maxUnproven while it is not proven.
//
// A request that gets no slot is parked. A free slot is granted to the next parked request
// that the bounds admit: round-robin over namespaces, then over the endpoints of each
// namespace. Invariant: the bounds admit no parked request.
type endpointLimiter struct {
	workers int
	// share is workers-maxUnproven, at least one. The other workers remain for other
	// namespaces and endpoints.
	share int
	// wake adds a request to the work queue.
	wake func(reconcile.Request)

	mu         sync.Mutex
	slots      map[reconcile.Request]*slot
	parked     map[reconcile.Request]place
	endpoints  map[string]*endpointState  // only those with slots or parked requests
	namespaces map[string]*namespaceState // as endpoints
	turns      []string                   // namespaces with parked requests, the next one first
	unproven   int
}

// slot is the permission to use an endpoint. It may be granted to a parked request before a
// worker gets the request and acquires it.
type slot struct {
	endpoint         string
	proven, acquired bool
}

// endpointState is the state of one host and port.
type endpointState struct {
	slots  int
	last   outcome
	parked map[string]int // requests by namespace
}

func newEndpointLimiter(workers int) *endpointLimiter {
	return &endpointLimiter{
		workers: workers, share: max(1, workers-maxUnproven), wake: func(reconcile.Request) {},
		slots: map[reconcile.Request]*slot{}, parked: map[reconcile.Request]place{},
		endpoints: map[string]*endpointState{}, namespaces: map[string]*namespaceState{},
	}
}

// Acquire acquires a slot, which the caller must release, or parks the request and returns
// false. proven is true if the last response for the same bucket was prompt.
func (l *endpointLimiter) Acquire(req reconcile.Request, endpoint string, proven bool) bool {
	endpoint = hostPort(endpoint)
	if l.grantedElsewhere(req, endpoint) {
		l.Return(req) // the spec names another endpoint since
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, granted := l.slots[req]; granted {
		s.acquired = true
		return true
	}
	wanted := place{endpoint, proven}
	if at, parked := l.parked[req]; parked {
		if at.endpoint == endpoint {
			return false // no parked request could have a slot
		}
		l.unpark(req)
	}
	acquired := l.admits(req, wanted)
	if acquired {
		l.take(req, wanted).acquired = true
	} else {
		l.park(req, wanted)
	}
	return acquired
}

// Release releases a slot, and records the endpoint's outcome.
func (l *endpointLimiter) Release(req reconcile.Request, shown outcome) {
	l.mu.Lock()
	l.show(l.slots[req].endpoint, shown)
	l.free(req)
	granted := l.grant()
	l.mu.Unlock()
	l.wakeAll(granted)
}

func (l *endpointLimiter) grantedElsewhere(req reconcile.Request, endpoint string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, granted := l.slots[req]
	return granted && s.endpoint != endpoint
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
		l.Release(req, outcomeUnknown)
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

func (l *endpointLimiter) wakeAll(granted []reconcile.Request) {
	for _, req := range granted {
		l.wake(req)
	}
}

// proven returns the limiter's knowledge of an endpoint, or else the bucket's.
func (l *endpointLimiter) proven(at place) bool {
	if e, known := l.endpoints[at.endpoint]; known && e.last != outcomeUnknown {
		return e.last == outcomePrompt
	}
	return at.proven
}

// admits reports whether the bounds admit a request.
func (l *endpointLimiter) admits(req reconcile.Request, at place) bool {
	n, known := l.namespaces[req.Namespace]
	if !known {
		n = &namespaceState{}
	}
	return l.admitsTo(n, l.proven(at)) && l.admitsAt(at)
}

// admitsTo reports whether the bounds of a namespace admit another slot.
func (l *endpointLimiter) admitsTo(n *namespaceState, proven bool) bool {
	return len(l.slots) < l.workers && n.slots < l.share &&
		(proven || l.unproven < l.share && n.unproven < maxUnproven)
}

// admitsAt reports whether the bounds of an endpoint admit another slot.
func (l *endpointLimiter) admitsAt(at place) bool {
	e, known := l.endpoints[at.endpoint]
	return !known || e.slots < l.share && (l.proven(at) || e.slots < maxUnproven)
}

// take assigns a slot to a request.
func (l *endpointLimiter) take(req reconcile.Request, at place) *slot {
	s := &slot{endpoint: at.endpoint, proven: l.proven(at)}
	l.slots[req] = s
	l.count(req, s, 1)
	return s
}

// free removes the slot of a request.
func (l *endpointLimiter) free(req reconcile.Request) {
	s := l.slots[req]
	delete(l.slots, req)
	l.count(req, s, -1)
	l.tidy(req.Namespace, s.endpoint)
}

func (l *endpointLimiter) count(req reconcile.Request, s *slot, n int) {
	namespace := l.namespace(req.Namespace)
	namespace.slots += n
	l.endpoint(s.endpoint).slots += n
	if !s.proven {
		namespace.unproven += n
		l.unproven += n
	}
}

func (l *endpointLimiter) namespace(name string) *namespaceState {
	if _, known := l.namespaces[name]; !known {
		l.namespaces[name] = &namespaceState{parked: map[place][]reconcile.Request{}}
	}
	return l.namespaces[name]
}

func (l *endpointLimiter) endpoint(name string) *endpointState {
	if _, known := l.endpoints[name]; !known {
		l.endpoints[name] = &endpointState{parked: map[string]int{}}
	}
	return l.endpoints[name]
}

// tidy deletes the state of an unused namespace and endpoint, which bounds the memory.
func (l *endpointLimiter) tidy(namespace, endpoint string) {
	if n := l.namespaces[namespace]; n.slots == 0 && n.idle() {
		delete(l.namespaces, namespace)
	}
	if e := l.endpoints[endpoint]; e.slots == 0 && len(e.parked) == 0 {
		delete(l.endpoints, endpoint)
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
