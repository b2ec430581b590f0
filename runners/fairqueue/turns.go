package fairqueue

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// backgroundShare is the share of background requests while foreground requests wait: one in five.
// Without it a user who changes objects faster than the workers reconcile them would keep a new
// leader from reconciling all other objects.
const backgroundShare = 5

// turns holds the requests that are ready. Foreground requests come first. In each class the
// namespaces take turns, and the requests of one namespace keep their order: between two requests
// of a namespace the queue serves one of every other waiting namespace.
type turns struct {
	foreground, background rotation
	// class has the class of each queued request. background may also have entries of requests that
	// were promoted since, which pop skips.
	class map[reconcile.Request]*rotation
	// passed is the number of foreground requests that were served while background requests
	// waited.
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

// promote moves a queued request to the foreground.
func (t *turns) promote(request reconcile.Request) {
	if t.class[request] == &t.background {
		t.push(request, false)
	}
}

// pop removes the next request. There must be one.
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

// take removes the next request of a class.
func (t *turns) take(class *rotation) (reconcile.Request, bool) {
	request, ok := class.pop(func(r reconcile.Request) bool { return t.class[r] == class })
	delete(t.class, request)
	return request, ok
}

// rotation has the waiting requests of each flow, and the flows in the order of their turns. A flow
// is a namespace, or one object of a kind without namespaces.
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

// pop removes the next valid request and drops the invalid ones before it, which do not use up the
// turn of their flow.
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

// flowOf returns the flow of a request. The slash distinguishes a namespace from a name.
func flowOf(request reconcile.Request) string {
	if request.Namespace == "" {
		return "/" + request.Name
	}
	return request.Namespace
}
