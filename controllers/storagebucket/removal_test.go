package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// storedBucket implements the part of S3 that a removal needs, with one bucket.
type storedBucket struct {
	status  int    // of all responses; zero for those of a healthy service
	owner   string // the owner tag
	objects int
	removed bool
}

func (s *storedBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.status != 0:
		w.WriteHeader(s.status)
	case s.removed:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code></Error>")
	case r.Method == http.MethodDelete:
		s.removed = true
		w.WriteHeader(http.StatusNoContent)
	case r.URL.RawQuery == "tagging=" || r.URL.RawQuery == "tagging":
		_, _ = fmt.Fprintf(w, "<Tagging><TagSet><Tag><Key>%s</Key><Value>%s</Value></Tag></TagSet></Tagging>",
			v1beta1.BucketTagOwner, s.owner)
	default:
		_, _ = io.WriteString(w,
			"<ListBucketResult>"+strings.Repeat("<Contents></Contents>", s.objects)+"</ListBucketResult>")
	}
}

// removalResult is the result of a removal: the types and reasons of events, the counter of
// retained buckets, and whether the StorageBucket and the bucket still exist.
type removalResult struct {
	Events       []string
	Retained     map[string]float64
	Held, Stored bool
	// Up is the gauge, which is 1 at the start.
	Up float64
}

func (w *fixture) removal(t *testing.T, stored *storedBucket) removalResult {
	t.Helper()
	got := removalResult{Retained: map[string]float64{}, Stored: !stored.removed,
		Up: testutil.ToFloat64(w.metrics.up.WithLabelValues("team", "b"))}
	for _, reason := range retainReasons {
		if n := testutil.ToFloat64(w.metrics.retained.WithLabelValues(reason)); n > 0 {
			got.Retained[reason] = n
		}
	}
	recorded := w.Recorder.(*events.FakeRecorder).Events
	for len(recorded) > 0 {
		got.Events = append(got.Events, strings.Join(strings.Fields(<-recorded)[:2], " "))
	}
	b := &v1beta1.StorageBucket{}
	err := w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if got.Held = err == nil; got.Held && b.Status.ObservedGeneration != b.Generation {
		t.Errorf("the status of generation %d names generation %d", b.Generation, b.Status.ObservedGeneration)
	}
	return got
}

// Each result of a removal has one event and, if the bucket is kept against the policy, one count.
// The reason of a delay is one event, however often the removal is retried, and none if the
// namespace accepts no events.
func TestRemoval(t *testing.T) {
	const deleting, retaining = v1beta1.BucketDelete, v1beta1.BucketRetain
	ownedBy := func(owner string, objects int) storedBucket { return storedBucket{owner: owner, objects: objects} }
	kept := func(reason string) map[string]float64 { return map[string]float64{reason: 1} }
	none := map[string]float64{}
	for name, tc := range map[string]struct {
		policy v1beta1.BucketDeletionPolicy
		stored storedBucket
		end    time.Duration // how long the namespace has been terminating; zero if it is not
		want   removalResult
		asks   bool
	}{
		"removed": {deleting, ownedBy("uid-b", 0), 0,
			removalResult{[]string{"Normal BucketDeleted"}, none, false, false, 1}, true},
		"retained by the policy": {retaining, ownedBy("uid-b", 0), 0,
			removalResult{[]string{"Normal BucketRetained"}, none, false, true, 1}, false},
		"already deleted": {deleting, storedBucket{removed: true}, 0,
			removalResult{nil, none, false, false, 1}, true},
		"owned by another": {deleting, ownedBy("x", 0), 0,
			removalResult{[]string{"Warning BucketRetained"}, kept(v1beta1.ReasonBucketConflict), false, true, 1}, true},
		"not empty": {deleting, ownedBy("uid-b", 1), 0,
			removalResult{[]string{"Warning BucketNotEmpty"}, none, true, true, 0}, true},
		"a failing service": {deleting, storedBucket{status: 500}, 0,
			removalResult{[]string{"Warning BucketUnhealthy"}, none, true, true, 0}, true},

		"removed with its namespace": {deleting, ownedBy("uid-b", 0), time.Minute,
			removalResult{[]string{"Normal BucketDeleted"}, none, false, false, 1}, true},
		"retained by the policy, in a namespace": {retaining, ownedBy("uid-b", 0), time.Minute,
			removalResult{[]string{"Normal BucketRetained"}, none, false, true, 1}, false},
		"owned by another in a namespace": {deleting, ownedBy("x", 0), time.Minute,
			removalResult{[]string{"Warning BucketRetained"}, kept(v1beta1.ReasonBucketConflict), false, true, 1}, true},
		"not empty within the grace": {deleting, ownedBy("uid-b", 1), time.Minute,
			removalResult{nil, none, true, true, 0}, true},
		"not empty beyond the grace": {deleting, ownedBy("uid-b", 1), time.Hour,
			removalResult{[]string{"Warning BucketRetained"}, kept(v1beta1.ReasonBucketNotEmpty), false, true, 1}, true},
		"a failing service beyond the grace": {deleting, storedBucket{status: 500}, time.Hour,
			removalResult{[]string{"Warning BucketRetained"}, kept(v1beta1.ReasonServerError), false, true, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			stored, requests := tc.stored, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				stored.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			w := newFixtureWith(t, func(b *v1beta1.StorageBucket) {
				deletedBucket(60, tc.policy, v1beta1.BucketCreated)(b)
				b.Spec.Endpoint, b.UID, b.Generation = server.URL, "uid-b", 7
			})
			w.RemovalGrace = 10 * time.Minute
			if tc.end > 0 {
				w.endNamespace(t, tc.end)
			}
			w.metrics.up.WithLabelValues("team", "b").Set(1)
			w.reconcile(t)
			first := w.removal(t, &stored)
			if diff := cmp.Diff(tc.want, first); diff != "" {
				t.Fatalf("after one reconcile (-want +got):\n%s", diff)
			}
			if (requests > 0) != tc.asks {
				t.Errorf("%d requests to the service", requests)
			}
			if !tc.want.Held {
				return
			}
			w.reconcile(t)
			again := tc.want
			again.Events = nil
			if diff := cmp.Diff(again, w.removal(t, &stored)); diff != "" {
				t.Errorf("after another (-want +got):\n%s", diff)
			}
		})
	}
}

