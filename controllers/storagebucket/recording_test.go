package storagebucket

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/storagebucket/s3"
)

// scenario is a bucket, its service, and the changes before the end of some reconciles, one each
// period.
type scenario struct {
	with func(*v1beta1.StorageBucket)
	// secret changes the Secret before the first reconcile; nil keeps it.
	secret  func(*corev1.Secret)
	objects []client.Object
	service fakeService
	// forbidden is true if the rules allow no address of the service.
	forbidden bool
	// removed deletes the StorageBucket; ending is how long its namespace has been terminating.
	removed    bool
	ending     time.Duration
	reconciles int
}

// recording is a fixture that records requests, events and results as lines.
type recording struct {
	*fixture
	reconcilertest.Recording
}

func newRecording(t *testing.T, s scenario) *recording {
	t.Helper()
	r := &recording{}
	r.Recording = reconcilertest.Recording{T: t, OnRequest: r.onRequest}
	bucket := s.service
	r.fixture = newManagedFixture(t, "", func(w http.ResponseWriter, request *http.Request) {
		answer := httptest.NewRecorder()
		bucket.ServeHTTP(answer, request)
		r.Line("  S3 %s: %d", nameOf(request), answer.Code)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}, func(context.Context, client.Client) {})
	for _, o := range s.objects {
		if err := r.stored.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
	if s.secret != nil {
		secret := credentialsForTest()
		s.secret(secret)
		if err := r.stored.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	r.prepare(t, func(b *v1beta1.StorageBucket) {
		b.Spec.Probe.FailureThreshold = 3
		if s.with != nil {
			s.with(b)
		}
	}, s.removed)
	if s.ending > 0 {
		r.endNamespace(t, 0)
	}
	if s.forbidden {
		r.Rules = func(context.Context) (s3.Rules, error) { return s3.Rules{}, nil }
	}
	r.RemovalGrace = 2 * time.Minute
	stored := r.stored.(client.WithWatch)
	r.Client, r.Live, r.Recorder = r.Intercept(stored, true), r.Intercept(stored, false), r
	return r
}

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about := func(o runtime.Object) string {
		if o == nil {
			return "nothing"
		}
		return fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(o.(client.Object)))
	}
	r.Line("event %s %s (%s) on %s, related to %s: %s", kind, reason, action, about(regarding), about(related),
		fmt.Sprintf(note, args...))
}

// onRequest records live reads and all writes.
func (r *recording) onRequest(q reconcilertest.Request) error {
	switch q.Verb {
	case "get":
		if !q.Cached {
			r.Line("  live get %T %s", q.Object, q.Key)
		}
	case "patch":
		r.Line("  patch %s", q.Body)
	case "patch status":
		r.StatusPatch(q.Body)
	}
	return nil
}

// run reconciles n times, and returns the record. It omits the counters of reasons that never
// occurred, and histogram buckets.
func (r *recording) run(n int) string {
	now := r.Clock.(*testingclock.FakePassiveClock)
	began := now.Now()
	r.Clock = advancingClock{now}
	r.Run(r.Reconciler, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}}, now,
		67*time.Second, n, func(int) {})
	r.Series(r.metrics.probes, r.metrics.duration, r.metrics.up, r.metrics.retained)
	r.Lines = slices.DeleteFunc(r.Lines, func(line string) bool {
		never := strings.Contains(line, "_retained_") && strings.HasSuffix(line, " 0")
		return never || strings.Contains(line, "_bucket{")
	})
	return r.Since(began)
}

// TestReconcileGolden compares the requests to the endpoint, the live reads, the writes and the
// reports of each scenario with a golden file.
func TestReconcileGolden(t *testing.T) {
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		return newRecording(t, s).run(max(s.reconciles, 2))
	})
}
