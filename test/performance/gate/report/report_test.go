package report_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/report"
	"leasehold.dev/test/performance/gate/row"
)

// mixed is a report of a change that is stopped.
func mixed() *report.Report {
	return &report.Report{Base: "abc123", Head: "def456-dirty", Named: "origin/main", Seed: 7, Took: 90 * time.Second,
		Notices: []string{"A trailer was not needed."},
		Findings: []judge.Finding{
			{Check: "counts", Took: 42 * time.Second, Rows: []row.Row{
				{ID: "counts/a/read get secrets", Base: "1", Head: "1", Verdict: row.Same},
				{ID: "counts/a/write patch namespaces", Base: "3", Head: "2", Verdict: row.Better, Reason: "1 fewer"},
				{ID: "counts/b/write patch namespaces", Base: "3", Head: "4", Verdict: row.Worse, Reason: "1 more|each\ntime"},
			}},
			{Check: "schema", Rows: []row.Row{{ID: "schema/a", Base: "no", Head: "yes", Verdict: row.Allowed, Reason: "needed"}}},
		}}
}

func TestTheReasonComesFirst(t *testing.T) {
	g := NewWithT(t)
	text := mixed().Markdown()
	g.Expect(strings.SplitN(text, "\n", 2)[0]).To(Equal("**Regression: counts/b/write patch namespaces: 1 more|each time**"))
	var table []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			table = append(table, strings.TrimSpace(line))
		}
	}
	g.Expect(table).To(Equal([]string{
		"| what | base | head | verdict |",
		"|---|---|---|---|",
		"| `counts/b/write patch namespaces` | 3 | 4 | **worse**: 1 more\\|each time |",
		"| `schema/a` | no | yes | allowed: needed |",
		"| `counts/a/write patch namespaces` | 3 | 2 | better: 1 fewer |",
		"| counts | | | 1 the same (42s) |",
		"| schema | | | 0 the same (0s) |",
	}))
	g.Expect(text).To(ContainSubstring("`make gate BASE=abc123 GATE_FLAGS='-only counts -seed 7'`"))
	g.Expect(text).To(ContainSubstring("<details><summary>counts: 1 the same</summary>\n\n- `counts/a/read get secrets`: 1\n"))
	g.Expect(text).To(HaveSuffix("\nA trailer was not needed.\n"))
}

func TestAChangeThatMayPassHasNothingToReplay(t *testing.T) {
	g, r := NewWithT(t), mixed()
	r.Findings = r.Findings[1:]
	g.Expect(r.Markdown()).To(HavePrefix("**No regression.**\n\nhead def456-dirty against base abc123 (origin/main), in 1m30s, seed 7\n\n|"))
	g.Expect([]string{r.Regression(), r.Undone(), r.Replay()}).To(Equal([]string{"", "", ""}))
}

func TestWhatCouldNotBeJudgedIsSaid(t *testing.T) {
	g, r := NewWithT(t), mixed()
	r.Findings = []judge.Finding{
		{Check: "flakes", Err: "starting etcd: no such file\nand more"},
		{Check: "counts", Rows: []row.Row{{ID: "counts/a/write", Base: "3, 4", Head: "3, 4", Verdict: row.Unclear, Reason: "not stable"}}},
	}
	g.Expect(r.Undone()).To(Equal("flakes: starting etcd: no such file; counts/a/write: not stable"))
	g.Expect(r.Regression()).To(BeEmpty())
	g.Expect(r.Failed()).To(Equal([]string{"flakes", "counts"}))
	g.Expect(r.Markdown()).To(HavePrefix("**Could not be judged.**\n\nCould not be judged: flakes"))
}

func TestAReportCanBeReadBack(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	g.Expect(mixed().Save(dir)).To(Succeed())
	again, err := report.Load(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(mixed()))
	g.Expect(again.Worse()).To(Equal([]string{"counts/b/write patch namespaces"}))
}
