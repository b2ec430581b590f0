package storagebucket

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// fixture is a healthy bucket in a fake cluster. Before each write of a status it runs a function,
// which may change the stored objects.
type fixture struct {
	*Reconciler
	stored       client.Client
	requestCount atomic.Int32
	open         atomic.Int32 // open connections; see countConnections
}

func newFixture(t *testing.T, beforeStatusWrite func(ctx context.Context, c client.Client)) *fixture {
	t.Helper()
	w := &fixture{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { w.requestCount.Add(1) }))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "creds"}, Data: map[string][]byte{
		v1beta1.SecretKeyAccessKeyID: []byte("key"), v1beta1.SecretKeySecretAccessKey: []byte("secret"),
	}}
	b := bucket("b", func(b *v1beta1.StorageBucket) { b.Spec.Endpoint = server.URL })
	w.stored = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, secret).WithStatusSubresource(b).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption) error {
				beforeStatusWrite(ctx, c)
				err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
				if err != nil && patch.Type() == types.JSONPatchType {
					// The API server's response to a failed test of a JSON patch.
					return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
						err.Error(), 0, false)
				}
				return err
			},
		}).Build()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.Reconciler = &Reconciler{
		Client: w.stored, Live: w.stored, Recorder: events.NewFakeRecorder(10),
		Clock: testingclock.NewFakePassiveClock(epoch), metrics: m,
		limiter: newEndpointLimiter(8),
		Rules: func(context.Context) (s3.Rules, error) {
			return s3.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, nil
		},
	}
	return w
}

func (w *fixture) reconcile(t *testing.T) (ctrl.Result, *v1beta1.StorageBucket) {
	t.Helper()
	key := client.ObjectKey{Namespace: "team", Name: "b"}
	result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	b := &v1beta1.StorageBucket{}
	if err := client.IgnoreNotFound(w.stored.Get(t.Context(), key, b)); err != nil {
		t.Fatal(err)
	}
	return result, b
}

// editStored returns a function that changes the stored bucket, unseen by the controller.
func editStored(t *testing.T, f func(*v1beta1.StorageBucket)) func(context.Context, client.Client) {
	t.Helper()
	return func(ctx context.Context, c client.Client) {
		t.Helper()
		b := &v1beta1.StorageBucket{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
			t.Fatal(err)
		}
		f(b)
		if err := c.Update(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProbeResultIsWrittenDespiteEdits(t *testing.T) {
	for name, edit := range map[string]func(*v1beta1.StorageBucket){
		"a label": func(b *v1beta1.StorageBucket) { b.Labels = map[string]string{"turn": "a"} },
		"the spec": func(b *v1beta1.StorageBucket) {
			b.Generation++
			b.Spec.Region = "eu-west-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			w := newFixture(t, func(ctx context.Context, c client.Client) {
				if first {
					first = false
					editStored(t, edit)(ctx, c)
				}
			})
			result, b := w.reconcile(t)
			if ready := reporting.FindCondition(b.Status.Conditions,
				v1beta1.ConditionReady); ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != 1 ||
				b.Status.ObservedGeneration != 1 || result != (ctrl.Result{}) {
				t.Errorf("%v, status %+v, want what was found, about generation 1", result, b.Status)
			}
			if _, b = w.reconcile(t); b.Status.ObservedGeneration != b.Generation ||
				int64(w.requestCount.Load()) != b.Generation {
				t.Errorf("generation %d of %d after %d requests, want a request for each generation", b.Status.ObservedGeneration,
					b.Generation, w.requestCount.Load())
			}
		})
	}
}

