// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/storagebucket/s3"
)

// staleCache returns a client that reads the bucket as it is now, whatever happens to it later.
func (w *fixture) staleCache() client.Client {
	stale := w.read()
	return interceptor.NewClient(w.stored, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch,
		_ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
		stale.DeepCopyInto(into.(*v1beta1.StorageBucket))
		return nil
	}})
}

// fail lets one kind of request to the API server fail: a verb, or reading a kind.
func (w *fixture) fail(which string, err error) {
	r := &reconcilertest.Recording{T: w.t, OnRequest: func(q reconcilertest.Request) error {
		if q.Verb == which || q.Verb == "get" && reconcilertest.KindOf(q.Object) == which {
			return err
		}
		return nil
	}}
	w.Client, w.Live = r.Intercept(w.stored, true), r.Intercept(w.stored, false)
	if which == "addresses" {
		w.Cluster = func(context.Context) ([]netip.Addr, error) { return nil, err }
	}
}

// A failed request to the API server is an error that names the request, and the queue retries it.
// A Conflict is retried without an error. Neither counts a bucket as kept or changes its owner, and ticks leave both to
// the queue.
func TestAPIServerErrors(t *testing.T) {
	retained := removals()["possibly created, under Retain"].with
	for _, tc := range []struct {
		want, failing string
		scenario      scenario
	}{
		{"reading secret creds", "Secret", scenario{}},
		{"reading config map ca", "ConfigMap", scenario{with: withCA}},
		{"finding the addresses that endpoints must not resolve to", "addresses", scenario{}},
		{"adding finalizer", "patch", scenario{with: manage}},
		{"recording the intent to create the bucket", "patch status", scenario{with: manage}},
		{"writing status", "patch status", scenario{service: exists}},
		{"reading namespace team", "Namespace", scenario{with: removable, service: owned, removed: true}},
		{"reading secret creds", "Secret", scenario{with: removable, service: owned, removed: true}},
		{"removing finalizer", "patch", scenario{with: retained, service: owned, removed: true}},
		{"removing finalizer", "patch", scenario{with: removable, service: others, removed: true}},
		{"writing status", "patch status",
			scenario{with: removable, service: withFailures(owned, requestTags, "500 -"), removed: true}},
	} {
		for failure, failed := range map[string]error{
			"down":     errors.New("down"),
			"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "b", errors.New("changed")),
		} {
			t.Run(tc.want+" "+failure, func(t *testing.T) {
				w := newFixture(t, tc.scenario)
				w.fail(tc.failing, failed)
				result, err := w.Reconcile(t.Context(), bReq)
				switch {
				case failure == "conflict" && (err != nil || result != ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}):
					t.Errorf("%v, %v, want a requeue", result, err)
				case failure == "down" && (!errors.Is(err, failed) || !strings.HasPrefix(err.Error(), tc.want+": down") ||
					result != (ctrl.Result{})):
					t.Errorf("%v, %v, want %q", result, err, tc.want+": down")
				}
				for _, reason := range allReasons {
					if n := testutil.ToFloat64(w.metrics.retained.WithLabelValues(reason)); n > 0 {
						t.Errorf("%v buckets count as kept (%s)", n, reason)
					}
				}
				if due := w.due(t.Context(), nil); len(due) > 0 {
					t.Error("a tick does not wait for the queue")
				}
				if w.service.ownerTag != tc.scenario.service.ownerTag {
					t.Errorf("the owner is %q, want no trace", w.service.ownerTag)
				}
			})
		}
	}
}

var errDenied = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "creds",
	//nolint:staticcheck // the API server's own text
	errors.New(`User "op" cannot get resource "secrets" in API group "" in the namespace "team"`))

