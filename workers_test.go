package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
)

// TestEachControllerHasItsWorkers tests that a controller has as many workers as its options
// say, and that the readiness check waits for all kinds that it watches.
func TestEachControllerHasItsWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		setup   func(context.Context, ctrl.Manager, newQueue) error
		waits   []client.Object
		workers float64
	}{
		"tenant": {func(ctx context.Context, mgr ctrl.Manager, q newQueue) error {
			return tenant.SetupWithManager(ctx, mgr, tenant.Options{MaxConcurrentReconciles: 5, NewQueue: q})
		}, tenant.WatchedObjects(), 5},
		"markdownview": {func(_ context.Context, mgr ctrl.Manager, q newQueue) error {
			return markdownview.SetupWithManager(mgr, markdownview.Options{MaxConcurrentReconciles: 6, NewQueue: q})
		}, markdownview.WatchedObjects(), 6},
		"storagebucket": {func(_ context.Context, mgr ctrl.Manager, q newQueue) error {
			return storagebucket.SetupWithManager(mgr, storagebucket.Options{MaxConcurrentReconciles: 7, NewQueue: q})
		}, storagebucket.WatchedObjects(), 7},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWatches(t, tc.setup)
			if got := workersOf(t, name); got != tc.workers {
				t.Errorf("%v workers, want %v", got, tc.workers)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for kind := range w.informers {
				if !slices.ContainsFunc(tc.waits, func(o client.Object) bool { return fmt.Sprintf("%T", o) == kind }) {
					t.Errorf("%s is watched, and the readiness check does not wait for it", kind)
				}
			}
		})
	}
}

// workersOf is how many workers a controller has by its metric.
func workersOf(t *testing.T, controller string) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "controller_runtime_max_concurrent_reconciles" && m.GetLabel()[0].GetValue() == controller {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
