package storagebucket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// serveLate answers the requests of w after a delay each, and returns the requests.
func (w *fixture) serveLate(service *fakeService, after time.Duration) *[]string {
	var requests []string
	w.Rules = func(context.Context) (s3.Rules, error) {
		return s3.Rules{Guard: func(*http.Transport) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				requests = append(requests, nameOf(r))
				if err := pause(r.Context(), after); err != nil {
					return nil, err
				}
				answer := httptest.NewRecorder()
				service.ServeHTTP(answer, r)
				return answer.Result(), nil
			})
		}}, nil
	}
	return &requests
}

// occupy gives all slots of the endpoint of b to others.
func (w *fixture) occupy(t *testing.T) {
	t.Helper()
	for i := range maxSlots {
		if !w.limiter.Acquire(requestIn("other", i), w.read(t).Spec.Endpoint) {
			t.Fatal("want a slot")
		}
	}
}

// One deadline bounds all requests of a visit together, whichever of them is slow.
func TestVisitHasOneDeadline(t *testing.T) {
	manage := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }
	for name, tc := range map[string]struct {
		service fakeService
		with    func(*v1beta1.StorageBucket)
		removes bool
	}{
		"a probe":    {fakeService{exists: true, ownerTag: "uid-b"}, manage, false},
		"a creation": {fakeService{tags: "ignores"}, manage, false},
		"a handover": {fakeService{exists: true, ownerTag: "former"}, manage, false},
		"a removal": {fakeService{exists: true, ownerTag: "uid-b"},
			deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
			w.prepare(t, func(b *v1beta1.StorageBucket) {
				tc.with(b)
				b.Spec.Probe.TimeoutSeconds = 7
			}, tc.removes)
			if err := w.stored.Update(t.Context(), handoverNamespace("former", "b")); err != nil {
				t.Fatal(err)
			}
			w.serveLate(&tc.service, 6*time.Second)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w.reconcile(t)
				if took := time.Since(began); took != 7*time.Second {
					t.Errorf("the visit took %s, want the timeout of 7s", took)
				}
			})
			if ready := reporting.FindCondition(w.read(t).Status.Conditions, v1beta1.ConditionReady); ready.Status != "False" ||
				ready.Reason != v1beta1.ReasonProbeTimeout {
				t.Errorf("Ready %+v, want that it did not answer", ready)
			}
		})
	}
}

// A visit without a slot ends after `soon` without a report, and waits for a slot. With the slot it
// has the whole timeout.
func TestSlowVisitWaitsForSlot(t *testing.T) {
	w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
	requests := w.serveLate(&fakeService{exists: true, ownerTag: "uid-b"}, 3*time.Second)
	w.occupy(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, b := w.reconcile(t); time.Since(began) != soon || len(b.Status.Conditions) > 0 ||
			!w.limiter.Pending(requestFor(b)) {
			t.Errorf("the visit ended after %s with %+v, want %s and no report", time.Since(began), b.Status, soon)
		}
		sent := len(*requests)
		if w.reconcile(t); len(*requests) != sent {
			t.Errorf("a parked bucket sent %q", (*requests)[sent:])
		}
		w.limiter.Release(requestIn("other", 0))
		began = time.Now()
		_, b := w.reconcile(t)
		if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); ready.Status != "True" ||
			time.Since(began) != 6*time.Second {
			t.Errorf("with a slot: Ready %+v after %s, want True after 6s", ready, time.Since(began))
		}
		if w.limiter.Pending(requestFor(b)) || w.states.of(b, epoch).slow != b.Generation {
			t.Error("the slot is not released, or the visit was not slow")
		}
	})
}

// A visit changes nothing without a slot, because the limiter must not end it between two changes.
func TestChangesNeedSlot(t *testing.T) {
	for name, service := range map[string]fakeService{
		requestCreate: {tags: "ignores"}, requestSetTag: {exists: true, ownerTag: "former"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
			if err := w.stored.Create(t.Context(), handoverNamespace("former", "b")); err != nil {
				t.Fatal(err)
			}
			requests := w.serveLate(&service, 0)
			w.occupy(t)
			if _, b := w.reconcile(t); slices.Contains(*requests, name) || b.Status.Provisioning != "" ||
				!w.limiter.Pending(requestFor(b)) {
				t.Errorf("requests %q, status %+v, want it parked before the change", *requests, b.Status)
			}
			sent := len(*requests)
			if w.reconcile(t); len(*requests) != sent {
				t.Errorf("a parked bucket sent %q", (*requests)[sent:])
			}
			w.limiter.Release(requestIn("other", 0))
			_, b := w.reconcile(t)
			if !slices.Contains(*requests, name) || b.Status.Provisioning != v1beta1.BucketCreated ||
				w.limiter.Pending(requestFor(b)) {
				t.Errorf("requests %q, status %+v, want the change with a slot", *requests, b.Status)
			}
		})
	}
}

