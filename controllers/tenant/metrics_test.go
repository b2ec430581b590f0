package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Each namespace that is made or lost is counted once, however often the Tenant is reconciled, and
// however the namespace is lost. What is not the Tenant's is not among those that it owns.
func TestNamespacesAreCountedOnce(t *testing.T) {
	type counts struct{ Added, Removed, Owned float64 }
	kept := tenant("a", asking("dev"), holding("a-dev"))
	dropped := tenant("a", asking("dev"), holding("a-dev", "a-old"))
	letGo := tenant("a", asking("dev"), retaining, holding("a-dev", "a-old"))
	for name, tc := range map[string]struct {
		objects []client.Object
		want    counts
	}{
		"created":      {[]client.Object{tenant("a", asking("dev", "prod"))}, counts{Added: 2, Owned: 2}},
		"in place":     {[]client.Object{kept, namespace("a-dev", markedBy(kept))}, counts{Owned: 1}},
		"a stranger's": {[]client.Object{tenant("a", asking("dev", "prod")), namespace("a-prod")}, counts{Added: 1, Owned: 1}},
		"deleted": {[]client.Object{dropped, namespace("a-dev", markedBy(dropped)), namespace("a-old", markedBy(dropped))},
			counts{Removed: 1, Owned: 1}},
		"let go": {[]client.Object{letGo, namespace("a-dev", markedBy(letGo)), namespace("a-old", markedBy(letGo))},
			counts{Removed: 1, Owned: 1}},
		"gone by itself": {[]client.Object{dropped, namespace("a-dev", markedBy(dropped))}, counts{Owned: 1}},
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
			got := counts{testutil.ToFloat64(m.added), testutil.ToFloat64(m.removed), testutil.ToFloat64(m.namespaces.WithLabelValues("a"))}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// A Tenant that is gone has no series, and another one of its name is reconciled without delay.
func TestTheSeriesGoesWithTheTenant(t *testing.T) {
	w := newWorld(t, tenant("a", asking("dev")))
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
		t.Errorf("%d series of a Tenant that is gone, want none", n)
	}
	if at, known := w.r.looks.Load("a"); known {
		t.Errorf("the last look at a Tenant that is gone, at %v, is remembered", at)
	}
}
