package storagebucket

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// One deadline bounds all requests of a visit together, whichever of them gets no answer. After that
// the endpoint counts as slow.
func TestVisitHasOneDeadline(t *testing.T) {
	handedOver := []client.Object{handoverNamespace("former", "b")}
	for name, tc := range map[string]struct {
		silent   string
		scenario scenario
	}{
		"the HEAD request":               {requestHead, scenario{}},
		"the GET request for the code":   {requestList, scenario{}},
		"the tags of an existing bucket": {requestTags, scenario{with: manage, service: exists}},
		"the creation":                   {requestCreate, scenario{with: manage}},
		"the tags after the creation":    {requestTags, scenario{with: manage}},
		"setting the tag":                {requestSetTag, scenario{with: manage, service: fakeService{tags: "ignores"}}},
		"a handover":                     {requestSetTag, scenario{with: manage, service: former, objects: handedOver}},
		"the tags before the removal":    {requestTags, scenario{with: removable, service: owned, removed: true}},
		"listing the objects":            {requestList, scenario{with: removable, service: owned, removed: true}},
		"the removal":                    {"DELETE", scenario{with: removable, service: owned, removed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s, with := tc.scenario, tc.scenario.with
			s.with = func(b *v1beta1.StorageBucket) {
				if with != nil {
					with(b)
				}
				b.Spec.Probe.TimeoutSeconds, b.Spec.Probe.FailureThreshold = 7, 1
			}
			w := newFixture(t, s)
			w.Clock = advancingClock{w.clock}
			w.serveLate(func(request string) time.Duration {
				if request == tc.silent {
					return black
				}
				return time.Second
			})
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w.reconcile()
				if took := time.Since(began); took != 7*time.Second {
					t.Errorf("the visit took %s, want the timeout of 7s", took)
				}
			})
			b := w.read()
			if ready := readyOf(b); ready.Status != "False" || ready.Reason != v1beta1.ReasonProbeTimeout {
				t.Errorf("Ready %+v, want that it did not answer", ready)
			}
			if known := w.states.of(b, epoch); !s.removed && known.slow != b.Generation {
				t.Errorf("known: %+v, want a slow endpoint", known)
			}
		})
	}
}

// A visit without a slot ends after `soon` without a report, and waits for a slot. With the slot it
// has the whole timeout. A visit under a changed spec needs none until it is slow, too.
func TestSlowVisitWaitsForSlot(t *testing.T) {
	w := newFixture(t, scenario{with: manage, service: owned})
	w.serveLate(always(3 * time.Second))
	w.occupy()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if b := w.reconcile(); time.Since(began) != soon || len(b.Status.Conditions) > 0 || !w.limiter.Pending(bReq) {
			t.Errorf("the visit ended after %s with %+v, want %s and no report", time.Since(began), b.Status, soon)
		}
		sent := len(w.requests)
		if w.reconcile(); len(w.requests) != sent {
			t.Errorf("a parked bucket sent %q", w.requests[sent:])
		}
		w.limiter.Release(requestIn("other", 0))
		began = time.Now()
		b := w.reconcile()
		if readyOf(b).Status != "True" || time.Since(began) != 6*time.Second {
			t.Errorf("with a slot: Ready %+v after %s, want True after 6s", readyOf(b), time.Since(began))
		}
		if w.limiter.Pending(bReq) || w.states.of(b, epoch).slow != b.Generation {
			t.Error("the slot is not released, or the visit was not slow")
		}
	})
}

// A changed spec leaves its place among the parked requests, and is probed at once. Its prompt
// endpoint does not count as slow.
func TestChangedSpecIsNotParked(t *testing.T) {
	w := newFixture(t, scenario{with: manage, service: owned})
	w.serveLate(always(3 * time.Second))
	w.occupy()
	synctest.Test(t, func(*testing.T) { w.reconcile() })
	w.edit(func(b *v1beta1.StorageBucket) { b.Generation++ })
	w.serveLate(always(0))
	if b := w.reconcile(); readyOf(b).Status != "True" || w.limiter.Pending(bReq) || w.states.of(b, epoch).slow > 0 {
		t.Errorf("Ready %+v, parked %t, want it probed without a slot", readyOf(b), w.limiter.Pending(bReq))
	}
}

