package storagebucket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// deletedBucket makes the bucket a terminating one that the operator created, with this period.
func deletedBucket(seconds int32, policy v1beta1.BucketDeletionPolicy,
	provisioning v1beta1.BucketProvisioning) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Finalizers = []string{v1beta1.StorageBucketFinalizer}
		b.Spec.ManagementPolicy, b.Spec.DeletionPolicy, b.Spec.Probe.PeriodSeconds = v1beta1.BucketManage, policy, seconds
		b.Status.Provisioning = provisioning
	}
}

// newFixtureWith changes the bucket b of a new fixture, whose namespace exists.
func newFixtureWith(t *testing.T, with func(*v1beta1.StorageBucket)) *fixture {
	t.Helper()
	w := newFixture(t, func(context.Context, client.Client) {})
	b := &v1beta1.StorageBucket{}
	for _, step := range []func() error{
		func() error {
			return w.stored.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		},
		func() error { return w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b) },
		func() error {
			with(b)
			status := b.Status
			err := w.stored.Update(t.Context(), b)
			b.Status = status
			return err
		},
		func() error { return w.stored.Status().Update(t.Context(), b) },
		func() error { return w.stored.Delete(t.Context(), b) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// A removal that is not possible yet is retried soon, however long the period is, and not more
// often than the probes. A released bucket is not probed again.
func TestRemovalIsRetriedSoon(t *testing.T) {
	const remove, retain = v1beta1.BucketDelete, v1beta1.BucketRetain
	for name, tc := range map[string]struct {
		with  func(*v1beta1.StorageBucket)
		again time.Duration // zero: it is released
	}{
		"the shortest period":                {deletedBucket(10, remove, v1beta1.BucketCreated), 10 * time.Second},
		"one second below":                   {deletedBucket(29, remove, v1beta1.BucketCreated), 29 * time.Second},
		"equal":                              {deletedBucket(30, remove, v1beta1.BucketCreated), 30 * time.Second},
		"one second above":                   {deletedBucket(31, remove, v1beta1.BucketCreated), 30 * time.Second},
		"the longest period":                 {deletedBucket(86400, remove, v1beta1.BucketCreated), 30 * time.Second},
		"a possibly created bucket":          {deletedBucket(86400, remove, v1beta1.BucketIntended), 30 * time.Second},
		"a bucket that was never intended":   {deletedBucket(60, remove, ""), 0},
		"a retained bucket":                  {deletedBucket(60, retain, v1beta1.BucketCreated), 0},
		"a possibly created retained bucket": {deletedBucket(86400, retain, v1beta1.BucketIntended), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixtureWith(t, tc.with)
			requests := 0
			// No response is one of S3.
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.WriteHeader(http.StatusInternalServerError)
			}))
			t.Cleanup(server.Close)
			editStored(t, func(b *v1beta1.StorageBucket) { b.Spec.Endpoint = server.URL })(t.Context(), w.stored)
			result, b := w.reconcile(t)
			if result != (ctrl.Result{RequeueAfter: tc.again}) {
				t.Errorf("%+v, want another try after %s", result, tc.again)
			}
			held := len(b.Finalizers) > 0
			if held != (tc.again > 0) || held != (requests > 0) {
				t.Errorf("finalizer: %t, after %d requests, want %t", held, requests, tc.again > 0)
			}
			if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); held &&
				ready.Reason != v1beta1.ReasonServerError {
				t.Errorf("Ready %+v, want what it waits for", ready)
			}
		})
	}
}

// A removal without a slot is queued when a slot is free. It is also retried by time, in case no
// slot becomes free.
func TestRemovalWithoutSlotIsRetried(t *testing.T) {
	w := newFixtureWith(t, deletedBucket(86400, v1beta1.BucketDelete, v1beta1.BucketCreated))
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
		t.Fatal(err)
	}
	acquireAll(w.limiter, "other", maxSlots, same(b.Spec.Endpoint))
	if result, b := w.reconcile(t); result != (ctrl.Result{RequeueAfter: removalPeriod}) || len(b.Finalizers) == 0 ||
		w.requestCount.Load() > 0 {
		t.Errorf("%+v, finalizers %q, %d requests, want it parked", result, b.Finalizers, w.requestCount.Load())
	}
}
