package storagebucket

import (
	"fmt"
	"slices"
	"sync"
	"testing"

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
func acquireAll(l *endpointLimiter, namespace string, n int, endpoint func(int) string, proven bool) int {
	acquired := 0
	for i := range n {
		if l.Acquire(requestIn(namespace, i), endpoint(i), proven) {
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
		"a namespace with unproven endpoints": {8,
			func(l *endpointLimiter) int { return acquireAll(l, "a", 40, darkHost, false) }, 2},
		"a namespace with proven endpoints": {8,
			func(l *endpointLimiter) int { return acquireAll(l, "a", 40, darkHost, true) }, 6},
		"an unproven endpoint": {8, func(l *endpointLimiter) int {
			return acquireAll(l, "a", 1, same("http://dark"), false) + acquireAll(l, "b", 40, same("http://dark"), false)
		}, 2},
		"a proven endpoint": {8, func(l *endpointLimiter) int {
			return acquireAll(l, "a", 4, same("http://good"), true) + acquireAll(l, "b", 40, same("http://good"), true)
		}, 6},
		"many namespaces with unproven endpoints": {8, func(l *endpointLimiter) int {
			n := 0
			for i := range 40 {
				n += acquireAll(l, fmt.Sprint(i), 1, func(int) string { return darkHost(i) }, false)
			}
			return n
		}, 6},
		"all": {8, func(l *endpointLimiter) int {
			return acquireAll(l, "a", 40, darkHost, true) + acquireAll(l, "b", 40, darkHost, true) +
				acquireAll(l, "c", 1, darkHost, true)
		}, 8},
		"the only worker": {1, func(l *endpointLimiter) int { return acquireAll(l, "a", 3, same("http://e"), false) }, 1},
		"two workers":     {2, func(l *endpointLimiter) int { return acquireAll(l, "a", 3, darkHost, false) }, 1},
	} {
		if got := tc.come(newEndpointLimiter(tc.workers)); got != tc.want {
			t.Errorf("%s: %d slots, want %d", name, got, tc.want)
		}
	}
}

func TestDarkEndpointsLeaveSlotsToOtherNamespaces(t *testing.T) {
	l := newEndpointLimiter(shippedWorkers)
	acquireAll(l, "dark", 1000, darkHost, false)
	if !l.Acquire(requestIn("new", 0), "http://s3", false) {
		t.Error("the first request of another namespace has to wait")
	}
	if got := acquireAll(l, "well", 40, same("http://s3.example.com"), true); got != 5 {
		t.Errorf("%d slots for a namespace with a proven endpoint, want the remaining 5", got)
	}
}

func TestSlotsRotateBetweenNamespacesAndEndpoints(t *testing.T) {
	l, woken := limiterWithWakes(3) // one slot for unproven endpoints
	acquireAll(l, "a", 1, same("http://first"), false)
	for i := 1; i < 5; i++ {
		l.Acquire(requestIn("a", i), []string{"http://x", "http://y"}[i%2], false)
	}
	acquireAll(l, "b", 1, same("http://b"), false)
	acquireAll(l, "c", 2, same("http://c"), false)
	current := requestIn("a", 0)
	for range 7 {
		seen := len(*woken)
		l.Release(current, outcomeSlow)
		if len(*woken) != seen+1 {
			t.Fatalf("%q were woken by one slot", (*woken)[seen:])
		}
		for r, s := range l.slots {
			current = r
			if !l.Granted(r) || !l.Acquire(r, s.endpoint, false) || l.Granted(r) {
				t.Fatalf("%v was granted a slot and does not get it", r)
			}
		}
	}
	if diff := cmp.Diff([]string{"a/1", "b/0", "c/0", "a/2", "c/1", "a/3", "a/4"}, *woken); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// Proven endpoints of a namespace do not starve its unproven ones.
func TestProvenAndUnprovenEndpointsAlternate(t *testing.T) {
	l, woken := limiterWithWakes(1)
	acquireAll(l, "a", 3, same("http://known"), true)
	for i := 3; i < 5; i++ {
		l.Acquire(requestIn("a", i), "http://new", false)
	}
	for i, next := 0, requestIn("a", 0); i < 4; i++ {
		l.Release(next, outcomeUnknown)
		for r := range l.slots {
			next = r
		}
		l.Acquire(next, l.slots[next].endpoint, false)
	}
	if diff := cmp.Diff([]string{"a/1", "a/3", "a/2", "a/4"}, *woken); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestEndpointIsProvenByLastResponse(t *testing.T) {
	l, woken := limiterWithWakes(shippedWorkers)
	if got := acquireAll(l, "a", 20, same("http://e"), false); got != 2 {
		t.Fatalf("%d slots, want 2", got)
	}
	l.Release(requestIn("a", 0), outcomeSlow)
	if len(*woken) != 1 {
		t.Errorf("%d woken by the one slot that is free", len(*woken))
	}
	l.Release(requestIn("a", 1), outcomePrompt)
	if len(*woken) != 6 { // five more beside the one that was granted
		t.Errorf("%d woken once it answered, want 6", len(*woken))
	}
	for i := 2; i < 8; i++ {
		l.Acquire(requestIn("a", i), "http://e", false)
		l.Release(requestIn("a", i), outcomeUnknown) // there were no credentials
	}
	if len(*woken) != 12 {
		t.Errorf("%d woken, want 12: nothing was sent, so the endpoint is still proven", len(*woken))
	}
	*woken = nil
	l.Acquire(requestIn("a", 8), "http://e", false)
	l.Release(requestIn("a", 8), outcomeSlow)
	if len(*woken) != 0 || l.Acquire(requestIn("b", 0), "http://e", true) {
		t.Error("a slot beside five others at a proven endpoint no more")
	}
}

func TestGrantedSlotCanBeReturned(t *testing.T) {
	l, woken := limiterWithWakes(1)
	acquireAll(l, "a", 3, darkHost, false)
	l.Return(requestIn("a", 0)) // in use, so it is released and not returned
	l.Release(requestIn("a", 0), outcomePrompt)
	if !l.Pending(requestIn("a", 1)) || !l.Granted(requestIn("a", 1)) || l.Pending(requestIn("a", 0)) {
		t.Fatalf("woken %q, want the second to have a slot", *woken)
	}
	l.Return(requestIn("a", 1)) // for example because it was deleted
	if !l.Granted(requestIn("a", 2)) || l.Pending(requestIn("a", 1)) {
		t.Errorf("woken %q, want the third to have the slot", *woken)
	}
	// The spec has another endpoint since.
	if !l.Acquire(requestIn("a", 2), "http://other", false) {
		t.Error("the slot at another endpoint is not free")
	}
	if at := l.slots[requestIn("a", 2)].endpoint; at != "other:80" {
		t.Errorf("the slot is counted at %s", at)
	}
	l.Release(requestIn("a", 2), outcomePrompt)
	if len(l.slots)+len(l.parked)+len(l.endpoints)+len(l.namespaces)+len(l.turns)+l.unproven != 0 {
		t.Errorf("state remains: %+v", l)
	}
}

func TestParkedRequestFollowsItsEndpoint(t *testing.T) {
	l, _ := limiterWithWakes(shippedWorkers)
	acquireAll(l, "a", 2, same("http://dark"), false)
	for range 2 { // parked, and requested again
		if l.Acquire(requestIn("b", 0), "http://dark", false) {
			t.Fatal("a third slot at the endpoint")
		}
	}
	if !l.Acquire(requestIn("b", 0), "http://other", false) {
		t.Error("parked at an endpoint that its spec does not name any more")
	}
}

// A parked request that is queued again, as by a change of its StorageBucket, keeps its place.
func TestParkedRequestKeepsItsPlace(t *testing.T) {
	l, woken := limiterWithWakes(1)
	acquireAll(l, "a", 3, same("http://e"), true)
	for range 2 {
		l.Acquire(requestIn("a", 1), "http://e", true)
	}
	l.Release(requestIn("a", 0), outcomePrompt)
	if diff := cmp.Diff([]string{"a/1"}, *woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestEndpointIsNormalized(t *testing.T) {
	l := newEndpointLimiter(shippedWorkers)
	spelled := []string{"http://dark", "http://dark/", "http://DARK", "http://dark:80"}
	acquired := 0
	for i, endpoint := range spelled {
		if l.Acquire(requestIn(fmt.Sprint(i), i), endpoint, false) {
			acquired++
		}
	}
	if acquired != maxUnproven {
		t.Errorf("%d slots by other spellings, want %d", acquired, maxUnproven)
	}
	if !l.Acquire(requestIn("z", 9), "https://dark", false) {
		t.Error("another port is another endpoint")
	}
}

// For any sequence of requests the bounds hold, no parked request could have a slot, and no state
// of released requests is kept.
func TestLimiterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 10).Draw(t, "workers")
		l, woken := limiterWithWakes(workers)
		var active []reconcile.Request
		endpoints := map[reconcile.Request]string{}
		draw := func(t *rapid.T) (reconcile.Request, string) {
			r := requestIn(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), rapid.IntRange(0, 9).Draw(t, "name"))
			return r, "http://" + rapid.SampledFrom([]string{"v", "w", "x", "y", "z"}).Draw(t, "endpoint")
		}
		acquire := func(r reconcile.Request, endpoint string, proven bool) {
			if slices.Contains(active, r) {
				return // the queue never gives a request to two workers
			}
			if len(active) >= workers {
				return // there are no more workers
			}
			if l.Acquire(r, endpoint, proven) {
				active = append(active, r)
				endpoints[r] = endpoint
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				r, endpoint := draw(t)
				acquire(r, endpoint, rapid.Bool().Draw(t, "proven"))
			},
			"come when woken": func(*rapid.T) {
				if len(*woken) == 0 {
					return
				}
				name := (*woken)[0]
				*woken = (*woken)[1:]
				for r, s := range l.slots {
					if r.String() == name && !s.acquired {
						acquire(r, s.endpoint, false)
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
				l.Release(r, rapid.SampledFrom([]outcome{outcomeUnknown, outcomePrompt, outcomeSlow}).Draw(t, "shown"))
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
	unproven, byNamespace, byEndpoint := 0, map[string]int{}, map[string]int{}
	for r, s := range l.slots {
		byNamespace[r.Namespace]++
		byEndpoint[s.endpoint]++
		if !s.proven {
			unproven++
			byNamespace["unproven "+r.Namespace]++
			byEndpoint["unproven "+s.endpoint]++
		}
		if s.acquired != slices.Contains(active, r) {
			t.Fatalf("%v has the slot %+v, active are %v", r, *s, active)
		}
	}
	most := func(counts map[string]int, prefix string) int {
		n := 0
		for name, count := range counts {
			if len(name) > len(prefix) && name[:len(prefix)] == prefix {
				n = max(n, count)
			}
		}
		return n
	}
	if len(l.slots) > l.workers || unproven > l.share || unproven != l.unproven ||
		most(byNamespace, "") > l.share || most(byEndpoint, "") > l.share ||
		most(byNamespace, "unproven ") > maxUnproven || most(byEndpoint, "unproven ") > maxUnproven {
		t.Fatalf("slots %v of %d workers, %d unproven; by namespace %v, by endpoint %v", l.slots, l.workers, unproven,
			byNamespace, byEndpoint)
	}
	for r, at := range l.parked {
		if l.admits(r, at) {
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

// Workers and the ticker share the limiter. This test is for the race detector.
func TestLimiterIsSafeForConcurrentUse(*testing.T) {
	l := newEndpointLimiter(shippedWorkers)
	l.wake = func(reconcile.Request) {}
	var workers sync.WaitGroup
	for i := range shippedWorkers {
		workers.Go(func() {
			for j := range 200 {
				r := requestIn(fmt.Sprint(i%3), 200*i+j) // no two workers have the same object
				l.Pending(r)
				l.Granted(r)
				if l.Acquire(r, darkHost(j%5), j%2 == 0) {
					l.Release(r, outcomePrompt)
				}
				l.Return(r)
			}
		})
	}
	workers.Wait()
}
