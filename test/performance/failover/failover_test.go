package failover

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
)

const root = "../../.."

func TestMeasure(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	checkout, err := environment.Build(ctx, root, t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	section, err := Measure(ctx, environment.Parameters{Checkout: checkout, Seed: 1, Quick: true, Clock: clock.RealClock{}, Say: t.Logf})
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range section.Figures {
		t.Logf("%-28s %v %s %s", f.ID, f.Runs, f.Unit, f.Verdict())
		// The peer does not give the Lease back.
		if f.ID != "F2.leave.peer" && f.ID != "F2.release.peer" {
			g.Expect(f.Runs).NotTo(BeEmpty(), f.ID)
		}
		if strings.HasPrefix(f.ID, "F3.") && f.Goal != nil {
			g.Expect(f.Verdict()).To(Equal(figures.Met), f.ID)
		}
	}
}
