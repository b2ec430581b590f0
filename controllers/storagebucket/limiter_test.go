package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const shippedWorkers = 8

func requestIn(namespace string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}}
}

// darkHost returns a separate endpoint for each number.
func darkHost(i int) string { return fmt.Sprintf("http://dark-%d", i) }

// acquireAll acquires slots for n requests of a namespace, and returns how many got one.
func acquireAll(l *endpointLimiter, namespace string, n int, endpoint func(int) string) int {
	acquired := 0
	for i := range n {
		if l.Acquire(requestIn(namespace, i), endpoint(i)) {
			acquired++
		}
	}
	return acquired
}

func same(endpoint string) func(int) string { return func(int) string { return endpoint } }

// limiterWithWakes returns a limiter and the requests that it wakes.
func limiterWithWakes(workers int) (*endpointLimiter, *[]string) {
	l, woken := newEndpointLimiter(workers), &[]string{}
	l.wake = func(r reconcile.Request) { *woken = append(*woken, r.String()) }
	return l, woken
}

func TestLimiterBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		workers int
		come    func(l *endpointLimiter) int
		want    int
	}{
		"a namespace": {8, func(l *endpointLimiter) int { return acquireAll(l, "a", 40, darkHost) }, 2},
		"an endpoint": {8, func(l *endpointLimiter) int {
			return acquireAll(l, "a", 1, same("http://dark")) + acquireAll(l, "b", 40, same("http://dark"))
		}, 2},
		"many namespaces": {8, func(l *endpointLimiter) int {
			n := 0
			for i := range 40 {
				n += acquireAll(l, fmt.Sprint(i), 1, func(int) string { return darkHost(i) })
			}
			return n
		}, 6},
		"the only worker": {1, func(l *endpointLimiter) int { return acquireAll(l, "a", 3, darkHost) }, 1},
		"two workers":     {2, func(l *endpointLimiter) int { return acquireAll(l, "a", 3, darkHost) }, 1},
		"three workers":   {3, func(l *endpointLimiter) int { return acquireAll(l, "a", 3, darkHost) }, 1},
	} {
		if got := tc.come(newEndpointLimiter(tc.workers)); got != tc.want {
			t.Errorf("%s: %d slots, want %d", name, got, tc.want)
		}
	}
}