// A visit changes nothing without a slot, because the limiter must not end it between two changes.
func TestChangesNeedSlot(t *testing.T) {
	for change, service := range map[string]fakeService{requestCreate: absent, requestSetTag: former} {
		t.Run(change, func(t *testing.T) {
			w := newFixture(t, scenario{with: manage, service: service,
				objects: []client.Object{handoverNamespace("former", "b")}})
			w.occupy()
			for range 2 { // the second time it is parked
				if b := w.reconcile(); slices.Contains(w.requests, change) || b.Status.Provisioning != "" ||
					!w.limiter.Pending(bReq) {
					t.Errorf("requests %q, status %+v, want it parked before the change", w.requests, b.Status)
				}
			}
			w.limiter.Release(requestIn("other", 0))
			if b := w.reconcile(); !slices.Contains(w.requests, change) || w.limiter.Pending(bReq) ||
				b.Status.Provisioning != v1beta1.BucketCreated {
				t.Errorf("requests %q, status %+v, want the change with a slot", w.requests, b.Status)
			}
		})
	}
}

// A granted slot is returned by a reconcile that does not need it.
func TestUnneededSlotIsReturned(t *testing.T) {
	for name, change := range map[string]change{
		"no probe is due": func(*fixture) {},
		"deleted":         (*fixture).delete,
		"unreadable": func(w *fixture) {
			w.own.Observe(bucket("b", func(b *v1beta1.StorageBucket) { b.ResourceVersion = "1000000" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, scenario{service: exists})
			b := w.reconcile()
			w.occupy()
			if w.limiter.Acquire(bReq, b.Spec.Endpoint) {
				t.Fatal("want it parked")
			}
			w.limiter.Release(requestIn("other", 0))
			change(w)
			if !w.limiter.Granted(bReq) {
				t.Fatal("want a granted slot")
			}
			if w.reconcile(); w.limiter.Pending(bReq) {
				t.Error("the slot is kept")
			}
		})
	}
}

// An annotation that hands a bucket over makes a probe due at once, also while another one runs.
func TestHandoverTriggersProbe(t *testing.T) {
	w := newFixture(t, scenario{with: manage, service: former, objects: []client.Object{handoverNamespace("else", "b")}})
	ns := handoverNamespace("former", "b")
	if b := w.reconcile(); readyOf(b).Reason != v1beta1.ReasonBucketConflict {
		t.Fatalf("Ready %+v, want a conflict", readyOf(b))
	}
	w.must(w.stored.Update(t.Context(), ns))
	if w.reconcile(); w.service.ownerTag != "former" {
		t.Fatal("a probe before it is due: the test proves nothing")
	}
	if got := w.handedOver(t.Context(), ns); !slices.Equal(got, []ctrl.Request{bReq}) {
		t.Errorf("queued %v", got)
	}
	b := w.reconcile()
	if readyOf(b).Status != "True" || w.service.ownerTag != "uid-b" || w.states.isTriggered(b) {
		t.Errorf("Ready %+v, owner %q, triggered %t", readyOf(b), w.service.ownerTag, w.states.isTriggered(b))
	}
	// A Ready bucket, one that does not exist, and other annotations trigger nothing.
	ns.Annotations = map[string]string{v1beta1.AnnotationBucketHandoverPrefix + "a": "b",
		v1beta1.AnnotationBucketHandoverPrefix + "c": "none", "example.com/a": "b"}
	if got := w.handedOver(t.Context(), ns); len(got) != 0 || len(w.states.triggered) != 0 {
		t.Errorf("queued %v, triggered %v, want none", got, w.states.triggered)
	}
	// A trigger during a probe outlives it; a deleted bucket's is dropped.
	w.states.trigger(bKey)
	w.states.store(b, w.states.of(b, epoch).after(observation{}, good, b.Generation, epoch))
	if !w.states.isTriggered(b) {
		t.Error("the end of a probe drops a trigger")
	}
	w.states.forget(bKey)
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
