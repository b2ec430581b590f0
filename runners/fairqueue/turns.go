package fairqueue

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// backgroundShare is one in how many services goes to background requests while
// others wait, too. Without it a user who changes objects faster than they can be
// reconciled would keep a new leader from the objects of all others.
const backgroundShare = 5

// turns holds the requests that are ready. Foreground requests go first. Within
// each class namespaces take turns, and a namespace is served in order: between two
// services of one namespace every other namespace that waits is served.
type turns struct {
	foreground, background rotation
	// class has the requests that are queued. background may also have entries of
	// requests that were promoted since; these are passed over.
	class map[reconcile.Request]*rotation
	// passed is how many foreground requests were served while others waited.
	passed int
}

func (t *turns) len() int { return len(t.class) }

// push queues a request that is not queued.
func (t *turns) push(request reconcile.Request, background bool) {
	if t.class == nil {
		t.class = map[reconcile.Request]*rotation{}
	}
	class := &t.foreground
	if background {
		class = &t.background
	}
	t.class[request] = class
	class.push(request)
}

// promote makes a queued request one of the foreground.
func (t *turns) promote(request reconcile.Request) {
	if t.class[request] == &t.background {
		t.push(request, false)
	}
}

// pop takes the next request. There must be one.
func (t *turns) pop() reconcile.Request {
	waits := !t.background.empty()
	if waits && t.passed == backgroundShare-1 {
		t.passed = 0
		if request, ok := t.take(&t.background); ok {
			return request
		}
	}
	if request, ok := t.take(&t.foreground); ok {
		if waits {
			t.passed++
		}
		return request
	}
	t.passed = 0
	request, _ := t.take(&t.background)
	return request
}

// take takes the next request of a class.
func (t *turns) take(class *rotation) (reconcile.Request, bool) {
	request, ok := class.pop(func(r reconcile.Request) bool { return t.class[r] == class })
	delete(t.class, request)
	return request, ok
}

// rotation has the waiting requests of each flow, and the flows in the order of
// their turns. A flow is a namespace, or one object of a kind without namespaces.
type rotation struct {
	order   []string
	waiting map[string][]reconcile.Request
}

func (r *rotation) empty() bool { return len(r.order) == 0 }

func (r *rotation) push(request reconcile.Request) {
	if r.waiting == nil {
		r.waiting = map[string][]reconcile.Request{}
	}
	flow := flowOf(request)
	if len(r.waiting[flow]) == 0 {
		r.order = append(r.order, flow)
	}
	r.waiting[flow] = append(r.waiting[flow], request)
}

// pop takes the next request that is valid and drops the others before it. They
// are no turn of their flow.
func (r *rotation) pop(valid func(reconcile.Request) bool) (reconcile.Request, bool) {
	for !r.empty() {
		flow := r.order[0]
		r.order = r.order[1:]
		requests := r.waiting[flow]
		for len(requests) > 0 && !valid(requests[0]) {
			requests = requests[1:]
		}
		if len(requests) > 1 {
			r.waiting[flow] = requests[1:]
			r.order = append(r.order, flow)
		} else {
			delete(r.waiting, flow)
		}
		if len(requests) > 0 {
			return requests[0], true
		}
	}
	return reconcile.Request{}, false
}

// flowOf returns the flow of a request. The slash tells a name from a namespace.
func flowOf(request reconcile.Request) string {
	if request.Namespace == "" {
		return "/" + request.Name
	}
	return request.Namespace
}
