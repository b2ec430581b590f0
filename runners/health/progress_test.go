package health_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const stuckAfter = 5 * time.Minute

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// bench is one real controller with a queue that a Progress observes. The reconciler blocks on the
// request "hung" until released, and panics on "panic".
type bench struct {
	progress *health.Progress
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
	release  chan struct{}
	start    func() // elects: runs the workers
	stop     func() // shuts the queue down and waits for the workers
}

func newBench(t *testing.T, progress *health.Progress, name string, workers int) *bench {
	t.Helper()
	b := &bench{progress: progress, release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	skip, warm := true, true
	c, err := controller.NewUnmanaged(name, controller.Options{
		SkipNameValidation:      &skip,
		EnableWarmup:            &warm,
		MaxConcurrentReconciles: workers,
		Reconciler: reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			switch r.Name {
			case "hung":
				<-b.release
			case "panic":
				panic("on purpose")
			case "fails":
				return reconcile.Result{}, reconcile.TerminalError(errors.New("on purpose"))
			}
			return reconcile.Result{}, nil
		}),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			b.queue = progress.NewQueue(name, limiter)
			return b.queue
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// A standby warms up: queue and sources exist, no worker runs.
	if err := c.(interface{ Warmup(context.Context) error }).Warmup(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	started := false
	b.start = func() {
		started = true
		go func() { defer close(done); _ = c.Start(ctx) }()
		synctest.Wait()
	}
	b.stop = func() {
		cancel()
		if started {
			<-done
		}
		synctest.Wait()
	}
	t.Cleanup(func() {
		close(b.release)
		b.stop()
	})
	return b
}

func (b *bench) add(names ...string) {
	for _, name := range names {
		b.queue.Add(request(name))
	}
	synctest.Wait()
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestProgress(t *testing.T) {
	cases := map[string]struct {
		reason  string
		workers int
		act     func(b *bench)
		want    []string // parts of the error; none: the check passes
	}{
		"Idle": {
			reason: "no work is no failure, however long it lasts",
			act:    func(b *bench) { b.start(); b.add("a"); wait(time.Hour) },
		},
		"FirstWorkAfterIdle": {
			reason: "the time without work does not count",
			act: func(b *bench) {
				b.start()
				b.add("a")
				wait(time.Hour)
				b.add("hung", "b")
			},
		},
		"Standby": {
			reason: "a warmed-up queue without workers waits for election, not for a worker",
			act:    func(b *bench) { b.add("a", "b"); wait(time.Hour) },
		},
		"JustElected": {
			reason: "time on standby does not count after election",
			act: func(b *bench) {
				b.add("hung", "b")
				wait(time.Hour)
				b.start()
				wait(stuckAfter)
			},
		},
		"HungWithWorkBehind": {
			reason: "the only worker hangs and something waits behind it",
			act: func(b *bench) {
				b.start()
				b.add("hung", "b", "c")
				wait(stuckAfter + time.Second)
			},
			want: []string{"controller bench", `"/hung"`, "5m1s", "limit 5m0s", "2 more queued"},
		},
		"HungWithItselfBehind": {
			reason: "the same object changed again and waits for its own reconcile",
			act: func(b *bench) {
				b.start()
				b.add("hung")
				b.add("hung")
				wait(stuckAfter + time.Second)
			},
			want: []string{"1 more queued"},
		},
		"HungWithNothingBehind": {
			reason: "nothing waits for it",
			act:    func(b *bench) { b.start(); b.add("hung"); wait(time.Hour) },
		},
		"HungBesideAFreeWorker": {
			reason:  "the other worker takes what is queued",
			workers: 2,
			act: func(b *bench) {
				b.start()
				b.add("hung", "b", "c")
				wait(time.Hour)
			},
		},
		"JustInTime": {
			reason: "exactly the allowed time passes",
			act:    func(b *bench) { b.start(); b.add("hung", "b"); wait(stuckAfter) },
		},
		"PanicsAreFinished": {
			reason: "a panicking reconcile frees its worker and is not counted as running",
			act: func(b *bench) {
				b.start()
				b.add("panic")
				wait(time.Hour)
				b.add("panic", "b")
				wait(time.Second)
			},
		},
		"ErrorsAreFinished": {
			reason: "a failing reconcile frees its worker",
			act:    func(b *bench) { b.start(); b.add("fails"); wait(time.Hour); b.add("hung", "b") },
		},
		"Recovered": {
			reason: "the hung reconcile returned and the rest was worked off",
			act: func(b *bench) {
				b.start()
				b.add("hung", "b")
				wait(stuckAfter + time.Second)
				b.release <- struct{}{}
				synctest.Wait()
			},
		},
		"ShutDown": {
			reason: "what is left in a stopped queue is the next leader's",
			act: func(b *bench) {
				b.start()
				b.add("a")
				b.stop()
				b.add("b")
				wait(time.Hour)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				progress := health.NewProgress(stuckAfter, clock.RealClock{})
				b := newBench(t, progress, "bench", max(tc.workers, 1))
				tc.act(b)
				checkError(t, tc.reason, progress.Check(nil), tc.want)
			})
		})
	}
}

func checkError(t *testing.T, reason string, err error, parts []string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Errorf("%s: Check() = %v, want nil", reason, err)
		}
		return
	}
	if err == nil {
		t.Fatalf("%s: Check() = nil, want an error with %q", reason, parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: Check() = %q, want it to contain %q", reason, err, part)
		}
	}
}