// endNamespace deletes the namespace at a time in the past, for a process that already has the
// bucket's state.
func (w *fixture) endNamespace(t *testing.T, ago time.Duration) {
	t.Helper()
	namespace, b := &corev1.Namespace{}, &v1beta1.StorageBucket{}
	key := client.ObjectKey{Name: "team"}
	for _, step := range []func() error{
		func() error { return w.stored.Get(t.Context(), key, namespace) },
		func() error {
			namespace.Finalizers = []string{"kubernetes"}
			return w.stored.Update(t.Context(), namespace)
		},
		func() error { return w.stored.Delete(t.Context(), namespace) },
		func() error { return w.stored.Get(t.Context(), key, namespace) },
		func() error { return w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	w.states.of(b, epoch)
	w.Clock.(*testingclock.FakePassiveClock).SetTime(namespace.DeletionTimestamp.Add(ago))
}

// A bucket that is parked, has a slot, or is terminating needs no tick.
func TestTicksEnqueueOnlyIdleBuckets(t *testing.T) {
	for name, tc := range map[string]struct {
		parked, granted, deleted bool
		due                      bool
		want                     int
	}{
		"due":                        {due: true, want: 1},
		"not due":                    {},
		"due and parked":             {due: true, parked: true},
		"due, and has a slot":        {due: true, granted: true},
		"parked, and not due":        {parked: true},
		"has a slot, and is not due": {granted: true},
		"due and terminating":        {due: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(context.Context, client.Client) {})
			clock := w.Clock.(*testingclock.FakePassiveClock)
			_, b := w.reconcile(t)
			if tc.due {
				clock.SetTime(clock.Now().Add(time.Hour))
			}
			if tc.deleted {
				b.Finalizers = []string{v1beta1.StorageBucketFinalizer}
				if err := errors.Join(w.stored.Update(t.Context(), b), w.stored.Delete(t.Context(), b)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.granted && !w.limiter.Acquire(requestFor(b), b.Spec.Endpoint) {
				t.Fatal("want a slot")
			}
			if tc.parked {
				for i := range maxSlots {
					w.limiter.Acquire(requestFor(bucket(fmt.Sprintf("other-%d", i))), b.Spec.Endpoint)
				}
				if w.limiter.Acquire(requestFor(b), b.Spec.Endpoint) {
					t.Fatal("want no slot")
				}
			}
			got := w.due(t.Context(), nil)
			if len(got) != tc.want || tc.want == 1 && !slices.Contains(got, requestFor(b)) {
				t.Errorf("queued %v, want %d", got, tc.want)
			}
		})
	}
}
