package benchmarks

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/row"
)

// tolerant lets times be half as long again.
func tolerant(string) float64 { return 0.5 }

// linear is a function that was measured at three sizes.
func linear() results {
	return results{
		{"tenant.Decide", 10}:   {12, 1000, 1_000},
		{"tenant.Decide", 100}:  {35, 10_000, 10_000},
		{"tenant.Decide", 1000}: {38, 100_000, 100_000},
		{"tenant.Owns", 0}:      {0, 0, 50},
	}
}

// not are the rows of a comparison that are not the same, by ID.
func not(c comparison) map[string]row.Verdict {
	out := map[string]row.Verdict{}
	for _, r := range c.rows {
		if r.Verdict != row.Same {
			out[r.ID] = r.Verdict
		}
	}
	return out
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(results)
		want   map[string]row.Verdict
	}{
		"nothing": {func(results) {}, map[string]row.Verdict{}},
		"one allocation more": {
			func(head results) { head[key{"tenant.Decide", 10}] = figures{13, 1000, 1_000} },
			map[string]row.Verdict{"benchmarks/tenant.Decide/n=10/allocations": row.Worse}},
		"one where there was none": {
			func(head results) { head[key{"tenant.Owns", 0}] = figures{1, 16, 50} },
			map[string]row.Verdict{"benchmarks/tenant.Owns/allocations": row.Worse, "benchmarks/tenant.Owns/bytes": row.Worse}},
		"one less": {
			func(head results) { head[key{"tenant.Decide", 10}] = figures{11, 1000, 1_000} },
			map[string]row.Verdict{"benchmarks/tenant.Decide/n=10/allocations": row.Better}},
		"bytes by chance": {
			func(head results) { head[key{"tenant.Decide", 1000}] = figures{38, 100_900, 100_000} },
			map[string]row.Verdict{}},
		"many more bytes": {
			func(head results) { head[key{"tenant.Decide", 1000}] = figures{38, 110_000, 100_000} },
			map[string]row.Verdict{"benchmarks/tenant.Decide/n=1000/bytes": row.Worse}},
		"a slower machine": {
			func(head results) {
				for k, f := range head {
					f.nanoseconds *= 1.4
					head[k] = f
				}
			},
			map[string]row.Verdict{}},
		"a loop in a loop": {
			func(head results) { head[key{"tenant.Decide", 1000}] = figures{38, 100_000, 900_000} },
			map[string]row.Verdict{"benchmarks/tenant.Decide/growth": row.Worse, "benchmarks/tenant.Decide/time": row.Worse}},
		"twice the work at every size": {
			func(head results) {
				for _, n := range []int{10, 100, 1000} {
					f := head[key{"tenant.Decide", n}]
					f.nanoseconds *= 2
					head[key{"tenant.Decide", n}] = f
				}
			},
			map[string]row.Verdict{"benchmarks/tenant.Decide/time": row.Worse}},
		"a new one": {
			func(head results) { head[key{"tenant.More", 0}] = figures{1, 1, 1} },
			map[string]row.Verdict{"benchmarks/tenant.More/allocations": row.New}},
	} {
		t.Run(name, func(t *testing.T) {
			g, head := NewWithT(t), linear()
			tc.change(head)
			c := compare(pair{base: linear(), head: head}, tolerant)
			g.Expect(not(c)).To(Equal(tc.want))
			for _, r := range c.rows {
				if _, differs := tc.want[r.ID]; differs {
					g.Expect(r.Reason).NotTo(BeEmpty(), r.ID)
				}
			}
		})
	}
}

func TestRatiosAreOfTimes(t *testing.T) {
	g, head := NewWithT(t), linear()
	head[key{"tenant.Decide", 1000}] = figures{38, 100_000, 150_000}
	g.Expect(compare(pair{base: linear(), head: head}, tolerant).ratios).To(Equal(map[string]float64{
		"benchmarks/tenant.Decide/time": 1.5, "benchmarks/tenant.Decide/growth": 1.5, "benchmarks/tenant.Owns/time": 1,
	}))
}

func TestTheBestOfAllRoundsCounts(t *testing.T) {
	g, r := NewWithT(t), results{}
	const first = "BenchmarkDecide/n=10 \t 100\t 30.5 ns/op\t 16 B/op\t 2 allocs/op\nPASS\n"
	const second = "BenchmarkDecide/n=10 \t 100\t 20.5 ns/op\t 17 B/op\t 3 allocs/op\nBenchmarkOwns \t 100\t 1 ns/op\t 0 B/op\t 0 allocs/op\nPASS\n"
	for _, said := range []string{first, second} {
		g.Expect(r.read("tenant", []byte(said), counted)).To(Succeed())
		g.Expect(r.read("tenant", []byte(said), timed)).To(Succeed())
	}
	g.Expect(r).To(Equal(results{{"tenant.Decide", 10}: {2, 16, 20.5}, {"tenant.Owns", 0}: {0, 0, 1}}))
	g.Expect(r.read("tenant", []byte("BenchmarkX 	 100	 30.5 ns/op\n"), counted)).To(MatchError(ContainSubstring("ReportAllocs")))
}
