package storagebucket

import (
	"sync"
	"time"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

const (
	// slowLane is how many workers may wait at once for an endpoint that did not
	// answer the last time: an endpoint with many buckets that swallows every
	// request would otherwise take all workers from all others.
	slowLane = 2
	// slowFor is how long an endpoint is remembered for not having answered.
	slowFor = 10 * time.Minute
)

// lanes lets workers to the endpoints. The zero lanes is ready for use.
type lanes struct {
	mu   sync.Mutex
	open map[string]*lane // by endpoint; only those in use or slow
}

// lane is the way to one endpoint.
type lane struct {
	all      *lanes
	endpoint string
	inside   int
	slow     time.Time // when it last did not answer; zero if it did
}

// enter takes a place on the lane, to be left again, or tells that there is none
// free.
func (l *lanes) enter(endpoint string, now time.Time) (*lane, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	way, ok := l.open[endpoint]
	if !ok {
		way = &lane{all: l, endpoint: endpoint}
		if l.open == nil {
			l.open = map[string]*lane{}
		}
		l.open[endpoint] = way
	}
	if way.isSlow(now) && way.inside >= slowLane {
		return nil, false
	}
	way.inside++
	return way, true
}

// leave gives the place back and notes whether the endpoint answered.
func (w *lane) leave(found s3.Verdict, now time.Time) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.inside--
	w.slow = time.Time{}
	if found.Reason == v1beta1.ReasonProbeTimeout {
		w.slow = now
	}
	for endpoint, other := range w.all.open {
		if other.inside == 0 && !other.isSlow(now) {
			delete(w.all.open, endpoint)
		}
	}
}

func (w *lane) isSlow(now time.Time) bool {
	return !w.slow.IsZero() && now.Sub(w.slow) < slowFor
}
