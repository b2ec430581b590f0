package storagebucket

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gotest.tools/v3/golden"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// probeMetrics are the values of the metrics after some reconciles.
type probeMetrics struct {
	Up       float64
	Results  map[string]float64
	Measured int // results with a duration
}

func (w *fixture) recordedMetrics() probeMetrics {
	got := probeMetrics{Up: testutil.ToFloat64(w.metrics.up.WithLabelValues("team", "b")), Results: map[string]float64{},
		Measured: testutil.CollectAndCount(w.metrics.duration)}
	for _, reason := range allReasons {
		if n := testutil.ToFloat64(w.metrics.probes.WithLabelValues(reason)); n > 0 {
			got.Results[reason] = n
		}
	}
	return got
}

// Each probe is counted once, by its result. A reconcile before the probe is due is not counted.
// Without a request there is no duration.
func TestEachProbeIsCountedOnce(t *testing.T) {
	w := newFixture(t, func(context.Context, client.Client) {})
	clock := w.Clock.(*testingclock.FakePassiveClock)
	w.Clock = advancingClock{clock}
	later := func() { clock.SetTime(clock.Now().Add(2 * time.Minute)) }
	for range 3 {
		w.reconcile(t)
	}
	succeeded := map[string]float64{v1beta1.ReasonProbeSucceeded: 1}
	if diff := cmp.Diff(probeMetrics{Up: 1, Results: succeeded, Measured: 1}, w.recordedMetrics()); diff != "" {
		t.Errorf("after one probe (-want +got):\n%s", diff)
	}
	later()
	w.reconcile(t)
	if err := w.stored.Delete(t.Context(), credentialsForTest()); err != nil {
		t.Fatal(err)
	}
	later()
	w.reconcile(t)
	want := probeMetrics{Up: 0,
		Results: map[string]float64{v1beta1.ReasonProbeSucceeded: 2, v1beta1.ReasonCredentialsNotFound: 1}, Measured: 1}
	if diff := cmp.Diff(want, w.recordedMetrics()); diff != "" {
		t.Errorf("after another, and one without a Secret (-want +got):\n%s", diff)
	}
}

// The counter has the result of the reconcile, which created the missing bucket. The duration has
// the result of the probe.
func TestCreatedBucketCountsAsSuccess(t *testing.T) {
	w := newFixture(t, func(context.Context, client.Client) {})
	w.metrics.saw(bucket("b"), observation{verdict: failed(v1beta1.ReasonBucketNotFound), took: time.Second}, good)
	if diff := cmp.Diff(probeMetrics{Up: 1, Results: map[string]float64{v1beta1.ReasonProbeSucceeded: 1}, Measured: 1},
		w.recordedMetrics()); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	if !w.metrics.duration.DeleteLabelValues(v1beta1.ReasonBucketNotFound) {
		t.Error("the duration does not have the result of the probe")
	}
}

// advancingClock advances with each call.
type advancingClock struct{ *testingclock.FakePassiveClock }

func (c advancingClock) Since(began time.Time) time.Duration {
	return c.FakePassiveClock.Since(began) + time.Millisecond
}

// The state of a bucket is whether its endpoint was slow, and whether the report is written. It is
// dropped with the bucket, and so is its series.
func TestStateOfDeletedBucketIsDropped(t *testing.T) {
	w := newFixture(t, func(context.Context, client.Client) {})
	w.Clock = advancingClock{w.Clock.(*testingclock.FakePassiveClock)}
	_, b := w.reconcile(t)
	if known := w.states.of(b, epoch); known.slow != 0 || known.unwritten != nil ||
		known.generation != b.Generation {
		t.Errorf("known: %+v, want a prompt endpoint, and no unwritten report", known)
	}
	if recorded := len(w.Recorder.(*events.FakeRecorder).Events); recorded != 1 {
		t.Errorf("%d events, want one", recorded)
	}
	w.reconcile(t)
	if recorded := len(w.Recorder.(*events.FakeRecorder).Events); recorded != 1 {
		t.Errorf("%d events after a reconcile without a due probe, want one", recorded)
	}
	if err := w.stored.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t)
	if len(w.states.known) > 0 || testutil.CollectAndCount(w.metrics.up) > 0 {
		t.Errorf("known: %v, and %d series, of a deleted bucket", w.states.known, testutil.CollectAndCount(w.metrics.up))
	}
}

// A managed bucket gets the finalizer before any request; an observed one never does.
func TestManagedBucketsGetFinalizer(t *testing.T) {
	for policy, want := range map[v1beta1.BucketManagementPolicy][]string{
		v1beta1.BucketManage: {v1beta1.StorageBucketFinalizer}, v1beta1.BucketObserve: nil,
	} {
		w := newFixture(t, func(context.Context, client.Client) {})
		editStored(t, func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = policy })(t.Context(), w.stored)
		for range 2 {
			_, b := w.reconcile(t)
			if fmt.Sprint(b.Finalizers) != fmt.Sprint(want) {
				t.Errorf("%s: finalizers %q, want %q", policy, b.Finalizers, want)
			}
		}
		if w.requestCount.Load() == 0 {
			t.Errorf("%s: there was no request to the bucket", policy)
		}
	}
}

// Dashboards and alerts depend on the names, help texts, labels and buckets. All reasons of a
// retained bucket are exposed from the start.
func TestMetricsGolden(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.saw(bucket("b"), observation{verdict: good, took: 1500 * time.Millisecond}, good)
	m.saw(bucket("c"), observation{verdict: bad, took: 0}, bad)
	golden.Assert(t, reconcilertest.Exposed(t, registry), "metrics.txt")
}
