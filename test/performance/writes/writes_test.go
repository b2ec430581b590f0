package writes

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/stage"
)

func TestTotals(t *testing.T) {
	for name, tc := range map[string]struct {
		phase counts.Phase
		want  totals
	}{
		"nothing": {counts.Phase{}, totals{}},
		"writes and reads": {counts.Phase{Counts: map[string]int{
			"write create namespaces": 3, "write patch tenants/status": 2, "read get namespaces": 4, "read list tenants": 1,
		}}, totals{writes: 5, reads: 5}},
		"a write without effect is one write": {counts.Phase{Counts: map[string]int{
			"write patch namespaces": 1, "no-op patch namespaces": 1,
		}}, totals{writes: 1}},
		"what is refused was sent": {counts.Phase{
			Counts: map[string]int{"refused 404 patch tenants": 1}, Timed: map[string]int{"conflict patch tenants": 2},
		}, totals{writes: 3, conflicts: 2}},
		"events, watches and passes are none": {counts.Phase{
			Counts: map[string]int{"event Tenant Updated": 1, "watch tenants": 2}, Timed: map[string]int{"reconcile tenant": 2},
		}, totals{passes: 2}},
	} {
		if got := totalsOf(tc.phase); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestJudge(t *testing.T) {
	g := NewWithT(t)
	run := func(name string, writes, passes, changes int) []counts.Phase {
		return []counts.Phase{{
			Name: name, Changes: changes,
			Counts: map[string]int{"write patch x": writes}, Timed: map[string]int{"reconcile x": passes},
		}}
	}
	found := func(id string, runs ...[]counts.Phase) figures.Figure {
		for _, f := range judge(runs) {
			if f.ID == id {
				return f
			}
		}
		t.Fatalf("there is no figure %s", id)
		return figures.Figure{}
	}
	exact, more := run("tenant.create", 11, 2, 1), run("tenant.create", 22, 3, 1)
	g.Expect(found("W1.tenant.create", exact, exact).Verdict()).To(Equal(figures.Met))
	g.Expect(found("W1.tenant.create", exact, more).Verdict()).To(Equal(figures.Missed))
	g.Expect(found("W1.tenant.create", exact, more).Runs).To(Equal([]float64{1, 2}))
	g.Expect(found("W1.tenant.create.least", exact).Runs).To(HaveExactElements(BeNumerically("~", 11.0/9)))
	g.Expect(found("W1.tenant.update.label", run("tenant.update.label", 0, 0, 1)).Verdict()).To(Equal(figures.Met))
	g.Expect(found("W1.tenant.update.label", run("tenant.update.label", 1, 0, 1)).Verdict()).To(Equal(figures.Missed))
	g.Expect(found("W1.tenant.delete", exact).Verdict()).To(Equal(figures.Absent))
	g.Expect(found("W2.failover.writes", run("fleet.failover", 1, 9, 1)).Verdict()).To(Equal(figures.Missed))
	g.Expect(found("W3.tenant", exact).Verdict()).To(Equal(figures.Met))
	g.Expect(found("W3.tenant", more).Verdict()).To(Equal(figures.Missed))
}

// The table of necessary writes and the story are about the same phases.
func TestMeasure(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	checkout, err := stage.Build(ctx, filepath.Join("..", "..", ".."), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	section, err := Measure(ctx, stage.Bench{Checkout: checkout, Dir: t.TempDir(), Quick: true, Seed: 1, Clock: clock.RealClock{}, Say: t.Logf})
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("took %v\n%s", section.Took, section.Text)
	for _, f := range section.Figures {
		t.Logf("%s %v %s %s", f.ID, f.Runs, f.Verdict(), f.Note)
		g.Expect(f.Runs).To(HaveLen(1), f.ID)
		// How many passes it takes, and how many writes meet an editor's, depends on time.
		if strings.HasPrefix(f.ID, "W1") || strings.HasPrefix(f.ID, "W2") {
			g.Expect(f.Verdict()).NotTo(Equal(figures.Missed), f.ID)
		}
	}
	for _, c := range costs {
		g.Expect(section.Text).To(ContainSubstring("| "+c.phase+" |"), "the story has no such phase")
	}
	g.Expect(strings.Count(section.Text, "\n| ")).To(Equal(len(costs)+4), "each phase but those of the fleet has its necessary writes")
}
