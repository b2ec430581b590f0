package storagebucket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
	"leasehold.dev/runners/fairqueue"
)

// fleetModel runs many buckets through the queue and the Reconciler, in the time of a synctest
// bubble. The workers and the rate limit of the API server are the defaults of the flags. The
// endpoints are functions.
type fleetModel struct {
	*fixture

	t       *testing.T
	queue   priorityqueue.PriorityQueue[reconcile.Request]
	mu      sync.Mutex
	buckets map[reconcile.Request]*modelBucket
	hosts   map[string]*modelBucket
	end     time.Time
}

// modelBucket is a bucket and its endpoint, which answers a request after a delay.
type modelBucket struct {
	*v1beta1.StorageBucket
	service fakeService
	late    func(request string) time.Duration
	probes  []time.Time // the HEAD requests
	came    time.Time
}

const (
	black  = 24 * time.Hour // a delay beyond each timeout
	inBody = "the body of " + requestTags
)

func always(d time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return d }
}

// lateAt returns an endpoint that answers one request just before the timeout, and others soon. If
// trusted is true, it answers all requests of the first 45 s soon.
func lateAt(slow string, trusted bool) func(string) time.Duration {
	var began time.Time
	return func(request string) time.Duration {
		if began.IsZero() {
			began = time.Now()
		}
		if request == slow && (!trusted || time.Since(began) > 45*time.Second) {
			return 58 * time.Second
		}
		return 20 * time.Millisecond
	}
}

// newFleetModel is called in the bubble. The fixture has a server, so it is created outside.
func newFleetModel(t *testing.T, outside *fixture) *fleetModel {
	t.Helper()
	f := &fleetModel{fixture: outside, t: t, queue: fairqueue.New("model", nil),
		buckets: map[reconcile.Request]*modelBucket{}, hosts: map[string]*modelBucket{}}
	f.Clock, f.Recorder = clock.RealClock{}, &events.FakeRecorder{}
	f.limiter = newEndpointLimiter(shippedWorkers)
	f.limiter.wake = f.queue.Add
	f.Rules = func(context.Context) (s3.Rules, error) {
		return s3.Rules{Guard: func(*http.Transport) http.RoundTripper { return f }}, nil
	}
	secrets := flowcontrol.NewTokenBucketRateLimiter(50, 100)
	f.Live = interceptor.NewClient(f.stored, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			opts ...client.GetOption) error {
			if _, is := into.(*corev1.Secret); is {
				key.Namespace = "team" // all have the Secret of the fixture
				if err := secrets.Wait(ctx); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, into, opts...)
		},
	})
	return f
}

// RoundTrip implements http.RoundTripper for all endpoints.
func (f *fleetModel) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	b, request := f.hosts[r.URL.Host], nameOf(r)
	if request == requestHead {
		b.probes = append(b.probes, time.Now())
	}
	answer := httptest.NewRecorder()
	b.service.ServeHTTP(answer, r)
	before, within := b.late(request), b.late("the body of "+request)
	f.mu.Unlock()
	if err := pause(r.Context(), before); err != nil {
		return nil, err
	}
	response := answer.Result()
	if within > time.Second {
		response.Body = io.NopCloser(&lateBody{Reader: response.Body, ctx: r.Context(), after: within})
	}
	return response, nil
}

// lateBody is a body whose first byte is late.
type lateBody struct {
	io.Reader
	ctx   context.Context
	after time.Duration
}