// An error that prevents a probe is reported: a denial at once, another one when it repeats, and both
// at once for a bucket without a condition. Ticks leave the retries to the queue. The endpoint is not
// the cause, so no probe counts as failed, and the next one restores the state.
func TestErrorsAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		failing string
		err     error
		isNew   bool
		reason  []string // after each reconcile
	}{
		"a denial": {"Secret", errDenied, false, []string{v1beta1.ReasonRBACForbidden, v1beta1.ReasonRBACForbidden}},
		"another error": {"Secret", errors.New("down"), false,
			[]string{v1beta1.ReasonProbeSucceeded, v1beta1.ReasonReconcileFailed}},
		"a new bucket":                        {"patch", errors.New("down"), true, []string{v1beta1.ReasonReconcileFailed}},
		"a new bucket that got its finalizer": {"Secret", errDenied, true, []string{v1beta1.ReasonRBACForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, scenario{with: manage, service: owned})
			if !tc.isNew {
				w.reconcile()
			}
			w.fail(tc.failing, tc.err)
			w.clock.SetTime(epoch.Add(2 * time.Minute))
			for _, reason := range tc.reason {
				if _, err := w.Reconcile(t.Context(), bReq); !errors.Is(err, tc.err) {
					t.Fatalf("%v, want %v", err, tc.err)
				}
				b := w.read()
				isReady := reason == v1beta1.ReasonProbeSucceeded
				if ready := readyOf(b); ready.Reason != reason || (ready.Status == "True") != isReady ||
					b.Status.ConsecutiveFailures > 0 {
					t.Errorf("%+v, want %s and no failure of the endpoint", b.Status, reason)
				}
				if up := testutil.ToFloat64(w.metrics.up.WithLabelValues("team", "b")); (up == 1) != isReady {
					t.Errorf("the gauge is %v, and Ready %s", up, reason)
				}
				if due := w.due(t.Context(), nil); len(due) > 0 {
					t.Error("a tick does not wait for the queue")
				}
			}
			w.Client, w.Live = w.stored, w.stored
			if b := w.reconcile(); readyOf(b).Status != "True" {
				t.Errorf("%+v after a probe, want True", readyOf(b))
			}
			w.clock.SetTime(epoch.Add(10 * time.Minute))
			if due := w.due(t.Context(), nil); len(due) != 1 {
				t.Error("ticks queue a bucket no more after an error")
			}
			if events := w.events(); strings.Count(events, "Warning BucketUnhealthy") != 1 {
				t.Errorf("events %q, want one warning", events)
			}
		})
	}
}

// A reconcile that has used up its time reports that at once, whichever request hangs. One that is canceled,
// because the operator stops, reports nothing.
func TestHangingRequests(t *testing.T) {
	for _, hangs := range []string{"get Secret team/creds", "get StorageBucket team/b", "patch as leasehold StorageBucket team/b"} {
		for _, stops := range []bool{false, true} {
			w := newFixture(t, scenario{with: both(manage, both(probed(epoch, v1beta1.ReasonServerError), newSpec)),
				service: owned})
			before, want := readyOf(w.read()), context.DeadlineExceeded
			if stops {
				want = context.Canceled
			}
			r := &reconcilertest.Recording{T: t, OnRequest: func(reconcilertest.Request) error { return nil }}
			w.Client, w.Live = r.Intercept(w.stored, true), r.Intercept(w.stored, false)
			w.clock.SetTime(epoch.Add(time.Hour))
			w.serveLate("")
			synctest.Test(t, func(t *testing.T) {
				if err := r.Ended(t.Context(), w.Reconciler, bReq, hangs, stops); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", hangs, err, want)
				}
			})
			got := readyOf(w.read())
			if stops && got != before || !stops && (got.Status != "Unknown" || got.Reason != v1beta1.ReasonReconcileFailed) {
				t.Errorf("%s, the operator stops %t: Ready %s %s: %s", hangs, stops, got.Status, got.Reason, got.Message)
			}
		}
	}
}

