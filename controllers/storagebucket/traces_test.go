package storagebucket

import (
	"context"
	"fmt"
	"strings"
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
)

// traces are what the metrics say after some reconciles.
type traces struct {
	Up       float64
	Results  map[string]float64
	Measured int // results with a duration
}

func (w *world) traces() traces {
	got := traces{Up: testutil.ToFloat64(w.metrics.up.WithLabelValues("team", "b")), Results: map[string]float64{}, Measured: testutil.CollectAndCount(w.metrics.duration)}
	for _, reason := range allReasons {
		if n := testutil.ToFloat64(w.metrics.probes.WithLabelValues(reason)); n > 0 {
			got.Results[reason] = n
		}
	}
	return got
}

// Each probe is counted once, by what it found. What is looked at before it is due is no
// probe, and where nothing was sent there is no duration.
func TestEachProbeIsCountedOnce(t *testing.T) {
	w := newWorld(t, func(context.Context, client.Client) {})
	clock := w.Clock.(*testingclock.FakePassiveClock)
	w.Clock = advancing{clock}
	later := func() { clock.SetTime(clock.Now().Add(2 * time.Minute)) }
	for range 3 {
		w.reconcile(t)
	}
	succeeded := map[string]float64{v1beta1.ReasonProbeSucceeded: 1}
	if diff := cmp.Diff(traces{Up: 1, Results: succeeded, Measured: 1}, w.traces()); diff != "" {
		t.Errorf("after one probe (-want +got):\n%s", diff)
	}
	later()
	w.reconcile(t)
	if err := w.stored.Delete(t.Context(), credentialsForTest()); err != nil {
		t.Fatal(err)
	}
	later()
	w.reconcile(t)
	want := traces{Up: 0, Results: map[string]float64{v1beta1.ReasonProbeSucceeded: 2, v1beta1.ReasonCredentialsNotFound: 1}, Measured: 1}
	if diff := cmp.Diff(want, w.traces()); diff != "" {
		t.Errorf("after another, and one without a Secret (-want +got):\n%s", diff)
	}
}

// The counter has the result of the reconcile, which created the missing bucket. The duration
// has the result of the probe.
func TestCreatedBucketCountsAsSuccess(t *testing.T) {
	w := newWorld(t, func(context.Context, client.Client) {})
	w.metrics.saw(bucket("b"), observation{verdict: failed(v1beta1.ReasonBucketNotFound), took: time.Second}, good)
	if diff := cmp.Diff(traces{Up: 1, Results: map[string]float64{v1beta1.ReasonProbeSucceeded: 1}, Measured: 1}, w.traces()); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	if !w.metrics.duration.DeleteLabelValues(v1beta1.ReasonBucketNotFound) {
		t.Error("the duration does not have the result of the probe")
	}
}

// advancing is a clock by which each look at it takes a moment.
type advancing struct{ *testingclock.FakePassiveClock }

func (c advancing) Since(began time.Time) time.Duration {
	return c.FakePassiveClock.Since(began) + time.Millisecond
}

// What is known of a bucket: how its endpoint answered, and that its report was written. It
// goes with the bucket, and so does its series.
func TestWhatIsKnownOfABucketGoesWithIt(t *testing.T) {
	w := newWorld(t, func(context.Context, client.Client) {})
	w.Clock = advancing{w.Clock.(*testingclock.FakePassiveClock)}
	_, b := w.reconcile(t)
	if known := w.states.of(b, epoch); known.last != outcomePrompt || known.unwritten != nil || known.generation != b.Generation {
		t.Errorf("known: %+v, want an endpoint that answered soon, and nothing left to write", known)
	}
	if told := len(w.Recorder.(*events.FakeRecorder).Events); told != 1 {
		t.Errorf("%d events, want one", told)
	}
	w.reconcile(t)
	if told := len(w.Recorder.(*events.FakeRecorder).Events); told != 1 {
		t.Errorf("%d events after a look that found nothing due, want still one", told)
	}
	if err := w.stored.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t)
	if len(w.states.known) > 0 || testutil.CollectAndCount(w.metrics.up) > 0 {
		t.Errorf("known: %v, and %d series, of a bucket that is gone", w.states.known, testutil.CollectAndCount(w.metrics.up))
	}
}

// A bucket that may be made is held first, one that is only looked at never is.
func TestManagedBucketsAreHeld(t *testing.T) {
	for policy, want := range map[v1beta1.BucketManagementPolicy][]string{
		v1beta1.BucketManage: {v1beta1.StorageBucketFinalizer}, v1beta1.BucketObserve: nil,
	} {
		w := newWorld(t, func(context.Context, client.Client) {})
		change(t, func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = policy })(t.Context(), w.stored)
		for range 2 {
			_, b := w.reconcile(t)
			if fmt.Sprint(b.Finalizers) != fmt.Sprint(want) {
				t.Errorf("%s: finalizers %q, want %q", policy, b.Finalizers, want)
			}
		}
		if w.asked.Load() == 0 {
			t.Errorf("%s: the bucket was not asked", policy)
		}
	}
}

// The names, help texts, labels and buckets are what dashboards and alerts are made of. Each
// reason for which a bucket can be kept is there from the start.
func TestMetricsGolden(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.saw(bucket("b"), observation{verdict: good, took: 1500 * time.Millisecond}, good)
	m.saw(bucket("c"), observation{verdict: bad, took: 0}, bad)
	golden.Assert(t, strings.Join(gathered(t, registry), "\n")+"\n", "metrics.txt")
}
