package main

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
)

// One manager serves all controllers: its scheme has each kind that they watch, and its cache
// drops contents of the kinds that hold them.
func TestManagerHasAllKinds(t *testing.T) {
	m := shippedOptions(t)
	for _, kinds := range [][]client.Object{tenant.WatchedObjects(), storagebucket.WatchedObjects(),
		markdownview.WatchedObjects()} {
		for _, o := range kinds {
			if _, _, err := m.Scheme.ObjectKinds(o); err != nil {
				t.Errorf("the scheme: %v", err)
			}
		}
	}
	if m.Cache.DefaultTransform == nil || m.Cache.NewInformer == nil || len(m.Cache.ByObject) == 0 {
		t.Errorf("the cache keeps whole objects: %+v", m.Cache)
	}
	if m.Logger.GetSink() == nil {
		t.Error("the manager has no logger")
	}
}
