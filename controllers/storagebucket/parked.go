package storagebucket

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// place identifies the queue of a parked request. proven is the bucket's knowledge of the
// endpoint, which counts if the limiter has none.
type place struct {
	endpoint string
	proven   bool
}

// namespaceState is the state of one namespace.
type namespaceState struct {
	slots, unproven int
	parked          map[place][]reconcile.Request
	// turns are the places with parked requests, the next one first. The unproven ones are
	// in turns[0], the proven ones in turns[1]. A bound on unproven requests thus skips all
	// of them at once.
	turns [2][]place
	// last is the index of the turns that was served last.
	last int
}

func turnsOf(proven bool) int {
	if proven {
		return 1
	}
	return 0
}

func (n *namespaceState) idle() bool { return len(n.parked) == 0 }

func (l *endpointLimiter) park(req reconcile.Request, at place) {
	n, e := l.namespace(req.Namespace), l.endpoint(at.endpoint)
	if n.idle() {
		l.turns = append(l.turns, req.Namespace)
	}
	if len(n.parked[at]) == 0 {
		turns := &n.turns[turnsOf(l.proven(at))]
		*turns = append(*turns, at)
	}
	l.parked[req] = at
	n.parked[at] = append(n.parked[at], req)
	e.parked[req.Namespace]++
}

func (l *endpointLimiter) unpark(req reconcile.Request) {
	at := l.parked[req]
	n, e := l.namespaces[req.Namespace], l.endpoints[at.endpoint]
	delete(l.parked, req)
	if e.parked[req.Namespace]--; e.parked[req.Namespace] == 0 {
		delete(e.parked, req.Namespace)
	}
	n.parked[at] = without(n.parked[at], req)
	if len(n.parked[at]) == 0 {
		delete(n.parked, at)
		turns := &n.turns[turnsOf(l.proven(at))]
		*turns = without(*turns, at)
	}
	if n.idle() {
		l.turns = without(l.turns, req.Namespace)
	}
	l.tidy(req.Namespace, at.endpoint)
}

func without[T comparable](list []T, one T) []T {
	i := slices.Index(list, one)
	return slices.Delete(list, i, i+1)
}

// show records the outcome of an endpoint, and moves its parked requests to the proven or
// the unproven turns.
func (l *endpointLimiter) show(endpoint string, shown outcome) {
	e := l.endpoints[endpoint]
	if shown == outcomeUnknown || shown == e.last {
		return
	}
	for _, at := range []place{{endpoint, false}, {endpoint, true}} {
		from, to := turnsOf(l.proven(at)), turnsOf(shown == outcomePrompt)
		for namespace := range e.parked {
			n := l.namespaces[namespace]
			if from != to && len(n.parked[at]) > 0 {
				n.turns[from], n.turns[to] = without(n.turns[from], at), append(n.turns[to], at)
			}
		}
	}
	e.last = shown
}

// grant grants the free slots to parked requests, and returns these requests.
func (l *endpointLimiter) grant() []reconcile.Request {
	var granted []reconcile.Request
	for {
		req, found := l.next()
		if !found {
			return granted
		}
		l.take(req, l.parked[req])
		l.unpark(req)
		granted = append(granted, req)
	}
}

// next returns the next parked request that the bounds admit, and ends the turns of its
// namespace and place. It skips a full namespace, kind or place without visiting its parked
// requests. Few of them can be full, which bounds the cost.
func (l *endpointLimiter) next() (reconcile.Request, bool) {
	for i, name := range l.turns {
		n := l.namespaces[name]
		for _, kind := range []int{1 - n.last, n.last} {
			if !l.admitsTo(n, kind == turnsOf(true)) {
				continue
			}
			for j, at := range n.turns[kind] {
				if l.admitsAt(at) {
					l.turns = append(slices.Delete(l.turns, i, i+1), name)
					n.turns[kind] = append(slices.Delete(n.turns[kind], j, j+1), at)
					n.last = kind
					return n.parked[at][0], true
				}
			}
		}
	}
	return reconcile.Request{}, false
}