// A granted slot is returned by a reconcile that does not need it.
func TestUnneededSlotIsReturned(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fixture, *v1beta1.StorageBucket){
		"no probe is due": func(*testing.T, *fixture, *v1beta1.StorageBucket) {},
		"deleted": func(t *testing.T, w *fixture, b *v1beta1.StorageBucket) {
			t.Helper()
			if err := w.stored.Delete(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		},
		"unreadable": func(_ *testing.T, w *fixture, _ *v1beta1.StorageBucket) {
			w.own.Observe(bucket("b", func(b *v1beta1.StorageBucket) { b.ResourceVersion = "1000000" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(context.Context, client.Client) {})
			_, b := w.reconcile(t)
			w.occupy(t)
			if w.limiter.Acquire(requestFor(b), b.Spec.Endpoint) {
				t.Fatal("want it parked")
			}
			w.limiter.Release(requestIn("other", 0))
			change(t, w, b)
			if !w.limiter.Granted(requestFor(b)) {
				t.Fatal("want a granted slot")
			}
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			if err != nil || w.limiter.Pending(requestFor(b)) {
				t.Errorf("%v, and the slot is kept: %t", err, w.limiter.Pending(requestFor(b)))
			}
		})
	}
}

// A changed spec leaves its place among the parked requests, and is probed at once.
func TestChangedSpecIsNotParked(t *testing.T) {
	w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
	service := fakeService{exists: true, ownerTag: "uid-b"}
	w.serveLate(&service, 3*time.Second)
	w.occupy(t)
	synctest.Test(t, func(t *testing.T) { w.reconcile(t) })
	editStored(t, func(b *v1beta1.StorageBucket) { b.Generation++ })(t.Context(), w.stored)
	w.serveLate(&service, 0)
	_, b := w.reconcile(t)
	if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); ready.Status != "True" ||
		w.limiter.Pending(requestFor(b)) {
		t.Errorf("Ready %+v, parked %t, want it probed without a slot", ready, w.limiter.Pending(requestFor(b)))
	}
}

// An annotation that hands a bucket over makes a probe due at once, also while another one runs.
func TestHandoverTriggersProbe(t *testing.T) {
	bucket := fakeService{exists: true, ownerTag: "former"}
	w := newManagedFixture(t, "", bucket.ServeHTTP, func(context.Context, client.Client) {})
	if err := w.stored.Create(t.Context(), handoverNamespace("else", "b")); err != nil {
		t.Fatal(err)
	}
	ns := handoverNamespace("former", "b")
	_, b := w.reconcile(t)
	if ready := reporting.FindCondition(b.Status.Conditions,
		v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonBucketConflict {
		t.Fatalf("Ready %+v, want a conflict", ready)
	}
	if err := w.stored.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if w.reconcile(t); bucket.ownerTag != "former" {
		t.Fatal("a probe before it is due: the spec proves nothing")
	}
	if got := w.handedOver(t.Context(), ns); !slices.Equal(got, []ctrl.Request{requestFor(b)}) {
		t.Errorf("queued %v", got)
	}
	w.Clock.(*testingclock.FakePassiveClock).SetTime(epoch.Add(time.Second))
	_, b = w.reconcile(t)
	if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); ready.Status != "True" ||
		bucket.ownerTag != "uid-b" || w.states.isTriggered(b) {
		t.Errorf("Ready %+v, owner %q, triggered %t", ready, bucket.ownerTag, w.states.isTriggered(b))
	}
	// A Ready bucket, one that does not exist, and other annotations trigger nothing.
	ns.Annotations = map[string]string{v1beta1.AnnotationBucketHandoverPrefix + "a": "b",
		v1beta1.AnnotationBucketHandoverPrefix + "c": "none", "example.com/a": "b"}
	if got := w.handedOver(t.Context(), ns); len(got) != 0 || len(w.states.triggered) != 0 {
		t.Errorf("queued %v, triggered %v, want none", got, w.states.triggered)
	}
	// A trigger during a probe outlives it; a deleted bucket's is dropped.
	w.states.trigger(client.ObjectKeyFromObject(b))
	state := w.states.of(b, epoch)
	w.states.store(b, state.after(observation{}, good, b.Generation, epoch))
	if !w.states.isTriggered(b) {
		t.Error("the end of a probe drops a trigger")
	}
	w.states.forget(client.ObjectKeyFromObject(b))
	if len(w.states.triggered) != 0 {
		t.Error("the trigger of a deleted bucket is kept")
	}
}

// The cache keeps the annotations of a Namespace that hand buckets over, and no other ones.
func TestCacheKeepsHandovers(t *testing.T) {
	ns := handoverNamespace("former", "b")
	ns.Annotations["example.com/a"] = "b"
	ns.Labels = map[string]string{"example.com/a": "b"}
	for object, by := range CacheByObject() {
		for range 2 { // as a reflector does with streamed objects
			if _, err := by.Transform(ns); err != nil {
				t.Fatalf("%T: %v", object, err)
			}
		}
	}
	if _, other := ns.Annotations["example.com/a"]; other || len(ns.Labels) != 1 ||
		ns.Annotations[v1beta1.AnnotationBucketHandoverPrefix+"former"] != "b" {
		t.Errorf("annotations %v, labels %v", ns.Annotations, ns.Labels)
	}
}
