package allowance_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/allowance"
	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/row"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	all, notices := allowance.Parse([]string{
		"counts/tenant.create/write create namespaces: the quota is an object of its own",
		"times: see issue: 12",
		"no reason", "no reason:", ": no beginning", "",
	})
	g.Expect(all).To(Equal([]allowance.Allowance{
		{Beginning: "counts/tenant.create/write create namespaces", Reason: "the quota is an object of its own"},
		{Beginning: "times", Reason: "see issue: 12"},
	}))
	g.Expect(notices).To(HaveLen(4))
	g.Expect(notices[0]).To(ContainSubstring("Gate-Allow: no reason"))
}

func TestApplyAllowsOnlyWhatIsWorseAndNamed(t *testing.T) {
	g := NewWithT(t)
	rows := []row.Row{
		{ID: "counts/a/write", Verdict: row.Worse, Reason: "one more"},
		{ID: "counts/b/write", Verdict: row.Worse, Reason: "one more"},
		{ID: "counts/a/read", Verdict: row.Same},
		{ID: "counts/a/event", Verdict: row.Unclear, Reason: "not stable"},
	}
	notices := allowance.Apply([]allowance.Allowance{{"counts/a", "needed"}, {"counts/a/write", "again"}, {"times", "slow"}}, []judge.Finding{{Rows: rows[:2]}, {Rows: rows[2:]}})
	g.Expect(rows).To(Equal([]row.Row{
		{ID: "counts/a/write", Verdict: row.Allowed, Reason: "needed"},
		{ID: "counts/b/write", Verdict: row.Worse, Reason: "one more"},
		{ID: "counts/a/read", Verdict: row.Same},
		{ID: "counts/a/event", Verdict: row.Unclear, Reason: "not stable"},
	}))
	g.Expect(notices).To(HaveLen(2), "the second and the third were not needed")
}