// The intent to create a bucket is not in the status if its write failed, and the report of that is complete.
func TestFailedIntentIsReported(t *testing.T) {
	w, writes := newFixture(t, scenario{with: manage}), 0
	r := &reconcilertest.Recording{T: t, OnRequest: func(q reconcilertest.Request) error {
		if q.Verb == "patch status" {
			writes++
		}
		if writes == 1 {
			return errDenied
		}
		return nil
	}}
	w.Client = r.Intercept(w.stored, true)
	_, err := w.Reconcile(t.Context(), bReq)
	if b := w.read(); !errors.Is(err, errDenied) || b.Status.Provisioning != "" || b.Status.ObservedGeneration != 1 ||
		readyOf(b).Reason != v1beta1.ReasonRBACForbidden {
		t.Errorf("%v, status %+v, want the error of this generation alone", err, b.Status)
	}
}

// The fence denies the writes of a former leader. The status of the object does not report that.
func TestDenialByFenceIsNotReported(t *testing.T) {
	const message = "ValidatingAdmissionPolicy 'fence.leasehold.dev' with binding 'b' denied request: no"
	fence := apierrors.NewForbidden(schema.GroupResource{Resource: "storagebuckets"}, "b", errors.New(message))
	fence.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
	w := newFixture(t, scenario{with: manage, service: owned})
	w.fail("patch", fence)
	_, err := w.Reconcile(t.Context(), bReq)
	if b := w.read(); !errors.Is(err, fence) || len(b.Status.Conditions) > 0 || len(w.requests) > 0 {
		t.Errorf("%v, status %+v after requests %q, want the error alone", err, b.Status, w.requests)
	}
}

// One deadline bounds all requests of a reconcile together, whichever of them gets no answer: the
// timeout of the spec, and at most maxTimeout.
func TestReconcileHasOneDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		silent   string
		scenario scenario
	}{
		"the HEAD request":               {requestHead, scenario{with: manage}},
		"the GET request for the code":   {requestList, scenario{with: manage}},
		"the tags of an existing bucket": {requestTags, scenario{with: manage, service: exists}},
		"the creation":                   {requestCreate, scenario{with: manage}},
		"setting the tag":                {requestSetTag, scenario{with: manage, service: fakeService{tags: "ignores"}}},
		"listing the objects":            {requestList, scenario{with: removable, service: owned, removed: true}},
		"the removal":                    {"DELETE", scenario{with: removable, service: owned, removed: true}},
	} {
		for seconds, want := range map[int32]time.Duration{7: 7 * time.Second, 60: maxTimeout} {
			t.Run(name, func(t *testing.T) {
				s := tc.scenario
				s.with = both(s.with, func(b *v1beta1.StorageBucket) {
					b.Spec.Probe.TimeoutSeconds, b.Spec.Probe.FailureThreshold = seconds, 1
				})
				w := newFixture(t, s)
				w.serveLate(tc.silent)
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					w.reconcile()
					if took := time.Since(began); took != want {
						t.Errorf("the reconcile took %s, want %s", took, want)
					}
				})
				if ready := readyOf(w.read()); ready.Status != "False" || ready.Reason != v1beta1.ReasonProbeTimeout {
					t.Errorf("Ready %+v, want that it did not answer", ready)
				}
			})
		}
	}
}

