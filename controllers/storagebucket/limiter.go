package storagebucket

import (
	"net"
	"net/url"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxUnproven is how many workers a namespace may have at endpoints that are not
// known to answer, and how many such workers one endpoint may have.
const maxUnproven = 2

// outcome is what the use of a slot has shown of the endpoint.
type outcome int

const (
	outcomeUnknown outcome = iota // nothing was sent
	outcomePrompt                 // it answered soon
	outcomeSlow                   // it answered late or not at all
)

// endpointLimiter bounds how many workers wait for endpoints, so that what one
// namespace or one endpoint does not answer never occupies all of them. A request
// has to hold a slot before it causes any request to an endpoint or to the API
// server.
//
// A request is proven if its endpoint has answered soon. There are slots for:
//
//   - all requests: one for each worker;
//   - those that are not proven: share in all, and maxUnproven for each namespace;
//   - each namespace: share;
//   - each endpoint: share, or maxUnproven while it is not proven.
//
// A request that gets no slot is parked. A slot that becomes free is granted to the
// next parked request that may have it: namespaces take turns, and within each
// namespace its endpoints do. At no time could a parked request have a slot.
type endpointLimiter struct {
	workers int
	// share leaves maxUnproven workers to the others.
	share int
	// wake puts a request back into the queue.
	wake func(reconcile.Request)

	mu         sync.Mutex
	slots      map[reconcile.Request]*slot
	parked     map[reconcile.Request]place
	endpoints  map[string]*endpointState  // those with slots or parked requests
	namespaces map[string]*namespaceState // likewise
	turns      []string                   // namespaces with parked requests, the next one first
	unproven   int
}

// slot is the permission to use an endpoint. It is granted to a parked request
// before a worker has the request again, which then acquires it.
type slot struct {
	endpoint         string
	proven, acquired bool
}

// endpointState is one host and port.
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

// Acquire takes a slot, which has to be released, or parks the request. proven is
// whether the endpoint answered the last request for the same bucket soon.
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

// Release returns a slot, with what its use has shown of the endpoint.
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

// Granted reports whether a request has a slot that it has not acquired yet.
func (l *endpointLimiter) Granted(req reconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, granted := l.slots[req]
	return granted && !s.acquired
}

// Return returns a slot that was granted and turned out not to be needed.
func (l *endpointLimiter) Return(req reconcile.Request) {
	if l.Granted(req) {
		l.Release(req, outcomeUnknown)
	}
}

// Pending reports whether a request is parked or has a slot. It needs no tick.
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

// proven is what is known of an endpoint, or else what the bucket knows.
func (l *endpointLimiter) proven(at place) bool {
	if e, known := l.endpoints[at.endpoint]; known && e.last != outcomeUnknown {
		return e.last == outcomePrompt
	}
	return at.proven
}

// admits reports whether there is a slot for a request.
func (l *endpointLimiter) admits(req reconcile.Request, at place) bool {
	n, known := l.namespaces[req.Namespace]
	if !known {
		n = &namespaceState{}
	}
	return l.admitsTo(n, l.proven(at)) && l.admitsAt(at)
}

// admitsTo reports whether a namespace may have another slot.
func (l *endpointLimiter) admitsTo(n *namespaceState, proven bool) bool {
	return len(l.slots) < l.workers && n.slots < l.share &&
		(proven || l.unproven < l.share && n.unproven < maxUnproven)
}

// admitsAt reports whether an endpoint may have another slot.
func (l *endpointLimiter) admitsAt(at place) bool {
	e, known := l.endpoints[at.endpoint]
	return !known || e.slots < l.share && (l.proven(at) || e.slots < maxUnproven)
}

// take gives a request a slot.
func (l *endpointLimiter) take(req reconcile.Request, at place) *slot {
	s := &slot{endpoint: at.endpoint, proven: l.proven(at)}
	l.slots[req] = s
	l.count(req, s, 1)
	return s
}

// free takes the slot of a request away.
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

// tidy forgets what is not in use.
func (l *endpointLimiter) tidy(namespace, endpoint string) {
	if n := l.namespaces[namespace]; n.slots == 0 && n.idle() {
		delete(l.namespaces, namespace)
	}
	if e := l.endpoints[endpoint]; e.slots == 0 && len(e.parked) == 0 {
		delete(l.endpoints, endpoint)
	}
}

// hostPort is the host and port of an endpoint, which can be spelled in many ways.
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
