package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// flow is a client of one webhook. The address of the API server differs from that of an attacker,
// unless the attacker runs on the API server's host.
type flow struct{ host, path string }

// turns shares bytes among flows: between two requests of a flow it serves one of every other
// waiting flow.
type turns struct {
	mu      sync.Mutex
	free    int64
	order   []flow // that have waiting requests
	waiting map[flow][]*turn
}

type turn struct {
	bytes   int64
	granted chan struct{}
}

func newTurns(bytes int64) *turns { return &turns{free: bytes, waiting: map[flow][]*turn{}} }

// acquire waits for the bytes. It returns an error when ctx ends before.
func (t *turns) acquire(ctx context.Context, f flow, bytes int64) error {
	mine := &turn{bytes: bytes, granted: make(chan struct{})}
	t.mu.Lock()
	if len(t.waiting[f]) == 0 {
		t.order = append(t.order, f)
	}
	t.waiting[f] = append(t.waiting[f], mine)
	t.grant()
	t.mu.Unlock()
	select {
	case <-mine.granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine.granted: // meanwhile
		return nil
	default:
	}
	t.waiting[f] = slices.DeleteFunc(t.waiting[f], func(other *turn) bool { return other == mine })
	if len(t.waiting[f]) == 0 {
		t.drop(f)
	}
	t.grant() // the next one may need fewer bytes
	return ctx.Err()
}

// release returns the bytes.
func (t *turns) release(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += bytes
	t.grant()
}

// share returns the time for which a client that stalls may hold its bytes. It becomes shorter with
// the number of waiting flows.
func (t *turns) share() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(heldTimeout/time.Duration(1+len(t.order)), leastTimeout)
}

// grant serves the flows in order. It does not skip a request that needs more than is free: smaller
// ones would delay it for ever.
func (t *turns) grant() {
	for len(t.order) > 0 {
		f := t.order[0]
		next := t.waiting[f][0]
		if next.bytes > t.free {
			return
		}
		t.free -= next.bytes
		close(next.granted)
		t.order = append(t.order[1:], f)
		if t.waiting[f] = t.waiting[f][1:]; len(t.waiting[f]) == 0 {
			t.drop(f)
		}
	}
}

func (t *turns) drop(f flow) {
	delete(t.waiting, f)
	t.order = slices.DeleteFunc(t.order, func(other flow) bool { return other == f })
}