// The bundle may be in the data or in the binary data of the ConfigMap, where kubectl puts a file that is not UTF-8,
// under the key that the spec has.
func TestBundleIsReadFromEitherData(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	valid := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, tc := range map[string]struct {
		data    map[string]string
		binary  map[string][]byte
		lacking bool
	}{
		"text":              {map[string]string{"a.pem": string(valid)}, nil, false},
		"binary":            {nil, map[string][]byte{"a.pem": append([]byte("\xff\n"), valid...)}, false},
		"wrong text":        {map[string]string{"a.pem": "x"}, nil, true},
		"wrong binary data": {nil, map[string][]byte{"a.pem": []byte("\xff")}, true},
		"another text":      {map[string]string{"ca.crt": string(valid)}, nil, true},
		"neither":           {nil, nil, true},
	} {
		w := newFixture(t, scenario{objects: []client.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"}, Data: tc.data, BinaryData: tc.binary}}})
		var o observation
		b := bucket("b", withCA)
		b.Spec.CABundleRef.Key = "a.pem"
		roots, err := w.roots(t.Context(), b, &o)
		if err != nil || o.lacking != tc.lacking || roots == nil || o.lost {
			t.Errorf("%s: certificates %t, lacking %t, lost %t, %v", name, roots != nil, o.lacking, o.lost, err)
		}
	}
}

// A service that denies access may have a bucket of another account under that name, unless the operator has
// created the bucket. Only a managed bucket can have another name.
func TestDeniedNameMayBelongToAnother(t *testing.T) {
	for _, provisioning := range []v1beta1.BucketProvisioning{"", v1beta1.BucketIntended, v1beta1.BucketCreated} {
		for _, policy := range []v1beta1.BucketManagementPolicy{v1beta1.BucketObserve, v1beta1.BucketManage} {
			b := bucket("b", func(b *v1beta1.StorageBucket) {
				b.Spec.ManagementPolicy, b.Status.Provisioning = policy, provisioning
			})
			got := decide(&observation{bucket: b, verdict: s3.Denied}).verdict
			want := map[bool]s3.Verdict{true: s3.DeniedName, false: s3.Denied}[policy == v1beta1.BucketManage &&
				provisioning != v1beta1.BucketCreated]
			if got != want {
				t.Errorf("%s, provisioning %q: %+v, want %+v", policy, provisioning, got, want)
			}
		}
	}
}

// Anyone with keys for a bucket can write its tags, and users copy from messages.
func TestMessagesHaveNoTextOfTags(t *testing.T) {
	const injected = "$(touch /tmp/injected)"
	for _, removed := range []bool{false, true} {
		w := newFixture(t, scenario{with: removable, removed: removed,
			service: fakeService{exists: true, ownerTag: injected}})
		b := w.reconcile()
		if !removed && readyOf(b).Reason != v1beta1.ReasonBucketConflict {
			t.Errorf("Ready %+v, want a conflict", readyOf(b))
		}
		text := readyOf(b).Message + w.events()
		if strings.Contains(text, injected) || !strings.Contains(text, v1beta1.BucketTagOwner) {
			t.Errorf("%q, want the name of the tag without its text", text)
		}
	}
}

// A reconcile that is canceled because the operator stops reports nothing about the bucket,
// whatever request it has reached.
func TestCanceledReconcileReportsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		at      string
		service fakeService
		want    v1beta1.BucketProvisioning
	}{
		"the HEAD request":                  {requestHead, absent, ""},
		"the GET request for the code":      {requestList, absent, ""},
		"the creation":                      {requestCreate, absent, v1beta1.BucketIntended},
		"the tags":                          {requestTags, absent, v1beta1.BucketIntended},
		"setting the tag after a creation":  {requestSetTag, fakeService{tags: "ignores"}, v1beta1.BucketIntended},
		"the tags of a bucket that existed": {requestTags, owned, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newFixture(t, scenario{with: manage, service: tc.service})
			w.onRequest = func(r *http.Request) {
				if nameOf(r) == tc.at {
					stop()
					_, _ = io.Copy(io.Discard, r.Body) // after that net/http detects that the client has disconnected
					<-r.Context().Done()
				}
			}
			if _, err := w.Reconcile(ctx, bReq); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the context was canceled", err)
			}
			b, reason := w.read(), ""
			if tc.want != "" {
				reason = v1beta1.ReasonCreating
			}
			if b.Status.Provisioning != tc.want || readyOf(b).Reason != reason || len(w.recorder.Events) > 0 {
				t.Errorf("%+v and %d events, want provisioning %q and no report", b.Status, len(w.recorder.Events), tc.want)
			}
		})
	}
}
