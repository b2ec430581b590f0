package costs

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/gate/row"
)

// made is a round of one phase that creates a Tenant.
func made(change ...func(*counts.Phase)) round {
	p := counts.Phase{Name: "tenant.create", Took: time.Second,
		Counts: map[string]int{"write create namespaces": 3, "event Tenant Updated": 1},
		Timed:  map[string]int{"reconcile tenant": 4}}
	for _, f := range change {
		f(&p)
	}
	return round{p.Name: p}
}

func counted(key string, n int) func(*counts.Phase) {
	return func(p *counts.Phase) { p.Counts[key] = n }
}

func timed(key string, n int) func(*counts.Phase) {
	return func(p *counts.Phase) { p.Timed[key] = n }
}

func lasting(d time.Duration) func(*counts.Phase) {
	return func(p *counts.Phase) { p.Took = d }
}

// rows are those of two comparable sides that are not the same.
func rows(c comparison) map[string]row.Row {
	out := map[string]row.Row{}
	for _, r := range c.rows {
		if r.Verdict != row.Same {
			out[r.ID] = r
		}
	}
	return out
}

func TestCompare(t *testing.T) {
	const create = "counts/tenant.create"
	twice := func(r round) []round { return []round{r, maps.Clone(r)} }
	as := func(change ...func(*counts.Phase)) []round { return twice(made(change...)) }
	type want map[string]row.Row
	strictly := func(key, base, head string, v row.Verdict, reason string) want {
		id := create + "/" + key
		return want{id: {ID: id, Base: base, Head: head, Verdict: v, Reason: reason}}
	}
	const counting = "; it is counted at the API server, so this is no chance"
	for name, tc := range map[string]struct {
		base, head []round
		want       want
	}{
		"the same": {as(), as(), want{}},
		"one write more": {as(), as(counted("write create namespaces", 4)),
			strictly("write create namespaces", "3", "4", row.Worse, "1 more each time"+counting)},
		"a write that there was not": {as(), as(counted("write patch namespaces", 1)),
			strictly("write patch namespaces", "0", "1", row.Worse, "1 more each time"+counting)},
		"one less": {as(), as(counted("event Tenant Updated", 0)),
			strictly("event Tenant Updated", "1", "0", row.Better, "1 fewer each time")},
		"not stable any more": {as(), []round{made(), made(counted("write create namespaces", 2))},
			strictly("write create namespaces", "3", "3, 2", row.Worse, "it is not the same in each round any more: find out what it depends on")},
		"stable at last": {[]round{made(), made(counted("write create namespaces", 4))}, as(),
			strictly("write create namespaces", "3, 4", "3", row.Better, "it was not the same in each round, and now is")},
		"never stable": {[]round{made(), made(counted("write create namespaces", 4))}, []round{made(), made(counted("write create namespaces", 9))},
			strictly("write create namespaces", "3, 4", "3, 9", row.Unclear, "it is not the same in each round, at the base neither: find out what it depends on")},
		"a pass more":           {as(), as(timed("reconcile tenant", 6)), want{}},
		"a pass more once":      {as(), []round{made(timed("reconcile tenant", 60)), made()}, want{}},
		"a conflict by chance":  {as(), as(timed("conflict patch namespaces", 0)), want{}},
		"passes without an end": {as(), as(timed("reconcile tenant", 40)), strictly("reconcile tenant", "4", "40", row.Worse, "×8.20 the base in the best of the rounds, where ×1.50 is tolerated")},
		"a slower round":        {as(), []round{made(lasting(time.Hour)), made()}, want{}},
		"slower": {as(), as(lasting(2 * time.Second)), want{"times/tenant.create": {ID: "times/tenant.create", Base: "1s", Head: "2s",
			Verdict: row.Worse, Reason: "×2.00 the base in the best of the rounds, where ×1.50 is tolerated"}}},
		"faster": {as(), as(lasting(time.Second / 2)), want{"times/tenant.create": {ID: "times/tenant.create", Base: "1s", Head: "500ms",
			Verdict: row.Better, Reason: "×0.50 the base"}}},
		"not so far": {as(), twice(round{}), want{create: {ID: create, Base: "in 2 of 2 rounds", Head: "in 0 of 2 rounds",
			Verdict: row.Worse, Reason: "the head does not come so far"}}},
		"further": {twice(round{}), as(), want{create: {ID: create, Base: "in 0 of 2 rounds", Head: "in 2 of 2 rounds",
			Verdict: row.New, Reason: "the base does not come so far"}}},
		"sometimes": {as(), []round{made(), {}}, want{create: {ID: create, Base: "in 2 of 2 rounds", Head: "in 1 of 2 rounds",
			Verdict: row.Unclear, Reason: "the phase is missing in some rounds"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := compare(tc.base, tc.head, func(string) float64 { return 0.5 })
			NewWithT(t).Expect(rows(c)).To(Equal(map[string]row.Row(tc.want)))
		})
	}
}

func TestOnlyWhatDependsOnTheMachineIsMeasuredAgain(t *testing.T) {
	g := NewWithT(t)
	tolerance := func(string) float64 { return 0.5 }
	g.Expect(compare([]round{made()}, []round{made(counted("write create namespaces", 9))}, tolerance).slow).To(BeFalse())
	c := compare([]round{made()}, []round{made(lasting(2*time.Second), timed("reconcile tenant", 5))}, tolerance)
	g.Expect(c.slow).To(BeTrue())
	g.Expect(c.ratios).To(Equal(map[string]float64{"times/tenant.create": 2, "counts/tenant.create/reconcile tenant": 1.2}))
}
