package storagebucket

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bucket returns a bucket with the defaults of the API server.
func bucket(name string, with ...func(*v1beta1.StorageBucket)) *v1beta1.StorageBucket {
	b := &v1beta1.StorageBucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1beta1.StorageBucketSpec{
			BucketName: "team-data", Endpoint: "https://s3.example.com", Region: "us-east-1",
			AddressingStyle: v1beta1.AddressingPath, CredentialsSecretRef: v1beta1.SecretReference{Name: "creds"},
			ManagementPolicy: v1beta1.BucketObserve, DeletionPolicy: v1beta1.BucketRetain,
			Probe: v1beta1.ProbeSpec{PeriodSeconds: 60, TimeoutSeconds: 10, FailureThreshold: 3},
		},
	}
	for _, f := range with {
		f(b)
	}
	return b
}

// probedAt sets the time of the last probe in the status.
func probedAt(at time.Time) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Status.LastProbeTime, b.Status.ObservedGeneration = new(metav1.NewTime(at)), b.Generation
	}
}

func every(seconds int32) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = seconds }
}

var good, bad = s3.Verdict{Reason: v1beta1.ReasonProbeSucceeded, Message: "fine"},
	s3.Verdict{Reason: v1beta1.ReasonServerError, Message: "odd"}

func TestDue(t *testing.T) {
	var l probeStates
	fresh := bucket("fresh")
	if due := l.of(fresh, epoch).due(fresh); !due.IsZero() {
		t.Errorf("what was never probed is due at %s, want at once", due)
	}
	changed := bucket("changed", probedAt(epoch))
	changed.Generation++
	if due := l.of(changed, epoch).due(changed); !due.IsZero() {
		t.Errorf("what changed is due at %s, want at once", due)
	}
	l.store(fresh, l.of(fresh, epoch).after(observation{}, good, 1, epoch))
	if due, met := l.when(fresh); !met || due.Before(epoch.Add(time.Minute)) || due.After(epoch.Add(66*time.Second)) {
		t.Errorf("after a probe: due at %s, want a minute later and at most a tenth more", due)
	}
	fresh.Generation++
	if due, _ := l.when(fresh); !due.IsZero() {
		t.Errorf("a new spec after a probe: due at %s, want at once", due)
	}
}

func TestDueIsKeptAcrossRestart(t *testing.T) {
	b := bucket("b", every(3600), probedAt(epoch))
	restart := epoch.Add(10 * time.Minute)
	due := (&probeStates{}).of(b, restart).due(b)
	// The status has whole seconds, so the probe may have been almost one second later.
	if want := reconciler.NextDue(epoch.Add(time.Second), time.Hour, b.UID); !due.Equal(want) ||
		due.After(epoch.Add(67*time.Minute)) {
		t.Errorf("due at %s, want %s, an hour after the probe in the status", due, want)
	}
}

func TestRestartSpreadsProbes(t *testing.T) {
	for period, window := range map[int32]time.Duration{60: time.Minute, 86400: refresh} {
		seconds := map[int]int{}
		for i := range 1000 {
			b := bucket(fmt.Sprint(i), every(period), probedAt(epoch))
			restart := epoch.Add(100 * time.Hour)
			due := (&probeStates{}).of(b, restart).due(b).Sub(restart)
			if due < 0 || due > window {
				t.Fatalf("overdue with a period of %d s: due after %s, want within %s", period, due, window)
			}
			seconds[int(due/time.Second)]++
		}
		if most := 3 * 1000 / int(window/time.Second); seconds[0] > most {
			t.Errorf("period %d s: %d of 1000 in the first second, want at most %d", period, seconds[0], most)
		}
	}
}

func TestProbeStateIsOfOneUID(t *testing.T) {
	var l probeStates
	b := bucket("b")
	l.store(b, l.of(b, epoch).after(observation{}, good, 1, epoch))
	again := bucket("b")
	again.UID = "another"
	if _, met := l.when(again); met {
		t.Error("an object created again has the state of the first")
	}
	if due := l.of(again, epoch).due(again); !due.IsZero() {
		t.Errorf("an object created again is due at %s, want at once", due)
	}
	l.forget(client.ObjectKeyFromObject(b))
	if len(l.known) != 0 {
		t.Errorf("%d states of deleted objects remain", len(l.known))
	}
}

func TestFailuresAreCounted(t *testing.T) {
	b := bucket("b", probedAt(epoch))
	b.Status.ConsecutiveFailures = 2
	l := (&probeStates{}).of(b, epoch)
	if l = l.after(observation{}, bad, 1, epoch); l.failures != 3 {
		t.Errorf("%d failures after a restart and one more, want 3", l.failures)
	}
	if l = l.after(observation{}, bad, 2, epoch); l.failures != 1 {
		t.Errorf("%d failures of a new spec, want 1", l.failures)
	}
	if l = l.after(observation{}, good, 2, epoch); l.failures != 0 || !l.succeeded.Equal(epoch) {
		t.Errorf("after a success: %d failures, succeeded at %s", l.failures, l.succeeded)
	}
}
