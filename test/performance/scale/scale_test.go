package scale_test

import (
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
	"leasehold.dev/test/performance/scale"
)

// What is counted is the same however little is measured on however busy a machine.
func TestQuickHasAllFigures(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	ctrl.SetLogger(logr.Discard())
	checkout, err := environment.Build(ctx, filepath.Join("..", "..", ".."), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	section, err := scale.Measure(ctx, environment.Parameters{
		Checkout: checkout, Seed: 1, Quick: true, Clock: clock.RealClock{}, Say: t.Logf,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(section.Failure).To(BeEmpty())
	byID := map[string]figures.Figure{}
	for _, f := range section.Figures {
		byID[f.ID] = f
		g.Expect(f.Verdict()).NotTo(Equal(figures.Absent), f.ID)
	}
	for _, id := range []string{
		"W4.idle.20", "W4.idle.40", "F5.40", "W4.limited", "M1.heap", "M1.resident.40", "W5",
	} {
		g.Expect(byID).To(HaveKey(id))
	}
	for _, n := range []string{"20", "40"} {
		g.Expect(byID["W4.idle."+n].Median()).To(And(BeNumerically(">", 0), BeNumerically("<", 1)))
		g.Expect(byID["W4.reads."+n].Verdict()).To(Equal(figures.Met))
		// On a machine that hangs now and then a write may meet a conflict, and be made twice. The
		// counts of one Tenant are in counts.golden.yaml.
		g.Expect(byID["W4.writes."+n].Median()).To(BeNumerically("~", 15, 1))
	}
}
