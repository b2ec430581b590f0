// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/storagebucket/s3"
)

// `make gate` runs the benchmarks of bench_test.go at each size n and compares them with the base
// of a change. The comparison is by name, so the names must not change.

var benchTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleet returns n buckets whose last probe succeeded.
func fleet(n int) []*v1beta1.StorageBucket {
	list := make([]*v1beta1.StorageBucket, n)
	for i := range list {
		b := &v1beta1.StorageBucket{}
		b.Namespace, b.Name, b.UID, b.Generation = "ns", fmt.Sprintf("b%05d", i), types.UID(fmt.Sprintf("uid-%05d", i)), 1
		b.Spec.Probe = v1beta1.ProbeSpec{PeriodSeconds: 60, TimeoutSeconds: 5, FailureThreshold: 3}
		b.Status = summarized(b, probe{ended: benchTime, succeeded: benchTime}, "7", good, benchTime)
		list[i] = b
	}
	return list
}

// BenchmarkHeap probes a bucket so seldom that the status is written each time.
func BenchmarkHeap(b *testing.B) {
	w := newFixture(b, scenario{with: manage, service: owned})
	w.Rules.Guard = func(*http.Transport) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			w.service.ServeHTTP(answer, r)
			return answer.Result(), nil
		})
	}
	reconcilertest.Heap(b, func() {
		w.clock.SetTime(w.clock.Now().Add(2 * refresh))
		if last := w.reconcile().Status.LastProbeTime; !last.Time.Equal(w.clock.Now()) {
			b.Fatalf("at %s the last probe is that of %s", w.clock.Now(), last)
		}
		w.events()
	})
}

// BenchmarkDue measures the check that each tick does for each bucket.
func BenchmarkDue(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var known probes
			all := fleet(n)
			for _, bucket := range all {
				known.of(bucket, benchTime)
			}
			for b.Loop() {
				for _, bucket := range all {
					known.isDue(bucket, benchTime)
				}
			}
		})
	}
}

func BenchmarkSummarize(b *testing.B) {
	now := benchTime.Add(time.Minute)
	benchmarkSummarize(b, probe{ended: now, succeeded: now}, good, now)
}

// BenchmarkSummarizeFailure measures a bucket whose endpoint stops responding.
func BenchmarkSummarizeFailure(b *testing.B) {
	now := benchTime.Add(time.Minute)
	benchmarkSummarize(b, probe{ended: now, succeeded: benchTime, failures: 3}, timedOut, now)
}

func benchmarkSummarize(b *testing.B, p probe, result s3.Verdict, now time.Time) {
	bucket := fleet(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		after := summarized(bucket, p, "7", result, now)
		needsWrite(bucket.Status, after)
		transitions(bucket.Status, after)
	}
}
