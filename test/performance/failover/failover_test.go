package failover

import (
	"context"
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
	checkout, err := environment.Build(t.Context(), root, t.TempDir())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, measure := range map[string]func(context.Context, environment.Parameters) (figures.Section, error){
		"Failover": Measure, "Pauses": MeasurePauses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			section, err := measure(t.Context(),
				environment.Parameters{Checkout: checkout, Seed: 1, Quick: true, Clock: clock.RealClock{}, Say: t.Logf})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(section.Figures).NotTo(BeEmpty())
			for _, f := range section.Figures {
				t.Logf("%-28s %v %s %s", f.ID, f.Runs, f.Unit, f.Verdict())
				g.Expect(f.Runs).NotTo(BeEmpty(), f.ID)
				if (strings.HasPrefix(f.ID, "F3.") || f.ID == "F8.calls") && f.Goal != nil {
					g.Expect(f.Verdict()).To(Equal(figures.Met), f.ID)
				}
			}
		})
	}
}
