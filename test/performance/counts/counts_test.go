package counts_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/stage"
)

// What a Tenant with three namespaces costs by the decisions in DESIGN.md. Who changes
// one of these numbers changes what every Tenant costs.
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
		"write patch tenants/status":    2,
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
	"tenant.drift.marks":  {"write patch namespaces": 1},
	"tenant.delete.retain": {
		"write delete rolebindings":        3,
		"write patch namespaces":           3, // the marks come off
		"write delete clusterroles":        1,
		"write delete clusterrolebindings": 1,
		"write patch tenants":              1, // the finalizer
		"event Tenant NamespaceRetained":   3,
	},
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
	for name, want := range costs {
		g.Expect(found).To(HaveKeyWithValue(name, want), name)
	}
}