func TestSlotsRotateBetweenNamespacesAndEndpoints(t *testing.T) {
	l, woken := limiterWithWakes(3) // one slot
	acquireAll(l, "a", 1, same("http://first"))
	for i := 1; i < 5; i++ {
		l.Acquire(requestIn("a", i), []string{"http://x", "http://y"}[i/3])
	}
	acquireAll(l, "b", 1, same("http://b"))
	acquireAll(l, "c", 2, same("http://c"))
	current := requestIn("a", 0)
	for range 7 {
		seen := len(*woken)
		l.Release(current)
		if len(*woken) != seen+1 {
			t.Fatalf("%q were woken by one slot", (*woken)[seen:])
		}
		for r, s := range l.slots {
			current = r
			if !l.Granted(r) || !l.Acquire(r, s.endpoint) || l.Granted(r) {
				t.Fatalf("%v was granted a slot and does not get it", r)
			}
		}
	}
	if diff := cmp.Diff([]string{"a/1", "b/0", "c/0", "a/3", "c/1", "a/2", "a/4"}, *woken); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// Three namespaces hold all slots for as long as they can. One that has none gets the next free slot.
func TestNamespaceWithoutSlotsIsFirst(t *testing.T) {
	l, woken := limiterWithWakes(shippedWorkers)
	for i, hostile := range []string{"a", "b", "c"} {
		acquireAll(l, hostile, 20, func(n int) string { return darkHost(100*i + n) })
	}
	l.Acquire(requestIn("honest", 0), "http://honest")
	l.Release(requestIn("a", 0))
	if diff := cmp.Diff([]string{"honest/0"}, *woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestGrantedSlotCanBeReturned(t *testing.T) {
	l, woken := limiterWithWakes(1)
	acquireAll(l, "a", 3, darkHost)
	l.Return(requestIn("a", 0)) // in use, so it is released and not returned
	l.Release(requestIn("a", 0))
	if !l.Pending(requestIn("a", 1)) || !l.Granted(requestIn("a", 1)) || l.Pending(requestIn("a", 0)) {
		t.Fatalf("woken %q, want the second to have a slot", *woken)
	}
	l.Return(requestIn("a", 1)) // for example because it was deleted
	if !l.Granted(requestIn("a", 2)) || l.Pending(requestIn("a", 1)) {
		t.Errorf("woken %q, want the third to have the slot", *woken)
	}
	// The spec has another endpoint since.
	l.Release(requestIn("a", 2))
	if !l.Acquire(requestIn("a", 2), "http://other") {
		t.Error("the slot at another endpoint is not free")
	}
	if at := l.slots[requestIn("a", 2)].endpoint; at != "other:80" {
		t.Errorf("the slot is counted at %s", at)
	}
	l.Release(requestIn("a", 2))
	if len(l.slots)+len(l.parked)+len(l.endpoints)+len(l.namespaces)+len(l.turns) != 0 {
		t.Errorf("state remains: %+v", l)
	}
}

// A parked request that is queued again, as by a change of its StorageBucket, keeps its place. A
// released one leaves it.
func TestParkedRequestKeepsItsPlace(t *testing.T) {
	l, woken := limiterWithWakes(1)
	acquireAll(l, "a", 4, same("http://e"))
	for range 2 {
		l.Acquire(requestIn("a", 2), "http://e")
	}
	l.Release(requestIn("a", 1))
	l.Release(requestIn("z", 9)) // unknown
	l.Release(requestIn("a", 0))
	if diff := cmp.Diff([]string{"a/2"}, *woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestEndpointIsNormalized(t *testing.T) {
	l := newEndpointLimiter(shippedWorkers)
	acquired := 0
	for i, endpoint := range []string{"http://dark", "http://dark/", "http://DARK", "http://dark:80"} {
		acquired += acquireAll(l, fmt.Sprint(i), 1, same(endpoint))
	}
	if acquired != maxSlots {
		t.Errorf("%d slots by other spellings, want %d", acquired, maxSlots)
	}
	if !l.Acquire(requestIn("z", 9), "https://dark") {
		t.Error("another port is another endpoint")
	}
}

// A visit has two seconds. Then it continues with a slot, or its context ends and it is parked.
func TestVisitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, woken := limiterWithWakes(1)
		first, second, third := requestIn("a", 0), requestIn("a", 1), requestIn("a", 2)
		began := time.Now()
		long, endLong := l.Bound(t.Context(), first, darkHost(0))
		short, endShort := l.Bound(t.Context(), third, darkHost(2))
		<-time.After(soon - 1)
		if endShort() || short.Err() == nil || l.Pending(first) || l.Pending(third) {
			t.Error("a visit that ends in time is late, goes on, or needs a slot")
		}
		<-time.After(time.Second)
		bounded, endBounded := l.Bound(t.Context(), second, darkHost(1))
		<-bounded.Done()
		if took := time.Since(began); took != 2*soon+time.Second-1 || !errors.Is(context.Cause(bounded), errNoSlot) {
			t.Errorf("the second ended after %s: %v, want errNoSlot", took, context.Cause(bounded))
		}
		if long.Err() != nil || l.Granted(first) || !l.Pending(first) {
			t.Errorf("the first visit ended (%v) or has no slot", long.Err())
		}
		// The slot becomes free before the second visit has ended, and its request is queued again.
		if !endLong() {
			t.Error("the first visit was not late")
		}
		l.Release(first)
		if !endBounded() || !l.Acquire(second, darkHost(1)) {
			t.Error("the second was not late, or was granted no slot")
		}
		l.Suspend(second)
		if diff := cmp.Diff([]string{"a/1", "a/1"}, *woken); diff != "" || !l.Granted(second) {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
	})
}

// For any sequence of requests the bounds hold, no parked request could have a slot, and no state
// of released requests is kept.
func TestLimiterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 10).Draw(t, "workers")
		l, woken := limiterWithWakes(workers)
		var active []reconcile.Request
		draw := func(t *rapid.T) (reconcile.Request, string) {
			r := requestIn(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), rapid.IntRange(0, 9).Draw(t, "name"))
			return r, "http://" + rapid.SampledFrom([]string{"v", "w", "x", "y", "z"}).Draw(t, "endpoint")
		}
		acquire := func(r reconcile.Request, endpoint string) {
			if slices.Contains(active, r) {
				return // the queue never gives a request to two workers
			}
			if len(active) >= workers {
				return // there are no more workers
			}
			if l.Acquire(r, endpoint) {
				active = append(active, r)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) { acquire(draw(t)) },
			"come when woken": func(*rapid.T) {
				if len(*woken) == 0 {
					return
				}
				name := (*woken)[0]
				*woken = (*woken)[1:]
				for r, s := range l.slots {
					if r.String() == name && !s.acquired {
						acquire(r, s.endpoint)
						return
					}
				}
			},
			"release": func(t *rapid.T) {
				if len(active) == 0 {
					return
				}
				i := rapid.IntRange(0, len(active)-1).Draw(t, "which")
				r := active[i]
				active = slices.Delete(active, i, i+1)
				l.Release(r)
			},
			"suspend": func(t *rapid.T) {
				if len(active) == 0 {
					return
				}
				i := rapid.IntRange(0, len(active)-1).Draw(t, "which")
				l.Suspend(active[i])
				active = slices.Delete(active, i, i+1)
			},
			"leave": func(t *rapid.T) {
				if r, _ := draw(t); !slices.Contains(active, r) {
					l.Release(r)
				}
			},
			"return": func(t *rapid.T) {
				r, _ := draw(t)
				l.Return(r)
			},
			"": func(t *rapid.T) { checkBounds(t, l, active) },
		})
	})
}

func checkBounds(t *rapid.T, l *endpointLimiter, active []reconcile.Request) {
	byNamespace, byEndpoint := map[string]int{}, map[string]int{}
	for r, s := range l.slots {
		byNamespace[r.Namespace]++
		byEndpoint[s.endpoint]++
		if byNamespace[r.Namespace] > 2 || byEndpoint[s.endpoint] > 2 {
			t.Fatalf("slots %v: more than 2 of a namespace or an endpoint", l.slots)
		}
		if s.acquired != slices.Contains(active, r) {
			t.Fatalf("%v has the slot %+v, active are %v", r, *s, active)
		}
	}
	if len(l.slots) > max(1, l.total) {
		t.Fatalf("slots %v, want at most %d", l.slots, l.total)
	}
	for r, at := range l.parked {
		if len(l.slots) < l.total && byNamespace[r.Namespace] < 2 && byEndpoint[at] < 2 {
			t.Fatalf("%v is parked and could have a slot", r)
		}
		if _, both := l.slots[r]; both {
			t.Fatalf("%v is parked and has a slot", r)
		}
	}
	if len(l.namespaces) > 3 || len(l.endpoints) > 5 ||
		(len(l.slots)+len(l.parked) == 0 && len(l.namespaces)+len(l.endpoints)+len(l.turns) > 0) {
		t.Fatalf("state of released requests remains: %+v", l)
	}
}
