package fairqueue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const background = -100 // handler.LowPriority

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func opts(priority int, after time.Duration) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &priority, After: after}
}

// serve takes and finishes n requests, and returns them in the order of service.
func serve(q priorityqueue.PriorityQueue[reconcile.Request], n int) []string {
	var served []string
	for range n {
		r, _, _ := q.GetWithPriority()
		q.Done(r)
		served = append(served, r.String())
	}
	return served
}

func inBubble(t *testing.T, test func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := New("test", nil)
		defer q.ShutDown()
		test(t, q)
	})
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// One user updates 1,000 objects. A change by another user after that is served next but one.
func TestBacklogOfOneNamespaceDoesNotDelayAnother(t *testing.T) {
	for name, add := range map[string]func(priorityqueue.PriorityQueue[reconcile.Request], reconcile.Request){
		"added": func(q priorityqueue.PriorityQueue[reconcile.Request], r reconcile.Request) { q.Add(r) },
		"delayed": func(q priorityqueue.PriorityQueue[reconcile.Request], r reconcile.Request) {
			q.AddAfter(r, time.Second)
		},
		"failed": func(q priorityqueue.PriorityQueue[reconcile.Request], r reconcile.Request) { q.AddRateLimited(r) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
				t.Helper()
				for i := range 1000 {
					add(q, request("noisy", fmt.Sprint(i)))
				}
				wait(time.Second)
				q.Add(request("quiet", "a"))
				q.Add(request("quiet", "b"))
				got := serve(q, 4)
				if got[1] != "quiet/a" || got[3] != "quiet/b" {
					t.Errorf("served %q, want every second one of the quiet namespace", got)
				}
				if left := q.Len(); left != 998 {
					t.Errorf("%d requests left, want 998", left)
				}
			})
		})
	}
}

func TestObjectsWithoutNamespaceAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		for _, name := range []string{"c", "a", "b", "a"} {
			q.Add(request("", name))
		}
		first, _, _ := q.GetWithPriority()
		for range 100 {
			q.Add(first) // added again and again while it is reconciled
		}
		q.Done(first)
		if diff := cmp.Diff([]string{"/a", "/b", "/c"}, serve(q, 3)); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestBackgroundRequestsYieldAndDoNotStarve(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		// Foreground requests that are served while no background request waits do not count.
		for i := range 7 {
			q.Add(request("earlier", fmt.Sprint(i)))
		}
		serve(q, 7)
		q.AddWithOpts(opts(background, 0), request("old", "a"), request("old", "b"), request("older", "c"))
		for i := range 10 {
			q.Add(request("busy", fmt.Sprint(i)))
		}
		want := []string{
			"busy/0", "busy/1", "busy/2", "busy/3", "old/a", "busy/4", "busy/5", "busy/6", "busy/7", "older/c", "busy/8",
			"busy/9", "old/b",
		}
		if diff := cmp.Diff(want, serve(q, 13)); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestHigherPriorityReplacesLower(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		q.AddWithOpts(opts(background, 0), request("n", "a"), request("n", "b"), request("n", "c"))
		q.Add(request("n", "b")) // a change of an object from the initial list
		q.AddWithOpts(opts(background, 0), request("n", "b"))
		for _, want := range []struct {
			name     string
			priority int
		}{{"b", 0}, {"a", background}, {"c", background}} {
			r, priority, _ := q.GetWithPriority()
			if r.Name != want.name || priority != want.priority {
				t.Errorf("got %s with priority %d, want %v", r.Name, priority, want)
			}
			q.AddWithOpts(opts(priority, time.Hour), r) // as after a result with RequeueAfter
			q.Done(r)
		}
		wait(time.Hour)
		if r, priority, _ := q.GetWithPriority(); r.Name != "b" || priority != 0 {
			t.Errorf("after the delay: %s with priority %d, want b with its own", r.Name, priority)
		}
	})
}