func TestProbeResultIsWrittenDespiteConflicts(t *testing.T) {
	const rivals = 3
	writes := 0
	w := newFixture(t, func(ctx context.Context, c client.Client) {
		// Each write is sent twice: with a test of the status, then with one of the version.
		if writes++; writes <= 2*rivals && writes%2 == 1 {
			b := &v1beta1.StorageBucket{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
				t.Fatal(err)
			}
			b.Status.ConsecutiveFailures++
			if err := c.Status().Update(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
	})
	for range rivals {
		if result, b := w.reconcile(t); result.RequeueAfter != reconciler.RetryAfterConflict ||
			len(b.Status.Conditions) != 0 {
			t.Fatalf("%v, status %+v, want another try", result, b.Status)
		}
	}
	result, b := w.reconcile(t)
	if ready := reporting.FindCondition(b.Status.Conditions,
		v1beta1.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Errorf("Ready=%s, want True", ready.Status)
	}
	w.reconcile(t)
	if count := w.requestCount.Load(); count != 1 || result != (ctrl.Result{}) {
		t.Errorf("%d requests, then %v, want one and no requeue", count, result)
	}
}

func TestFailedStatusWriteNeedsNoProbe(t *testing.T) {
	w := newFixture(t, func(context.Context, client.Client) {})
	full := errors.New("no space left")
	w.Client = interceptor.NewClient(w.stored.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			return full
		},
	})
	key := client.ObjectKey{Namespace: "team", Name: "b"}
	for range 30 {
		if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, full) {
			t.Fatalf("%v, want %v", err, full)
		}
		if due := w.due(t.Context(), nil); len(due) != 0 {
			t.Fatal("a tick does not wait for the queue")
		}
	}
	w.Client = w.stored
	if _, b := w.reconcile(t); reporting.FindCondition(b.Status.Conditions,
		v1beta1.ConditionReady).Status != metav1.ConditionTrue || w.requestCount.Load() != 1 {
		t.Errorf("status %+v after %d requests, want True after one", b.Status, w.requestCount.Load())
	}
}

func TestErrorsAreRetriedByTheQueue(t *testing.T) {
	w := newFixture(t, func(context.Context, client.Client) {})
	unreadable := errors.New("no right")
	w.Rules = func(context.Context) (s3.Rules, error) { return s3.Rules{}, unreadable }
	key := client.ObjectKey{Namespace: "team", Name: "b"}
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, unreadable) {
		t.Fatalf("%v, want %v", err, unreadable)
	}
	if due := w.due(t.Context(), nil); len(due) != 0 {
		t.Error("a tick does not wait for the queue")
	}
	w.Clock.(*testingclock.FakePassiveClock).SetTime(epoch.Add(time.Minute))
	if due := w.due(t.Context(), nil); len(due) != 1 {
		t.Error("not due after a period")
	}
}

func TestWrongClockDoesNotStopProbes(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Minute, 365 * 24 * time.Hour} {
		b := bucket("b", probedAt(epoch.Add(ahead)))
		if due := (&probeStates{}).of(b, epoch).due(b); due.After(epoch.Add(time.Minute)) {
			t.Errorf("probed %s in the future: due at %s, want within a period", ahead, due)
		}
		after := *b.Status.DeepCopy()
		after.LastProbeTime = new(metav1.NewTime(epoch))
		if ahead >= refresh && !needsWrite(b.Status, after) {
			t.Errorf("probed %s in the future: the status keeps that time", ahead)
		}
	}
}

// The API server rejects a status with more conditions than the schema allows, together with all
// that it reports.
func TestForeignConditionsLeaveRoom(t *testing.T) {
	const allowed = 8 // by the schema
	stalls := s3.Verdict{Reason: v1beta1.ReasonEndpointForbidden}
	for others := range allowed + 1 {
		b := bucket("b")
		for i := range others {
			b.Status.Conditions = append(b.Status.Conditions,
				metav1.Condition{Type: "Other" + string(rune('A'+i)), Status: metav1.ConditionTrue, Reason: "R"})
		}
		status := summarize(b, probeState{failures: math.MaxInt32}, observation{}, action{}, stalls, epoch)
		want := others + 2
		if want > allowed {
			want = 2
		}
		for _, ours := range []string{v1beta1.ConditionReady, v1beta1.ConditionStalled} {
			if len(status.Conditions) != want || reporting.FindCondition(status.Conditions, ours).Type == "" {
				t.Errorf("%d others: %v, want %s among %d conditions", others, status.Conditions, ours, want)
			}
		}
	}
	if got := (probeState{failures: math.MaxInt32}).after(observation{}, bad, 0, epoch).failures; got != math.MaxInt32 {
		t.Errorf("%d failures", got)
	}
}

func TestDeletedStorageBucketIsNoFailure(t *testing.T) {
	w := newFixture(t, func(ctx context.Context, c client.Client) {
		b := bucket("b")
		if err := c.Delete(ctx, b); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	})
	if result, _ := w.reconcile(t); result != (ctrl.Result{}) {
		t.Errorf("%v, want nothing", result)
	}
}