func (l *lateBody) Read(p []byte) (int, error) {
	if err := pause(l.ctx, l.after); err != nil {
		return 0, err
	}
	l.after = 0
	return l.Reader.Read(p)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// add adds n buckets of a namespace, each with an endpoint of its own.
func (f *fleetModel) add(namespace string, n int, late func(string) time.Duration, service fakeService,
	with ...func(*v1beta1.StorageBucket)) {
	f.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := f.stored.Create(f.t.Context(), ns); err != nil {
		f.t.Fatal(err)
	}
	for i := range n {
		b := bucket(fmt.Sprint(i), every(10), func(b *v1beta1.StorageBucket) {
			b.Namespace, b.UID = namespace, types.UID(fmt.Sprintf("%s-%d", namespace, i))
			b.Spec.Endpoint = fmt.Sprintf("http://%s-%d", namespace, i)
			b.Spec.Probe.TimeoutSeconds = 10
		})
		for _, change := range with {
			change(b)
		}
		status, deleted := b.Status, b.DeletionTimestamp
		b.DeletionTimestamp = nil
		if err := f.stored.Create(f.t.Context(), b); err != nil {
			f.t.Fatal(err)
		}
		b.Status = status
		if err := f.stored.Status().Update(f.t.Context(), b); err != nil {
			f.t.Fatal(err)
		}
		if deleted != nil {
			if err := f.stored.Delete(f.t.Context(), b); err != nil {
				f.t.Fatal(err)
			}
		}
		f.mu.Lock()
		m := &modelBucket{StorageBucket: b, late: late, service: service, came: time.Now()}
		f.hosts[fmt.Sprintf("%s-%d", namespace, i)], f.buckets[requestFor(b)] = m, m
		f.mu.Unlock()
		f.queue.Add(requestFor(b))
	}
}

// run runs the workers for a duration.
func (f *fleetModel) run(d time.Duration) {
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(f.t.Context())
	for range shippedWorkers {
		workers.Go(func() {
			for {
				req, _, shutdown := f.queue.GetWithPriority()
				if shutdown {
					return
				}
				result, err := f.Reconcile(ctx, req)
				if ctx.Err() == nil && err != nil {
					f.t.Error(err)
				}
				if result.RequeueAfter > 0 {
					f.queue.AddAfter(req, result.RequeueAfter)
				}
				f.queue.Done(req)
			}
		})
	}
	for range int(d / time.Second) {
		f.mu.Lock()
		for req, b := range f.buckets {
			if at, met := f.states.when(b.StorageBucket); met && !at.After(time.Now()) && !f.limiter.Pending(req) {
				f.queue.Add(req)
			}
		}
		f.mu.Unlock()
		<-time.After(time.Second)
	}
	f.end = time.Now()
	f.queue.ShutDown()
	cancel()
	workers.Wait()
}

// delays returns the longest time from the creation of a bucket of the namespace to its first
// probe, and from one probe to the next.
func (f *fleetModel) delays(namespace string) (first, later time.Duration) {
	for req, b := range f.buckets {
		if req.Namespace != namespace {
			continue
		}
		times := slices.Concat([]time.Time{b.came}, b.probes, []time.Time{f.end})
		first = max(first, times[1].Sub(times[0]))
		for i := 2; i < len(times); i++ {
			later = max(later, times[i].Sub(times[i-1]))
		}
	}
	return first, later
}

// hostileFleets returns endpoints of a user who delays others, for one namespace of the model.
func hostileFleets() map[string]func(f *fleetModel, namespace string) {
	fleet := func(n int, late func(string) time.Duration, service fakeService,
		with ...func(*v1beta1.StorageBucket)) func(*fleetModel, string) {
		return func(f *fleetModel, namespace string) { f.add(namespace, n, late, service, with...) }
	}
	exists, minute := fakeService{exists: true}, func(b *v1beta1.StorageBucket) {
		b.Spec.Probe.PeriodSeconds, b.Spec.Probe.TimeoutSeconds = 60, 60
	}
	managed := func(b *v1beta1.StorageBucket) {
		minute(b)
		b.Spec.ManagementPolicy, b.UID = v1beta1.BucketManage, "uid-b"
	}
	owned := fakeService{exists: true, ownerTag: "uid-b"}
	return map[string]func(*fleetModel, string){
		"black holes":                fleet(30, always(black), exists),
		"endpoints that are refused": fleet(30, always(time.Millisecond), withFailures(exists, requestHead, "500 -")),
		"no Secret": fleet(30, always(0), exists,
			func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "none" }),
		"slow at " + requestHead:       fleet(20, lateAt(requestHead, false), exists, minute),
		"slow at " + requestTags:       fleet(20, lateAt(requestTags, false), owned, managed),
		"slow at " + inBody:            fleet(20, lateAt(inBody, false), owned, managed),
		"slow at " + requestCreate:     fleet(20, lateAt(requestCreate, false), fakeService{}, managed),
		"slow at " + requestSetTag:     fleet(20, lateAt(requestSetTag, false), fakeService{tags: "ignores"}, managed),
		"slow at removal":              fleet(20, lateAt("DELETE", false), owned, managed, removed),
		"later slow at " + requestHead: fleet(20, lateAt(requestHead, true), exists, minute),
		"later slow at " + requestTags: fleet(20, lateAt(requestTags, true), owned, managed),
		"later slow at " + inBody:      fleet(20, lateAt(inBody, true), owned, managed),
		"half of the requests":         fleet(30, alternating(2), exists, minute),
		"one request of seven":         fleet(30, alternating(7), exists, minute),
		"almost too slow for no slot":  fleet(30, always(soon-100*time.Millisecond), exists),
	}
}

// removed deletes a managed bucket that was created.
func removed(b *v1beta1.StorageBucket) {
	b.Finalizers, b.DeletionTimestamp = []string{v1beta1.StorageBucketFinalizer}, new(metav1.Now())
	b.Spec.DeletionPolicy, b.Status.Provisioning = v1beta1.BucketDelete, v1beta1.BucketCreated
}

// alternating returns an endpoint that does not answer each n-th request.
func alternating(n int) func(string) time.Duration {
	var mu sync.Mutex
	count := 0
	return func(string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if count++; count/2%n == 0 { // called twice for each request
			return black
		}
		return 20 * time.Millisecond
	}
}

// The buckets of six hostile namespaces do not delay those of another: these are probed at most one
// period late, found at the next tick, and new ones within 10 s. It does not matter at which request
// an endpoint is slow.
func TestNamespacesDoNotDelayEachOther(t *testing.T) {
	const namespaces, period, tick = 6, 10 * time.Second, time.Second
	for name, hostile := range hostileFleets() {
		t.Run(name, func(t *testing.T) {
			outside := newFixture(t, scenario{})
			synctest.Test(t, func(t *testing.T) {
				f := newFleetModel(t, outside)
				for i := range namespaces {
					hostile(f, fmt.Sprintf("hostile-%d", i))
				}
				f.add("honest", 20, always(20*time.Millisecond), fakeService{exists: true})
				done := make(chan struct{})
				go func() { defer close(done); f.run(90 * time.Second) }()
				<-time.After(30 * time.Second)
				f.add("new", 1, always(20*time.Millisecond), fakeService{exists: true})
				<-done
				for _, namespace := range []string{"honest", "new"} {
					if first, later := f.delays(namespace); first > 10*time.Second || later > 2*period+tick {
						t.Errorf("%s: first probe after %s, want 10 s; then %s between two, want at most two periods and a tick",
							namespace, first, later)
					}
				}
			})
		})
	}
}
