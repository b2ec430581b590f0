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

// leavingBucket is one that is being deleted and was created by us, with this period.
func leavingBucket(seconds int32, policy v1beta1.BucketDeletionPolicy, provisioning v1beta1.BucketProvisioning) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Finalizers = []string{v1beta1.StorageBucketFinalizer}
		b.Spec.ManagementPolicy, b.Spec.DeletionPolicy, b.Spec.Probe.PeriodSeconds = v1beta1.BucketManage, policy, seconds
		b.Status.Provisioning = provisioning
	}
}

// worldOf has the bucket b of this world changed, and its namespace there.
func worldOf(t *testing.T, with func(*v1beta1.StorageBucket)) *world {
	t.Helper()
	w := newWorld(t, func(context.Context, client.Client) {})
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

// What cannot be removed yet is tried again soon, however long the period, and not more
// often than it would be probed. What is released is not looked at again.
func TestRemovalIsTriedAgainSoon(t *testing.T) {
	const remove, retain = v1beta1.BucketDelete, v1beta1.BucketRetain
	for name, tc := range map[string]struct {
		with  func(*v1beta1.StorageBucket)
		again time.Duration // zero: it is released
	}{
		"the shortest period":          {leavingBucket(10, remove, v1beta1.BucketCreated), 10 * time.Second},
		"one second below":             {leavingBucket(29, remove, v1beta1.BucketCreated), 29 * time.Second},
		"as long":                      {leavingBucket(30, remove, v1beta1.BucketCreated), 30 * time.Second},
		"one second above":             {leavingBucket(31, remove, v1beta1.BucketCreated), 30 * time.Second},
		"the longest period":           {leavingBucket(86400, remove, v1beta1.BucketCreated), 30 * time.Second},
		"one that may have been made":  {leavingBucket(86400, remove, v1beta1.BucketIntended), 30 * time.Second},
		"one that was never meant":     {leavingBucket(60, remove, ""), 0},
		"one that is to be kept":       {leavingBucket(60, retain, v1beta1.BucketCreated), 0},
		"one that was to be kept once": {leavingBucket(86400, retain, v1beta1.BucketIntended), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, tc.with)
			asked := 0
			// It answers nothing that S3 would.
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(http.StatusInternalServerError)
			}))
			t.Cleanup(server.Close)
			change(t, func(b *v1beta1.StorageBucket) { b.Spec.Endpoint = server.URL })(t.Context(), w.stored)
			result, b := w.reconcile(t)
			if result != (ctrl.Result{RequeueAfter: tc.again}) {
				t.Errorf("%+v, want another try after %s", result, tc.again)
			}
			held := len(b.Finalizers) > 0
			if held != (tc.again > 0) || held != (asked > 0) {
				t.Errorf("held: %t, after asking %d times, want %t", held, asked, tc.again > 0)
			}
			if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); held && ready.Reason != v1beta1.ReasonServerError {
				t.Errorf("Ready %+v, want what it waits for", ready)
			}
		})
	}
}

// One that gets no place at its endpoint is woken when there is one, and is not forgotten
// should that never be.
func TestRemovalWithoutAPlaceIsTriedAgain(t *testing.T) {
	w := worldOf(t, leavingBucket(86400, v1beta1.BucketDelete, v1beta1.BucketCreated))
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
		t.Fatal(err)
	}
	acquireAll(w.limiter, "other", maxUnproven, same(b.Spec.Endpoint), false)
	if result, b := w.reconcile(t); result != (ctrl.Result{RequeueAfter: removalPeriod}) || len(b.Finalizers) == 0 || w.asked.Load() > 0 {
		t.Errorf("%+v, finalizers %q, asked %d times, want it parked", result, b.Finalizers, w.asked.Load())
	}
}
