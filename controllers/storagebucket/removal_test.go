// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"leasehold.dev/api/v1beta1"
)

// A StorageBucket whose Secret or ConfigMap is gone waits for it, unless its namespace is terminating too and
// accepts no new one. With them, right or wrong, it waits in either namespace, and names the way out.
func TestLostKeysEndTheWaitWithTheNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		scenario scenario
		isLost   bool
		reason   string
	}{
		"right":               {scenario{}, false, v1beta1.ReasonServerError},
		"a wrong Secret":      {lackings()["no key"], false, v1beta1.ReasonCredentialsNotFound},
		"a missing Secret":    {lackings()["no Secret"], true, v1beta1.ReasonCredentialsNotFound},
		"a wrong ConfigMap":   {lackings()["no certificate"], false, v1beta1.ReasonTLSVerificationFailed},
		"a missing ConfigMap": {lackings()["no ConfigMap"], true, v1beta1.ReasonTLSVerificationFailed},
	} {
		for _, isEnding := range []bool{false, true} {
			s, want := tc.scenario, tc.isLost && isEnding
			if s.with == nil {
				s.with = removable
			} else {
				s.with = both(s.with, removable)
			}
			s.service, s.removed, s.ending = withFailures(owned, "DELETE", "500 -"), true, isEnding
			w := newFixture(t, s)
			b := w.reconcile()
			kept := testutil.ToFloat64(w.metrics.retained.WithLabelValues(tc.reason)) == 1
			if kept != want || (b.Name == "") != want || !want && (readyOf(b).Reason != tc.reason ||
				!strings.Contains(readyOf(b).Message, "set spec.deletionPolicy to Retain")) {
				t.Errorf("%s, ending %t: counted as kept: %t, %q with %+v", name, isEnding, kept, b.Name, b.Status)
			}
		}
	}
}

// A removal that waits is tried again after the period of the bucket, and at the latest after removalPeriod. A request
// for an attempt is handled by it.
func TestRemovalIsRetried(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{10: 10 * time.Second, 29: 29 * time.Second, 30: removalPeriod,
		31: removalPeriod, 86400: removalPeriod} {
		w := newFixture(t, scenario{with: both(both(removable, every(seconds)), requested("", "now")), removed: true,
			service: withFailures(owned, "DELETE", "409 BucketNotEmpty")})
		if result, err := w.Reconcile(t.Context(), bReq); err != nil || result.RequeueAfter != want {
			t.Errorf("a period of %d s: again after %s, %v, want %s", seconds, result.RequeueAfter, err, want)
		}
		if got := w.read().Status.LastHandledReconcileAt; got != "now" {
			t.Errorf("the last request that was handled is %q, want %q", got, "now")
		}
	}
}

// A service without tags of buckets gets no bucket, and no StorageBucket waits for it at its end.
func TestServiceWithoutTags(t *testing.T) {
	for _, service := range []fakeService{{tags: "lacks"}, {exists: true, tags: "lacks"}} {
		for _, removed := range []bool{false, true} {
			w := newFixture(t, scenario{with: removable, service: service, removed: removed})
			b := w.reconcile()
			if slices.Contains(w.requests, requestCreate) || slices.Contains(w.requests, "DELETE") || removed && b.Name != "" ||
				!removed && readyOf(b).Reason != v1beta1.ReasonTagsNotSupported {
				t.Errorf("%+v, removed %t: requests %q, %q with %+v", service, removed, w.requests, b.Name, b.Status)
			}
		}
	}
}

// A deletion with --cascade=orphan keeps the bucket, also if the garbage collector has removed its finalizer since
// the event. Nothing of it is left in memory. Without a deletion, or for another object of the name, it means nothing.
func TestOrphaningDeletionKeepsTheBucket(t *testing.T) {
	orphan := func(w *fixture, finalizers ...string) {
		w.edit(func(b *v1beta1.StorageBucket) { b.Finalizers = append(b.Finalizers[:1], finalizers...) })
	}
	cached := func(w *fixture) client.Object {
		orphan(w, metav1.FinalizerOrphanDependents)
		w.delete()
		slimmed, _ := slim(w.read())
		return slimmed.(client.Object)
	}
	for name, tc := range map[string]struct {
		before func(*fixture) // the reconcile
		kept   bool
	}{
		"seen": {func(w *fixture) { orphan(w, metav1.FinalizerOrphanDependents); w.delete() }, true},
		"gone again": {func(w *fixture) {
			w.orphans().Update(event.UpdateEvent{ObjectNew: cached(w)})
			orphan(w)
		}, true},
		"gone again after the operator started": {func(w *fixture) {
			w.orphans().Create(event.CreateEvent{Object: cached(w)})
			orphan(w)
		}, true},
		"gone before the deletion": {func(w *fixture) {
			orphan(w, metav1.FinalizerOrphanDependents)
			w.orphans().Update(event.UpdateEvent{ObjectNew: w.read()})
			orphan(w)
			w.delete()
		}, false},
		"of another object": {func(w *fixture) {
			other := w.read()
			other.UID, other.Finalizers = "other", []string{metav1.FinalizerOrphanDependents}
			other.DeletionTimestamp = &metav1.Time{Time: epoch}
			w.orphans().Create(event.CreateEvent{Object: other})
			w.delete()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, scenario{with: removable, service: owned})
			tc.before(w)
			w.reconcile()
			kept := !slices.Contains(w.requests, "DELETE") && strings.Contains(w.events(), "deleted with --cascade=orphan")
			if b := w.read(); kept != tc.kept || slices.Contains(b.Finalizers, v1beta1.StorageBucketFinalizer) {
				t.Errorf("kept: %t, want %t; requests %q, finalizers %q", kept, tc.kept, w.requests, b.Finalizers)
			}
			w.orphans().Delete(event.DeleteEvent{Object: bucket("b")})
			if _, left := w.probes.orphaned.Load(bucket("b").UID); left {
				t.Error("a deleted object is left in memory")
			}
		})
	}
}

