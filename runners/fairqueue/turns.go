package fairqueue

import (
	"container/heap"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// backgroundShare is the share of background requests while foreground requests wait: one in five.
// Without it a user who changes objects faster than the workers reconcile them would keep a new
// leader from reconciling all other objects.
const backgroundShare = 5

// turns holds the requests that are ready. Foreground requests come first. In each class the
// queue serves the namespace whose requests took the least time of workers. Turns by number would
// let a namespace of slow requests take most of that time. Namespaces that took the same time take
// turns, and the requests of one namespace keep their order.
type turns struct {
	foreground, background rotation
	// class has the class of each queued request. background may also have entries of requests that
	// were promoted since, which pop skips.
	class map[reconcile.Request]*rotation
	// passed is the number of foreground requests that were served while background requests
	// waited.
	passed int
	// taken has the class of each taken request.
	taken map[reconcile.Request]*rotation
}

// usage is the time of workers that a flow took. A flow is a namespace, or one object of a kind
// without namespaces.
type usage struct {
	time     time.Duration
	requests int // queued or taken
}

func (t *turns) len() int { return len(t.class) }

// push queues a request that is not queued.
func (t *turns) push(request reconcile.Request, background bool) {
	if t.class == nil {
		t.class, t.taken = map[reconcile.Request]*rotation{}, map[reconcile.Request]*rotation{}
	}
	class := &t.foreground
	if background {
		class = &t.background
	}
	if former, promoted := t.class[request]; promoted {
		former.done(request)
	}
	t.class[request] = class
	class.push(request, class.usageOf(flowOf(request)))
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
	if ok {
		delete(t.class, request)
		t.taken[request] = class
		class.raise(class.used[flowOf(request)].time)
	}
	return request, ok
}

// charge adds time that a taken request took to the usage of its flow.
func (t *turns) charge(request reconcile.Request, took time.Duration) {
	class, name := t.taken[request], flowOf(request)
	class.used[name].time += took
	class.fix(name)
}

// done drops a taken request.
func (t *turns) done(request reconcile.Request) {
	t.taken[request].done(request)
	delete(t.taken, request)
}

// rotation has the flows with waiting requests, as a heap. It counts the usage of its class alone:
// what a flow saves in the background gives it no advantage in the foreground.
type rotation struct {
	heap  flows
	known map[string]*flow
	// turn is the number of turns so far.
	turn int
	// used is the time that the requests of each flow took. It has the flows with queued or taken
	// requests, and idle ones above the floor. Otherwise one that is idle for a moment after each
	// request would never be charged.
	used map[string]*usage
	// floor is the highest usage of a flow when it was served. A new flow begins with it. So an idle
	// flow gains no advantage over those that wait, and its usage below the floor can be dropped.
	floor time.Duration
	// requests are queued or taken. Without any, all usage is dropped, which bounds the memory.
	requests int
}

type flow struct {
	name    string
	used    *usage
	turn    int // the last one
	index   int // in the heap
	waiting []reconcile.Request
}

// usageOf returns the usage of a flow, and counts one request more.
func (r *rotation) usageOf(name string) *usage {
	if r.used == nil {
		r.used = map[string]*usage{}
	}
	u, known := r.used[name]
	if !known {
		u = &usage{time: r.floor}
		r.used[name] = u
	}
	u.requests++
	r.requests++
	return u
}

// raise raises the floor, and drops the idle flows that it reaches.
func (r *rotation) raise(floor time.Duration) {
	if floor <= r.floor {
		return
	}
	r.floor = floor
	maps.DeleteFunc(r.used, func(_ string, u *usage) bool { return u.requests == 0 && u.time <= floor })
}

// done drops a request that ended, or that left the class.
func (r *rotation) done(request reconcile.Request) {
	name := flowOf(request)
	u := r.used[name]
	u.requests--
	r.requests--
	switch {
	case r.requests == 0:
		clear(r.used)
	case u.requests == 0 && u.time <= r.floor:
		delete(r.used, name)
	}
}

func (r *rotation) empty() bool { return len(r.heap) == 0 }

func (r *rotation) push(request reconcile.Request, used *usage) {
	if r.known == nil {
		r.known = map[string]*flow{}
	}
	name := flowOf(request)
	f, known := r.known[name]
	if !known {
		r.turn++
		f = &flow{name: name, turn: r.turn, used: used}
		r.known[name] = f
		heap.Push(&r.heap, f)
	}
	f.waiting = append(f.waiting, request)
	f.used = used // its requests may all have been promoted and served since
	heap.Fix(&r.heap, f.index)
}

// fix restores the order after the usage of a flow has changed.
func (r *rotation) fix(name string) {
	if f, known := r.known[name]; known {
		heap.Fix(&r.heap, f.index)
	}
}

// pop removes the next valid request and drops the invalid ones before it, which do not use up the
// turn of their flow.
func (r *rotation) pop(valid func(reconcile.Request) bool) (reconcile.Request, bool) {
	for !r.empty() {
		f := r.heap[0]
		for len(f.waiting) > 0 && !valid(f.waiting[0]) {
			f.waiting = f.waiting[1:]
		}
		requests := f.waiting
		if len(requests) > 1 {
			r.turn++
			f.waiting, f.turn = requests[1:], r.turn
			heap.Fix(&r.heap, 0)
		} else {
			heap.Pop(&r.heap)
			delete(r.known, f.name)
		}
		if len(requests) > 0 {
			return requests[0], true
		}
	}
	return reconcile.Request{}, false
}

// flows implements heap.Interface.
type flows []*flow

func (f *flows) Len() int { return len(*f) }
func (f *flows) Less(i, j int) bool {
	one, other := (*f)[i], (*f)[j]
	if one.used.time != other.used.time {
		return one.used.time < other.used.time
	}
	return one.turn < other.turn
}
func (f *flows) Swap(i, j int) {
	(*f)[i], (*f)[j] = (*f)[j], (*f)[i]
	(*f)[i].index, (*f)[j].index = i, j
}
func (f *flows) Push(x any) {
	one := x.(*flow)
	one.index = len(*f)
	*f = append(*f, one)
}
func (f *flows) Pop() any {
	last := len(*f) - 1
	one := (*f)[last]
	(*f)[last] = nil
	*f = (*f)[:last]
	return one
}

// flowOf returns the flow of a request. The slash distinguishes a namespace from a name.
func flowOf(request reconcile.Request) string {
	if request.Namespace == "" {
		return "/" + request.Name
	}
	return request.Namespace
}
