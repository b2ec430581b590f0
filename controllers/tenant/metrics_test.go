package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Each creation and removal of a namespace is counted once, independent of the number of
// reconciles. Foreign namespaces do not count as owned.
func TestNamespaceMetricsCountOnce(t *testing.T) {
	type counts struct{ Added, Removed, Owned float64 }
	kept := tenant("a", naming("dev"), owning("a-dev"))
	dropped := tenant("a", naming("dev"), owning("a-dev", "a-old"))
	letGo := tenant("a", naming("dev"), retaining, owning("a-dev", "a-old"))
	for name, tc := range map[string]struct {
		objects []client.Object
		want    counts
	}{
		"created":  {[]client.Object{tenant("a", naming("dev", "prod"))}, counts{Added: 2, Owned: 2}},
		"in place": {[]client.Object{kept, namespace("a-dev", ownedBy(kept))}, counts{Owned: 1}},
		"a stranger's": {[]client.Object{tenant("a", naming("dev", "prod")), namespace("a-prod")},
			counts{Added: 1, Owned: 1}},
		"deleted": {[]client.Object{dropped, namespace("a-dev", ownedBy(dropped)), namespace("a-old", ownedBy(dropped))},
			counts{Removed: 1, Owned: 1}},
		"let go": {[]client.Object{letGo, namespace("a-dev", ownedBy(letGo)), namespace("a-old", ownedBy(letGo))},
			counts{Removed: 1, Owned: 1}},
		"gone by itself": {[]client.Object{dropped, namespace("a-dev", ownedBy(dropped))}, counts{Owned: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := make([]client.Object, len(tc.objects))
			for i, o := range tc.objects {
				objects[i] = o.DeepCopyObject().(client.Object)
			}
			w := newWorld(t, objects...)
			for range 3 {
				w.must(w.reconcile())
				w.sync()
			}
			m := w.r.metrics
			got := counts{testutil.ToFloat64(m.added), testutil.ToFloat64(m.removed),
				testutil.ToFloat64(m.namespaces.WithLabelValues("a"))}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// A deleted Tenant has no series, and a new one of its name is reconciled without delay.
func TestSeriesIsDeletedWithTheTenant(t *testing.T) {
	w := newWorld(t, tenant("a", naming("dev")))
	w.must(w.reconcile())
	if n := testutil.CollectAndCount(w.r.metrics.namespaces); n != 1 {
		t.Fatalf("%d series, want 1", n)
	}
	gone := find[v1beta1.Tenant](w, "", "a")
	gone.Finalizers = nil
	w.must(w.live.Update(t.Context(), gone))
	w.must(w.live.Delete(t.Context(), gone))
	w.sync()
	w.must(w.reconcile())
	if n := testutil.CollectAndCount(w.r.metrics.namespaces); n != 0 {
		t.Errorf("%d series of a deleted Tenant, want none", n)
	}
	if at, known := w.r.lastReconciled.Load("a"); known {
		t.Errorf("the last reconcile of a deleted Tenant is still recorded: %v", at)
	}
}
