package storagebucket

import (
	"net"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// shy is how many workers may be with an endpoint that is not known to answer.
const shy = 2

// lanes lets workers to the endpoints, so that one which swallows every request,
// with however many buckets, never holds all of them: those for whom there is
// no place are set aside and called when there is one.
type lanes struct {
	// places is how many workers may be with one endpoint that answers.
	places int
	// call puts a request back into the queue.
	call func(reconcile.Request)

	mu   sync.Mutex
	open map[string]*lane // by endpoint; only those in use
}

// lane is the way to one endpoint while somebody is on it, or waits for it.
type lane struct {
	inside int
	// answers: the endpoint answered the last who left.
	answers bool
	waiting sets.Set[reconcile.Request]
}

// newLanes leaves some of the workers to the other endpoints.
func newLanes(workers int) *lanes {
	return &lanes{places: max(1, workers-shy), call: func(reconcile.Request) {}, open: map[string]*lane{}}
}

// free is how many places there are on a lane.
func (l *lanes) free(way *lane) int {
	if way.answers {
		return l.places - way.inside
	}
	return min(shy, l.places) - way.inside
}

// enter takes a place, which has to be left again, or sets the request aside.
func (l *lanes) enter(endpoint string, who reconcile.Request) bool {
	endpoint = server(endpoint)
	l.mu.Lock()
	defer l.mu.Unlock()
	way, ok := l.open[endpoint]
	if !ok {
		way = &lane{waiting: sets.New[reconcile.Request]()}
		l.open[endpoint] = way
	}
	if l.free(way) <= 0 {
		way.waiting.Insert(who)
		return false
	}
	way.waiting.Delete(who)
	way.inside++
	return true
}

// leave gives the place back and calls those for whom there is one now. asked
// tells whether the endpoint was asked anything, answered whether it did.
func (l *lanes) leave(endpoint string, asked, answered bool) {
	endpoint = server(endpoint)
	l.mu.Lock()
	way := l.open[endpoint]
	way.inside--
	if asked {
		way.answers = answered
	}
	var called []reconcile.Request
	for range l.free(way) {
		if who, some := way.waiting.PopAny(); some {
			called = append(called, who)
		}
	}
	// Who was called may never come. With nobody inside, nobody would call those
	// who are left; the next tick finds them.
	if way.inside == 0 {
		delete(l.open, endpoint)
	}
	l.mu.Unlock()
	for _, who := range called {
		l.call(who)
	}
}

// aside reports whether a request waits and will be called.
func (l *lanes) aside(endpoint string, who reconcile.Request) bool {
	endpoint = server(endpoint)
	l.mu.Lock()
	defer l.mu.Unlock()
	way, ok := l.open[endpoint]
	return ok && way.waiting.Has(who)
}

// server is the host and port of an endpoint, which can be spelled in many ways.
func server(endpoint string) string {
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
