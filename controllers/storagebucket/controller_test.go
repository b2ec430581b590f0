package storagebucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/storagebucket/s3"
)

// fail lets one kind of request to the API server fail: a verb, or reading a kind.
func (w *fixture) fail(which string, err error) {
	r := &reconcilertest.Recording{T: w.t, OnRequest: func(q reconcilertest.Request) error {
		if q.Verb == which || q.Verb == "get" && reconcilertest.KindOf(q.Object) == which {
			return err
		}
		return nil
	}}
	w.Client, w.Live = r.Intercept(w.stored, true), r.Intercept(w.stored, false)
	if which == "rules" {
		w.Rules = func(context.Context) (s3.Rules, error) { return s3.Rules{}, err }
	}
}

// A failed request to the API server is an error that names the request, and the queue retries it.
// A Conflict is retried without an error. Neither changes the reported state of the bucket, and
// both release the slot of the endpoint.
func TestAPIServerErrors(t *testing.T) {
	handedOver := []client.Object{handoverNamespace("former", "b")}
	retained := removals()["possibly created, under Retain"].with
	for _, tc := range []struct {
		want, failing string
		scenario      scenario
	}{
		{"reading secret creds", "Secret", scenario{}},
		{"reading config map ca", "ConfigMap", scenario{with: withCA}},
		{"finding the addresses that endpoints may not have", "rules", scenario{}},
		{"adding finalizer", "patch", scenario{with: manage}},
		{"recording the intent to create the bucket", "patch status", scenario{with: manage}},
		{"writing status", "patch status", scenario{service: exists}},
		{"reading namespace team", "Namespace", scenario{with: manage, service: former, objects: handedOver}},
		{"listing storage buckets", "list", scenario{with: manage, service: former, objects: handedOver}},

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
				case failure == "down" &&
					(!errors.Is(err, failed) || err.Error() != tc.want+": down" || result != (ctrl.Result{})):
					t.Errorf("%v, %v, want %q", result, err, tc.want+": down")
				}
				for _, reason := range retainReasons {
					if n := testutil.ToFloat64(w.metrics.retained.WithLabelValues(reason)); n > 0 {
						t.Errorf("%v buckets count as kept (%s)", n, reason)
					}
				}
				if len(w.recorder.Events) > 0 || w.open.Load() > 0 || w.limiter.Pending(bReq) ||
					w.service.ownerTag != tc.scenario.service.ownerTag {
					t.Errorf("%d events, %d open connections, slot in use: %t, owner %q, want no trace", len(w.recorder.Events),
						w.open.Load(), w.limiter.Pending(bReq), w.service.ownerTag)
				}
			})
		}
	}
}

func TestFailedStatusWriteNeedsNoProbe(t *testing.T) {
	w := newFixture(t, scenario{service: exists})
	full := errors.New("no space left")
	w.fail("patch status", full)
	for range 30 {
		if _, err := w.Reconcile(t.Context(), bReq); !errors.Is(err, full) {
			t.Fatalf("%v, want %v", err, full)
		}
		if due := w.due(t.Context(), nil); len(due) != 0 {
			t.Fatal("a tick does not wait for the queue")
		}
	}
	w.Client = w.stored
	if b := w.reconcile(); readyOf(b).Status != "True" || len(w.requests) != 1 {
		t.Errorf("status %+v after the requests %q, want True after one", b.Status, w.requests)
	}
	if w.reconcile(); len(w.recorder.Events) != 1 {
		t.Errorf("%d events after another reconcile, want one", len(w.recorder.Events))
	}
}

func TestErrorsAreRetriedByTheQueue(t *testing.T) {
	w := newFixture(t, scenario{})
	unreadable := errors.New("no right")
	w.fail("rules", unreadable)
	if _, err := w.Reconcile(t.Context(), bReq); !errors.Is(err, unreadable) {
		t.Fatalf("%v, want %v", err, unreadable)
	}
	if due := w.due(t.Context(), nil); len(due) != 0 {
		t.Error("a tick does not wait for the queue")
	}
	w.clock.SetTime(epoch.Add(time.Minute))
	if due := w.due(t.Context(), nil); len(due) != 1 {
		t.Error("not due after a period")
	}
}

// A reconcile that is canceled because the operator stops reports nothing about the bucket,
// whatever request it has reached.
func TestCanceledReconcileReportsNothing(t *testing.T) {
	anothers := withFailures(absent, requestCreate, "409 BucketAlreadyExists")
	for name, tc := range map[string]struct {
		at      string
		service fakeService
		want    v1beta1.BucketProvisioning
	}{
		"the HEAD request":                  {requestHead, absent, ""},
		"the GET request for the code":      {requestList, absent, ""},
		"the creation":                      {requestCreate, absent, v1beta1.BucketIntended},
		"the tags":                          {requestTags, absent, v1beta1.BucketIntended},
		"the tags of another account's":     {requestTags, anothers, v1beta1.BucketIntended},
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

// No bucket is created for a StorageBucket that was deleted or changed since it was read, whether
// or not the intent is recorded.
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
					b.Status.Provisioning = provisioning
				}})
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