// The cache can still have a StorageBucket whose finalizer this process has removed. Its end is
// reported once.
func TestEndIsReportedOnce(t *testing.T) {
	w := newFixture(t, scenario{with: removable, service: others, removed: true})
	cached := w.staleCache()
	w.reconcile()
	w.Client = cached
	if _, err := w.Reconcile(t.Context(), bReq); err != nil {
		t.Fatal(err)
	}
	n := testutil.ToFloat64(w.metrics.retained.WithLabelValues(v1beta1.ReasonBucketConflict))
	if n != 1 || len(w.recorder.Events) != 1 {
		t.Errorf("%v buckets count as kept, %d events, want one", n, len(w.recorder.Events))
	}
}

// Only a bucket with the tag of this StorageBucket is removed, and only such a one is reported as its own,
// whatever the service answered to its creation.
func TestOnlyTheTagProvesTheOwner(t *testing.T) {
	for _, service := range []fakeService{exists, others, {exists: true, otherTag: true}} {
		w := newFixture(t, scenario{with: removable, service: service, removed: true})
		if b := w.reconcile(); b.Name != "" || slices.Contains(w.requests, "DELETE") || !w.service.exists {
			t.Errorf("%+v: requests %q, want the bucket kept and %q gone", service, w.requests, b.Name)
		}
		for _, answer := range []string{"409 BucketAlreadyOwnedByYou", "409 BucketAlreadyExists"} {
			late := withFailures(service, requestCreate, answer)
			late.late = true
			b := newFixture(t, scenario{with: manage, service: late}).reconcile()
			if b.Status.Provisioning == v1beta1.BucketCreated || readyOf(b).Status == "True" {
				t.Errorf("%+v, after %s: %+v", service, answer, b.Status)
			}
		}
	}
	others := others
	others.late = true
	w := newFixture(t, scenario{with: manage, service: others}) // a success, for the bucket of another
	if b := w.reconcile(); b.Status.Provisioning == v1beta1.BucketCreated || w.service.ownerTag != "x" {
		t.Errorf("after a success: %+v, owner %q", b.Status, w.service.ownerTag)
	}
}

// No bucket is created for a StorageBucket that was deleted or changed since it was read, whether
// or not the intent is recorded. The cache does not show the change.
func TestNoBucketIsCreatedForChangedStorageBucket(t *testing.T) {
	for name, change := range map[string]change{
		"gone": func(w *fixture) {
			w.edit(func(b *v1beta1.StorageBucket) { b.Finalizers = nil })
			w.delete()
		},
		"being deleted": (*fixture).delete,
		"another spec": func(w *fixture) {
			w.edit(func(b *v1beta1.StorageBucket) { b.Generation, b.Spec.ManagementPolicy = 2, v1beta1.BucketObserve })
		},
	} {
		for _, provisioning := range []v1beta1.BucketProvisioning{"", v1beta1.BucketIntended, v1beta1.BucketCreated} {
			t.Run(name+" "+string(provisioning), func(t *testing.T) {
				w := newFixture(t, scenario{with: func(b *v1beta1.StorageBucket) {
					manage(b)
					b.Finalizers, b.Status.Provisioning = []string{v1beta1.StorageBucketFinalizer}, provisioning
				}})
				w.Client = w.staleCache()
				w.onRequest = func(r *http.Request) {
					if nameOf(r) == requestList {
						change(w)
					}
				}
				_, err := w.Reconcile(t.Context(), bReq)
				if slices.Contains(w.requests, requestCreate) || len(w.recorder.Events) > 0 {
					t.Errorf("requests %q (%v), %d events, want no creation", w.requests, err, len(w.recorder.Events))
				}
			})
		}
	}
}
