package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// A failed request to the API server is an error that names the request, and the queue retries it.
// A Conflict is retried without an error. Neither changes the reported state of the bucket, and
// both release the slot of the endpoint.
func TestAPIServerErrors(t *testing.T) {
	ca := func(b *v1beta1.StorageBucket) {
		b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
	}
	manage := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }
	observe := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketObserve }
	remove := deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)
	retain := deletedBucket(60, v1beta1.BucketRetain, v1beta1.BucketCreated)
	there := fakeService{exists: true, answers: map[string]string{requestTags: "500 -"}}
	for want, tc := range map[string]struct {
		failing string
		with    func(*v1beta1.StorageBucket)
		service fakeService
		removes bool
	}{
		"reading secret creds":                              {"*v1.Secret", observe, fakeService{}, false},
		"reading config map ca":                             {"*v1.ConfigMap", ca, fakeService{}, false},
		"finding the addresses that endpoints may not have": {"rules", observe, fakeService{}, false},
		"adding finalizer":                                  {"patch", manage, fakeService{}, false},
		"recording the intent to create the bucket":         {"patch status", manage, fakeService{}, false},
		"writing status":                                    {"patch status", observe, there, false},

		"reading namespace team": {"*v1.Namespace", remove, there, true},
		"reading secret creds ":  {"*v1.Secret", remove, there, true},
		"removing finalizer":     {"patch", retain, there, true},
		// the bucket of another owner is kept
		"removing finalizer ": {"patch", remove, fakeService{exists: true, ownerTag: "x"}, true},
		"writing status ":     {"patch status", remove, there, true},
	} {
		for failure, failed := range map[string]error{
			"down":     errors.New("down"),
			"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "b", errors.New("changed")),
		} {
			t.Run(want+" "+failure, func(t *testing.T) {
				w := newManagedFixture(t, "", tc.service.ServeHTTP, func(context.Context, client.Client) {})
				w.prepare(t, tc.with, tc.removes)
				w.fail(tc.failing, failed)
				result, err := w.Reconcile(t.Context(),
					ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
				switch {
				case failure == "conflict" && (err != nil || result != ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}):
					t.Errorf("%v, %v, want a requeue", result, err)
				case failure == "down" &&
					(!errors.Is(err, failed) || err.Error() != strings.TrimSpace(want)+": down" || result != (ctrl.Result{})):
					t.Errorf("%v, %v, want %q", result, err, want+": down")
				}
				if recorded := len(w.Recorder.(*events.FakeRecorder).Events); recorded > 0 {
					t.Errorf("%d events", recorded)
				}
				for _, reason := range retainReasons {
					if n := testutil.ToFloat64(w.metrics.retained.WithLabelValues(reason)); n > 0 {
						t.Errorf("%v buckets count as kept (%s)", n, reason)
					}
				}
				if open, held := w.open.Load(), w.limiter.Pending(requestFor(bucket("b"))); open > 0 || held {
					t.Errorf("%d connections are open, the slot is in use: %t", open, held)
				}
			})
		}
	}
}

// prepare changes the bucket b in a namespace that is not terminating, and deletes it.
func (w *fixture) prepare(t *testing.T, with func(*v1beta1.StorageBucket), removes bool) {
	t.Helper()
	namespace, b := &corev1.Namespace{}, w.read(t)
	namespace.Name = "team"
	with(b)
	status := b.Status
	err := errors.Join(client.IgnoreAlreadyExists(w.stored.Create(t.Context(), namespace)),
		w.stored.Update(t.Context(), b))
	b.Status = status
	err = errors.Join(err, w.stored.Status().Update(t.Context(), b))
	if removes {
		err = errors.Join(err, w.stored.Delete(t.Context(), b))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fail lets one kind of request fail: a patch, or reading a type.
func (w *fixture) fail(which string, err error) {
	failing := interceptor.NewClient(w.stored.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			opts ...client.GetOption) error {
			if fmt.Sprintf("%T", into) == which {
				return err
			}
			return c.Get(ctx, key, into, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if which == "patch" {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if which == "patch "+sub {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	w.Client, w.Live = failing, failing
	if which == "rules" {
		w.Rules = func(context.Context) (s3.Rules, error) { return s3.Rules{}, err }
	}
}

// roundTripper is a service without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each group of requests to an endpoint that does not respond ends after timeoutSeconds, whatever
// request is affected. After that the endpoint counts as slow.
func TestEndpointTimeouts(t *testing.T) {
	creating, removing := deletedBucket(60, v1beta1.BucketDelete, ""),
		deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)
	for name, tc := range map[string]struct {
		silent  string
		service fakeService
		removes bool
	}{
		"the HEAD request":               {requestHead, fakeService{}, false},
		"the GET request for the code":   {requestList, fakeService{}, false},
		"the tags of an existing bucket": {requestTags, fakeService{exists: true}, false},
		"the creation":                   {requestCreate, fakeService{}, false},
		"the tags after the creation":    {requestTags, fakeService{}, false},
		"setting the tag":                {requestSetTag, fakeService{tags: "ignores"}, false},
		"the tags before the removal":    {requestTags, fakeService{exists: true}, true},
		"listing the objects":            {requestList, fakeService{exists: true, ownerTag: "uid-b"}, true},
		"the removal":                    {"DELETE", fakeService{exists: true, ownerTag: "uid-b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			with := creating
			if tc.removes {
				with = removing
			}
			w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
			w.prepare(t, func(b *v1beta1.StorageBucket) {
				with(b)
				b.Spec.Probe.TimeoutSeconds = 7
			}, tc.removes)
			w.Clock = advancingClock{w.Clock.(*testingclock.FakePassiveClock)}
			w.Rules = func(context.Context) (s3.Rules, error) {
				return s3.Rules{Guard: func(*http.Transport) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if nameOf(r) == tc.silent {
							<-r.Context().Done()
							return nil, r.Context().Err()
						}
						answer := httptest.NewRecorder()
						tc.service.ServeHTTP(answer, r)
						return answer.Result(), nil
					})
				}}, nil
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w.reconcile(t)
				if took := time.Since(began); took != 7*time.Second {
					t.Errorf("it waited for %s, want the timeout of 7s", took)
				}
			})
			b := w.read(t)
			if ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady); ready.Status != "False" ||
				ready.Reason != v1beta1.ReasonProbeTimeout {
				t.Errorf("Ready %+v, want that it did not answer", ready)
			}
			if known := w.states.of(b, epoch); !tc.removes && known.slow != b.Generation {
				t.Errorf("known: %+v, want a slow endpoint", known)
			}
		})
	}
}
