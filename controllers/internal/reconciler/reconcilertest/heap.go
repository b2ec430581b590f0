// SPDX-License-Identifier: Apache-2.0

package reconcilertest

import (
	"runtime"
	"testing"
)

// noise is how many bytes of a live heap differ for each of a thousand reconciles that leave nothing.
const noise = 256

// Heap is a benchmark that reports how many bytes of the live heap each reconcile leaves behind. The first ones fill
// what is allocated once.
func Heap(b *testing.B, reconcile func()) {
	b.Helper()
	live := func() float64 {
		var m runtime.MemStats
		for range 2 { // the second one frees what had a finalizer
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for range 10 {
		reconcile()
	}
	before := live()
	for range b.N {
		reconcile()
	}
	b.ReportMetric(max(noise, (live()-before)/float64(b.N)), "live-B/op")
}
