package storagebucket

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
	"leasehold.dev/runners/fairqueue"
)

// fleetModel runs many buckets through the queue, the limiter and the schedule of probes, in the
// time of a synctest bubble. The workers and the rate limit of the API server are the defaults of
// the flags. Endpoints are functions.
type fleetModel struct {
	t       *testing.T
	mu      sync.Mutex
	buckets map[reconcile.Request]*modelBucket
	end     time.Time
}

type modelBucket struct {
	*v1beta1.StorageBucket
	answer func() (time.Duration, s3.Verdict)
	probes []time.Time // the end of each
	came   time.Time
}

// The endpoints of the model.
func timesOut() (time.Duration, s3.Verdict) {
	return 10 * time.Second, failed(v1beta1.ReasonProbeTimeout)
}
func returnsError() (time.Duration, s3.Verdict) {
	return time.Millisecond, failed(v1beta1.ReasonEndpointUnreachable)
}
func succeeds() (time.Duration, s3.Verdict) { return 20 * time.Millisecond, good }

// withoutSecret is no endpoint: the probe ends because the Secret is missing.
func withoutSecret() (time.Duration, s3.Verdict) { return 0, failed(v1beta1.ReasonCredentialsNotFound) }

func (f *fleetModel) add(namespace string, n int, answer func() (time.Duration, s3.Verdict)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		b := bucket(fmt.Sprint(i), every(10), func(b *v1beta1.StorageBucket) {
			b.Namespace, b.UID = namespace, types.UID(fmt.Sprintf("%s-%d", namespace, i))
			b.Spec.Endpoint = fmt.Sprintf("http://%s-%d", namespace, i)
		})
		f.buckets[requestFor(b)] = &modelBucket{StorageBucket: b, answer: answer, came: time.Now()}
	}
}

// run runs the workers for a duration.
func (f *fleetModel) run(ctx context.Context, d time.Duration) {
	var states probeStates
	limiter, queue := newEndpointLimiter(shippedWorkers), fairqueue.New("model", nil)
	limiter.wake = queue.Add
	secrets := flowcontrol.NewTokenBucketRateLimiter(50, 100)
	var workers sync.WaitGroup
	for range shippedWorkers {
		workers.Go(func() {
			for {
				req, _, shutdown := queue.GetWithPriority()
				if shutdown {
					return
				}
				f.mu.Lock()
				b := f.buckets[req]
				f.mu.Unlock()
				state := states.of(b.StorageBucket, time.Now())
				if !state.due(b.StorageBucket).After(time.Now()) &&
					limiter.Acquire(req, b.Spec.Endpoint, state.last == outcomePrompt) {
					if err := secrets.Wait(ctx); err != nil {
						f.t.Error(err)
					}
					took, result := b.answer()
					<-time.After(took)
					found := observation{took: took, lacking: took == 0}
					state = state.after(found, result, b.Generation, time.Now())
					if took > 0 {
						state.last = shownBy(found, result)
					}
					states.store(b.StorageBucket, state)
					limiter.Release(req, shownBy(found, result))
					f.mu.Lock()
					b.probes = append(b.probes, time.Now())
					f.mu.Unlock()
				}
				queue.Done(req)
			}
		})
	}
	for range int(d / time.Second) {
		f.mu.Lock()
		var due []reconcile.Request
		for req, b := range f.buckets {
			if at, met := states.when(b.StorageBucket); (!met || !at.After(time.Now())) && !limiter.Pending(req) {
				due = append(due, req)
			}
		}
		f.mu.Unlock()
		queue.AddWithOpts(priorityqueue.AddOpts{}, due...)
		<-time.After(time.Second)
	}
	f.end = time.Now()
	queue.ShutDown()
	workers.Wait()
}

// delays returns the longest time from the creation of a bucket of the namespace to its first
// probe, and from one probe to the next.
func (f *fleetModel) delays(namespace string) (first, later time.Duration) {
	for req, b := range f.buckets {
		if req.Namespace != namespace {
			continue
		}
		times := slices.Concat([]time.Time{b.came}, b.probes)
		if len(b.probes) == 0 || times[len(times)-1].Before(f.end) {
			times = append(times, f.end)
		}
		first = max(first, times[1].Sub(times[0]))
		for i := 2; i < len(times); i++ {
			later = max(later, times[i].Sub(times[i-1]))
		}
	}
	return first, later
}

// The buckets of one namespace do not delay those of another: these are probed at most one period
// late, and new ones within 10 s.
func TestNamespacesDoNotDelayEachOther(t *testing.T) {
	const period = 10 * time.Second
	for name, hostile := range map[string]func(*fleetModel){
		"1,000 black holes":                    func(f *fleetModel) { f.add("hostile", 1000, timesOut) },
		"2,000 that refuse":                    func(f *fleetModel) { f.add("hostile", 2000, returnsError) },
		"2,000 without a Secret":               func(f *fleetModel) { f.add("hostile", 2000, withoutSecret) },
		"1,000 that answer, 1,000 that do not": func(f *fleetModel) { f.add("hostile", 2000, halfDark()) },
		"1,000 that answer and then do not":    func(f *fleetModel) { f.add("hostile", 1000, unstable()) },
		"100 black holes in each of 2 namespaces": func(f *fleetModel) {
			f.add("hostile", 100, timesOut)
			f.add("hostile-2",
				100, timesOut)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleetModel{t: t, buckets: map[reconcile.Request]*modelBucket{}}
				hostile(f)
				f.add("honest", 50, succeeds)
				done := make(chan struct{})
				go func() { defer close(done); f.run(t.Context(), 3*time.Minute) }()
				<-time.After(time.Minute)
				f.add("new", 1, succeeds)
				<-done
				for namespace, most := range map[string]time.Duration{"honest": period, "new": 10 * time.Second} {
					first, later := f.delays(namespace)
					if first > most || later > 2*period {
						t.Errorf("%s: first probe after %s, want %s; then %s between two, want at most two periods", namespace,
							first, most, later)
					}
				}
			})
		})
	}
}

// Ten hostile namespaces leave an honest one its share of the unproven slots, and do not delay it
// once its endpoint is proven.
func TestTenHostileNamespacesTakeOnlyTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleetModel{t: t, buckets: map[reconcile.Request]*modelBucket{}}
		for i := range 10 {
			f.add(fmt.Sprintf("hostile-%d", i), 100, timesOut)
		}
		done := make(chan struct{})
		go func() { defer close(done); f.run(t.Context(), 4*time.Minute) }()
		<-time.After(time.Minute)
		f.add("honest", 1, succeeds)
		<-done
		// Eleven namespaces share six slots, for ten seconds each: two rounds.
		if first, later := f.delays("honest"); first > 21*time.Second || later > 12*time.Second {
			t.Errorf("first probe after %s, want two turns of 10 s; then %s between two, want a period", first, later)
		}
	})
}

// halfDark returns endpoints of which every second one never responds.
func halfDark() func() (time.Duration, s3.Verdict) {
	var mu sync.Mutex
	n := 0
	return func() (time.Duration, s3.Verdict) {
		mu.Lock()
		n++
		swallow := n%2 == 0
		mu.Unlock()
		if swallow {
			return timesOut()
		}
		return succeeds()
	}
}

// unstable returns endpoints that respond to the first probe of each bucket only.
func unstable() func() (time.Duration, s3.Verdict) {
	var mu sync.Mutex
	n := 0
	return func() (time.Duration, s3.Verdict) {
		mu.Lock()
		n++
		swallow := n > 1000
		mu.Unlock()
		if swallow {
			return timesOut()
		}
		return succeeds()
	}
}
