package storagebucket

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

var timedOut, noSecret = failed(v1beta1.ReasonProbeTimeout), failed(v1beta1.ReasonCredentialsNotFound)

// pauses returns the pause after each of the probes of one bucket.
func pauses(b *v1beta1.StorageBucket, results ...s3.Verdict) []time.Duration {
	var s probeState
	var list []time.Duration
	for _, result := range results {
		found := observation{took: time.Second}
		if result == noSecret {
			found = observation{lacking: true}
		}
		s = s.after(found, result, b.Generation, epoch)
		list = append(list, s.pause(b))
	}
	return list
}

func TestPauses(t *testing.T) {
	const s, m = time.Second, time.Minute
	for name, tc := range map[string]struct {
		period  int32
		results []s3.Verdict
		want    []time.Duration
	}{
		"timeouts, beyond the threshold of 3": {60,
			[]s3.Verdict{timedOut, timedOut, timedOut, timedOut, timedOut, timedOut, timedOut, timedOut},
			[]time.Duration{m, m, m, 2 * m, 4 * m, 8 * m, 10 * m, 10 * m}},
		"timeouts with a period longer than any pause": {3600, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, timedOut},
			[]time.Duration{60 * m, 60 * m, 60 * m, 60 * m, 60 * m}},
		"a success after timeouts": {60, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, good, timedOut},
			[]time.Duration{m, m, m, 2 * m, m, m}},
		"another failure after timeouts": {60, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, bad, timedOut},
			[]time.Duration{m, m, m, 2 * m, m, m}},
		"other failures": {60, []s3.Verdict{bad, bad, bad, bad, bad}, []time.Duration{m, m, m, m, m}},
		"no Secret": {60, []s3.Verdict{noSecret, noSecret, noSecret, noSecret, noSecret, good},
			[]time.Duration{5 * s, 10 * s, 20 * s, 40 * s, m, m}},
		"a Secret that is deleted": {60, []s3.Verdict{good, noSecret, good, noSecret}, []time.Duration{m, 5 * s, m, 5 * s}},
	} {
		if diff := cmp.Diff(tc.want, pauses(bucket("b", every(tc.period)), tc.results...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	long := make([]s3.Verdict, 100)
	for i := range long {
		long[i] = noSecret
	}
	if last := pauses(bucket("b", every(86400)), long...)[99]; last != 5*s<<10 {
		t.Errorf("a pause of %s after 100 probes without a Secret, want %s", last, 5*s<<10)
	}
}

func TestNewSpecEndsPauses(t *testing.T) {
	b := bucket("b")
	var s probeState
	for range 10 {
		s = s.after(observation{took: time.Second}, timedOut, b.Generation, epoch)
	}
	b.Generation++
	if due := s.due(b); !due.IsZero() {
		t.Errorf("a new spec is due at %s, want at once", due)
	}
	if s = s.after(observation{took: time.Second}, timedOut, b.Generation, epoch); s.pause(b) != time.Minute {
		t.Errorf("a pause of %s after the first timeout of a new spec, want a period", s.pause(b))
	}
}

// A changed spec resets all counters, whatever the result of its first probe.
func TestNewSpecResetsCounters(t *testing.T) {
	kinds := map[string]struct {
		found  observation
		result s3.Verdict
		want   probeState // its counters after one probe
	}{
		"a timeout":       {observation{took: time.Second}, timedOut, probeState{failures: 1, timeouts: 1}},
		"no Secret":       {observation{lacking: true}, noSecret, probeState{failures: 1, lacking: 1}},
		"another failure": {observation{took: time.Second}, bad, probeState{failures: 1}},
		"a success":       {observation{took: time.Second}, good, probeState{}},
	}
	for before, was := range kinds {
		for first, is := range kinds {
			var s probeState
			for range 10 {
				s = s.after(was.found, was.result, 1, epoch)
			}
			s = s.after(is.found, is.result, 2, epoch)
			got := probeState{failures: s.failures, timeouts: s.timeouts, lacking: s.lacking}
			if got != is.want {
				t.Errorf("%s after 10 times %s of another spec: %+v, want %+v", first, before, got, is.want)
			}
		}
	}
}

// A Secret or a CA's ConfigMap that is created later is used within seconds, however long the
// period is, even after a change of the leader.
func TestCreatedReferenceIsUsedSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		lacks  func(*testing.T, *fixture)
		create client.Object
	}{
		"Secret": {v1beta1.ReasonCredentialsNotFound, func(t *testing.T, w *fixture) {
			t.Helper()
			if err := w.stored.Delete(t.Context(), credentialsForTest()); err != nil {
				t.Fatal(err)
			}
		}, credentialsForTest()},
		"ConfigMap": {v1beta1.ReasonTLSVerificationFailed, func(t *testing.T, w *fixture) {
			t.Helper()
			editStored(t, func(b *v1beta1.StorageBucket) {
				b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
			})(t.Context(), w.stored)
		}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"},
			Data: map[string]string{"ca.crt": "none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(context.Context, client.Client) {})
			clock := w.Clock.(*testingclock.FakePassiveClock)
			editStored(t, func(b *v1beta1.StorageBucket) {
				b.Spec.Probe.PeriodSeconds, b.Spec.Probe.FailureThreshold = 86400,
					1
			})(t.Context(), w.stored)
			tc.lacks(t, w)
			_, b := w.reconcile(t)
			missing := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
			if missing.Reason != tc.reason {
				t.Fatalf("Ready %+v, want %s", missing, tc.reason)
			}
			if err := w.stored.Create(t.Context(), tc.create); err != nil {
				t.Fatal(err)
			}
			for _, leader := range []string{"the same", "the next"} {
				if leader == "the next" {
					w.states = probeStates{}
					w.states.of(b, clock.Now())
				}
				if due := w.due(t.Context(), nil); len(due) != 0 {
					t.Errorf("%s leader probes at once", leader)
				}
				clock.SetTime(clock.Now().Add(6 * time.Second))
				if due := w.due(t.Context(), nil); len(due) != 1 {
					t.Errorf("%s leader does not probe after 6 s", leader)
				}
			}
			if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err != nil {
				t.Fatal(err)
			}
			if _, b = w.reconcile(t); reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady).
				Message == missing.Message {
				t.Errorf("still %q", missing.Message)
			}
		})
	}
}

func credentialsForTest() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "creds"}, Data: map[string][]byte{
		v1beta1.SecretKeyAccessKeyID: []byte("key"), v1beta1.SecretKeySecretAccessKey: []byte("secret"),
	}}
}
