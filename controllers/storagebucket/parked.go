package storagebucket

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// namespaceState is the state of one namespace.
type namespaceState struct {
	slots  int
	parked map[string][]reconcile.Request // by endpoint; none is empty
	turns  []string                       // endpoints with parked requests, the next one first
}

func (l *endpointLimiter) park(req reconcile.Request, endpoint string) {
	n := l.namespace(req.Namespace)
	if len(n.parked) == 0 {
		l.turns = append(l.turns, req.Namespace)
	}
	if len(n.parked[endpoint]) == 0 {
		n.turns = append(n.turns, endpoint)
	}
	n.parked[endpoint] = append(n.parked[endpoint], req)
	l.parked[req] = endpoint
}

func (l *endpointLimiter) unpark(req reconcile.Request) {
	endpoint, parked := l.parked[req]
	if !parked {
		return
	}
	delete(l.parked, req)
	n := l.namespaces[req.Namespace]
	n.parked[endpoint] = without(n.parked[endpoint], req)
	if len(n.parked[endpoint]) == 0 {
		delete(n.parked, endpoint)
		n.turns = without(n.turns, endpoint)
	}
	if len(n.parked) == 0 {
		l.turns = without(l.turns, req.Namespace)
	}
}

// grant grants the free slots to parked requests, and returns these requests.
func (l *endpointLimiter) grant() []reconcile.Request {
	var granted []reconcile.Request
	for {
		req, endpoint, found := l.next()
		if !found {
			return granted
		}
		l.unpark(req)
		l.take(req, endpoint)
		granted = append(granted, req)
	}
}

// next returns the next parked request that the bounds admit, and ends the turns of its namespace
// and endpoint. A namespace with fewer slots comes first. Otherwise the namespaces that hold all
// slots would get each of them again. Full namespaces and endpoints are few, which bounds the cost
// of skipping them.
func (l *endpointLimiter) next() (req reconcile.Request, endpoint string, found bool) {
	if len(l.slots) >= l.total {
		return req, "", false
	}
	for held := range maxSlots {
		for i, name := range l.turns {
			n := l.namespaces[name]
			j := slices.IndexFunc(n.turns, func(endpoint string) bool { return l.endpoints[endpoint] < maxSlots })
			if n.slots != held || j < 0 {
				continue
			}
			endpoint = n.turns[j]
			l.turns = append(slices.Delete(l.turns, i, i+1), name)
			n.turns = append(slices.Delete(n.turns, j, j+1), endpoint)
			return n.parked[endpoint][0], endpoint, true
		}
	}
	return req, "", false
}

func without[T comparable](list []T, one T) []T {
	i := slices.Index(list, one)
	return slices.Delete(list, i, i+1)
}
