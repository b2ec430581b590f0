package counts_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/stage"
)

// What each change costs by the decisions in docs/decisions. Who changes one of these
// numbers changes what every object costs.
var costs = map[string]map[string]int{
	"tenant.create": {
		"write patch tenants":              1, // the finalizer
		"write patch tenants/status":       2, // D4: the names before they are created; and how it went
		"write create namespaces":          3,
		"write create rolebindings":        3,
		"write create clusterroles":        1, // the admins may read their Tenant
		"write create clusterrolebindings": 1,
		"event Tenant NamespaceCreated":    3,
		"event Tenant Updated":             1,
	},
	"tenant.update.admins": {
		"write patch rolebindings":        3,
		"write patch clusterrolebindings": 1,
		"write patch tenants/status":      1, // nothing is created, so nothing is declared
		"event Tenant Updated":            1,
	},
	"tenant.update.add": {
		"write patch tenants/status":    2, // D4
		"write create namespaces":       1,
		"write create rolebindings":     1,
		"event Tenant NamespaceCreated": 1,
		"event Tenant Updated":          1,
	},
	"tenant.update.order": {
		"write patch tenants/status": 1, // the generation that was seen
		"event Tenant Updated":       1,
	},
	"tenant.update.label": {},
	"tenant.update.drop": {
		"read get namespaces":           2, // before it is deleted, and D8
		"write delete namespaces":       1,
		"write patch tenants/status":    2, // that it goes, and that it is gone
		"event Tenant NamespaceDeleted": 1,
		"event Tenant Updated":          1,
	},
	"tenant.drift.binding": {
		"write patch rolebindings":          1,
		"event Tenant AdminBindingRepaired": 1,
		"event Tenant Updated again":        1,
	},
	"tenant.drift.marks": {"write patch namespaces": 1},
	"tenant.delete": {
		"read get namespaces":              6, // each before it is deleted, and D8
		"read list namespaces":             1, // false owner references, before the finalizer goes
		"write delete namespaces":          3,
		"write patch tenants/status":       3, // that all go, that one is gone, and another
		"write delete clusterroles":        1,
		"write delete clusterrolebindings": 1,
		"write patch tenants":              1, // the finalizer
		"event Tenant NamespaceDeleted":    3,
	},
	"tenant.delete.retain": {
		"read get rolebindings":            3, // what the reserved name is bound to, before each is released
		"read list namespaces":             1, // as above
		"write delete rolebindings":        3,
		"write patch namespaces":           3, // the marks come off
		"write delete clusterroles":        1,
		"write delete clusterrolebindings": 1,
		"write patch tenants":              1, // the finalizer
		"event Tenant NamespaceRetained":   3,
	},
	"storagebucket.create.observe": {
		"read get secrets":                  1, // D22: for each probe, past the cache
		"write patch storagebuckets/status": 1,
		"event StorageBucket BucketHealthy": 1,
	},
	"storagebucket.create.manage": {
		"read get secrets":                  1,
		"write patch storagebuckets":        1, // the finalizer
		"write patch storagebuckets/status": 2, // D17: the intent; and how it went
		"event StorageBucket BucketCreated": 1,
		"event StorageBucket BucketHealthy": 1,
	},
	"storagebucket.probe":          {"read get secrets": 1},
	"storagebucket.delete.observe": {}, // D18: no finalizer
	"storagebucket.delete": {
		"read get secrets":                  1,
		"write patch storagebuckets":        1, // the finalizer
		"event StorageBucket BucketDeleted": 1,
	},
	"markdownview.serve": {
		"write patch markdownviews/status": 1,
		"event MarkdownView Available":     1,
	},
	"markdownview.update.label": {},
	"markdownview.delete":       {}, // D26: no finalizer
	"fleet.resync":              {},
	"fleet.failover":            {},
}

func TestEachChangeCostsWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	checkout, err := stage.Build(ctx, filepath.Join("..", "..", ".."), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	phases, err := counts.Take(ctx, stage.Bench{Checkout: checkout, Dir: t.TempDir(), Quick: true, Clock: clock.RealClock{}, Say: t.Logf})
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]map[string]int{}
	for _, p := range phases {
		t.Logf("%s in %v: %v, and %v", p.Name, p.Took, p.Counts, p.Timed)
		found[p.Name] = p.Counts
	}
	// Two replicas with warm caches, and nothing is read in another way.
	for key, n := range found["fleet.restart"] {
		g.Expect(key).To(HavePrefix("watch "))
		g.Expect(n).To(Equal(2), key)
	}
	g.Expect(found["fleet.restart"]).To(HaveKey("watch tenants"))
	for name, want := range costs {
		g.Expect(found).To(HaveKeyWithValue(name, want), name)
	}
}