// Of two workers that hang, the one that has hung longer counts.
func TestProgress_oldest_reconcile_counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := health.NewProgress(stuckAfter, clock.RealClock{})
		b := newBench(t, progress, "bench", 2)
		b.start()
		b.add("hung")
		wait(stuckAfter)
		b.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "later", Name: "hung"}})
		b.add("b")
		wait(time.Second)
		checkError(t, "two hang", progress.Check(nil), []string{`"/hung"`, "5m1s", "1 more queued"})
	})
}

// After its first call a worker does not call again: requests wait although no reconcile runs.
func TestProgress_no_request_taken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := health.NewProgress(stuckAfter, clock.RealClock{})
		queue := progress.NewQueue("gone",
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
		defer queue.ShutDown()
		queue.Add(request("a"))
		item, _ := queue.Get()
		queue.Done(item)
		queue.Add(request("b"))

		checkError(t, "the first look only starts the count", progress.Check(nil), nil)
		wait(stuckAfter)
		checkError(t, "exactly the allowed time", progress.Check(nil), nil)
		wait(time.Second)
		checkError(t, "longer than allowed", progress.Check(nil),
			[]string{"controller gone", "no worker has started a reconcile for 5m1s", "1 queued"})

		item, _ = queue.Get()
		queue.Done(item)
		checkError(t, "taken at last", progress.Check(nil), nil)
		wait(time.Hour)
		queue.Add(request("c"))
		checkError(t, "the idle hour does not count", progress.Check(nil), nil)
	})
}

// The remaining requests of a stopped queue wait for the next leader, however long and however
// often Check runs. Without the shutdown they wait for a worker.
func TestProgress_ignores_stopped_queue(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			progress := health.NewProgress(stuckAfter, clock.RealClock{})
			queue := progress.NewQueue("stopped",
				workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
			defer queue.ShutDown()
			queue.Add(request("a"))
			item, _ := queue.Get()
			queue.Done(item)
			queue.Add(request("left"))
			if stopped {
				queue.ShutDown()
				if item, shutdown := queue.Get(); !shutdown {
					t.Errorf("a stopped queue handed out %v", item)
				}
			}
			checkError(t, "the first look", progress.Check(nil), nil)
			wait(stuckAfter + time.Second)
			var want []string
			if !stopped {
				want = []string{"no worker has started a reconcile", "1 queued"}
			}
			checkError(t, "after longer than allowed", progress.Check(nil), want)
			if states := progress.Controllers(); len(states) != 1 || states[0].Working == stopped {
				t.Errorf("stopped: %t, and the page shows %+v", stopped, states)
			}
		})
	}
}

// A queue that is never empty, though its workers make progress, is no failure at any time. The
// time without progress begins with the last request that was taken.
func TestProgress_busy_queue_is_not_stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := health.NewProgress(stuckAfter, clock.RealClock{})
		queue := progress.NewQueue("busy",
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
		defer queue.ShutDown()
		queue.Add(request("a"))
		for i := range 20 {
			queue.Add(request(fmt.Sprint(i)))
			item, _ := queue.Get()
			queue.Done(item)
			checkError(t, "between two items", progress.Check(nil), nil)
			wait(stuckAfter / 2)
		}
		wait(stuckAfter / 2)
		checkError(t, "exactly the allowed time after the last take", progress.Check(nil), nil)
		wait(time.Second)
		checkError(t, "longer than that", progress.Check(nil),
			[]string{"no worker has started a reconcile for 5m1s", "1 queued"})
	})
}

func TestProgress_names_each_stuck_controller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := health.NewProgress(stuckAfter, clock.RealClock{})
		for _, name := range []string{"alpha", "beta"} {
			b := newBench(t, progress, name, 1)
			b.start()
			b.add("hung", "b")
		}
		well := newBench(t, progress, "gamma", 1)
		well.start()
		well.add("a")
		wait(stuckAfter + time.Second)

		err := progress.Check(nil)
		checkError(t, "two of three hang", err, []string{"controller alpha", "controller beta"})
		if strings.Contains(err.Error(), "gamma") {
			t.Errorf("Check() = %q names a controller that gets on", err)
		}
	})
}

func TestProgress_nil_returns_plain_queue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress *health.Progress
		queue := progress.NewQueue("plain", nil)
		defer queue.ShutDown()
		queue.Add(request("a"))
		if item, _ := queue.Get(); item != request("a") {
			t.Errorf("Get() = %v, want what was added", item)
		}
	})
}