func TestDelays(t *testing.T) {
	r := request("n", "a")
	type queue = priorityqueue.PriorityQueue[reconcile.Request]
	for name, tc := range map[string]struct {
		add  func(q queue)
		want []int // ready requests after 0, 1, 2, ... seconds, each taken at once
	}{
		"a delay": {func(q queue) { q.AddAfter(r, 2*time.Second) }, []int{0, 0, 1, 0}},
		"the shorter delay wins": {func(q queue) { q.AddAfter(r, 3*time.Second); q.AddAfter(r, time.Second) },
			[]int{0, 1, 0, 0}},
		"the longer delay loses": {func(q queue) { q.AddAfter(r, time.Second); q.AddAfter(r, 3*time.Second) },
			[]int{0, 1, 0, 0}},
		"ready replaces delayed": {func(q queue) { q.AddAfter(r, 2*time.Second); q.Add(r) }, []int{1, 0, 0, 0}},
		"delayed after ready":    {func(q queue) { q.Add(r); q.AddAfter(r, 2*time.Second) }, []int{1, 0, 0, 0}},
		"the shorter of delay and limit": {func(q queue) {
			q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, RateLimited: true}, r)
		}, []int{0, 1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New("test",
					workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute))
				defer q.ShutDown()
				tc.add(q)
				var got []int
				for range tc.want {
					synctest.Wait()
					got = append(got, q.Len())
					serve(q, q.Len())
					wait(time.Second)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("ready (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestBackoffGrowsUntilForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		r := request("n", "a")
		var waited []time.Duration
		for range 3 {
			began := time.Now()
			q.AddRateLimited(r)
			serve(q, 1)
			waited = append(waited, time.Since(began))
		}
		if q.NumRequeues(r) != 3 {
			t.Errorf("%d requeues, want 3", q.NumRequeues(r))
		}
		q.Forget(r)
		if q.NumRequeues(r) != 0 || cmp.Diff([]time.Duration{5, 10, 20}, []time.Duration{
			waited[0] / time.Millisecond, waited[1] / time.Millisecond, waited[2] / time.Millisecond,
		}) != "" {
			t.Errorf("waited %v and then %d requeues", waited, q.NumRequeues(r))
		}
	})
}

// The backoff of a failing request grows to the maximum of controller-runtime.
func TestBackoffIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		var waited time.Duration
		for range 25 {
			began := time.Now()
			q.AddRateLimited(request("n", "a"))
			serve(q, 1)
			waited = time.Since(began)
		}
		if waited != time.Minute {
			t.Errorf("after 25 failures it waits for %s, want 1m0s", waited)
		}
	})
}

func TestRequestIsTakenByOneWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		q.Add(request("n", "a"))
		r, _, _ := q.GetWithPriority()
		q.AddAfter(r, time.Hour)
		if q.Len() != 0 {
			t.Errorf("%d ready, want none before the delay has passed", q.Len())
		}
		q.Add(r)
		second := make(chan reconcile.Request)
		go func() {
			again, _, _ := q.GetWithPriority()
			second <- again
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("two workers have the same request")
		default:
		}
		if q.Len() != 1 {
			t.Errorf("%d ready, want the one that waits for itself", q.Len())
		}
		q.Done(r)
		if again := <-second; again != r {
			t.Errorf("got %v, want %v again", again, r)
		}
	})
}

// A stopped queue serves nothing more; the next leader reconciles the rest.
func TestShutDown_serves_nothing_more(t *testing.T) {
	inBubble(t, func(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) {
		t.Helper()
		stopped := make(chan error)
		q.AddAfter(request("n", "later"), time.Hour)
		go func() {
			if _, _, shutdown := q.GetWithPriority(); !shutdown {
				stopped <- errors.New("a worker that waits is not stopped")
			}
			close(stopped)
		}()
		synctest.Wait()
		q.ShutDownWithDrain()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		q.Add(request("n", "a"))
		wait(2 * time.Hour)
		if _, _, shutdown := q.GetWithPriority(); !shutdown || !q.ShuttingDown() {
			t.Error("a stopped queue serves")
		}
	})
}
