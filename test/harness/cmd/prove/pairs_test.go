package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// oneWorker does the work of a fleet in order.
type oneWorker struct{}

func (oneWorker) Each(ctx context.Context, n int, do func(ctx context.Context, p *run.Prover, i int) error) error {
	for i := range n {
		if err := do(ctx, nil, i); err != nil {
			return err
		}
	}
	return nil
}

// sampled runs a sampler whose plans take 30 s each, and have the result that results has for the
// fault. It returns the IDs of the plans that were run.
func sampled(t *testing.T, budget time.Duration, results map[string]run.Result,
	ids ...string) (ran []string, l *ledger, said fmt.Stringer) {
	t.Helper()
	g := NewWithT(t)
	l, output, wait := opened(t, options{})
	s := &sweep{options: l.options, output: output, ledger: l}
	l.expectUntil(budget)
	var firsts []*firstFault
	for _, id := range ids {
		over := after(t, run.Held, id)
		firsts = append(firsts, &firstFault{reference: over.reference, plan: *over.plan})
		firsts[len(firsts)-1].coverage.Plan = id
	}
	p := &pairSampler{sweep: s, clock: l.clock, until: l.until,
		runPlan: func(_ *run.Prover, _ context.Context, _ *run.Reference, plan scenario.Plan) (run.Outcome, error) {
			wait()
			ran = append(ran, plan.ID())
			kind := string(plan.Fault)
			if plan.HasSecond() {
				kind = "+" + string(plan.Second.Fault)
			}
			result := run.Held
			if r, there := results[kind]; there {
				result = r
			}
			outcome := after(t, result, plan.ID()).outcome
			outcome.Recovery = []scenario.Write{{Method: "PUT", Path: "/a/{acme}/status", Effective: true},
				{Method: "POST", Path: "/b"}}
			return outcome, nil
		}}
	g.Expect(p.sample(t.Context(), oneWorker{}, firsts)).To(Succeed())
	for _, f := range firsts {
		l.sweep.Pairs = append(l.sweep.Pairs, f.coverage)
	}
	return ran, l, output
}

const (
	crashID = "tenant-life:crash-after-write:PATCH:/a/{acme}:1"
	staleID = "tenant-life:stale-start:START:/a:2"
)

func TestPairs_EachFirstFaultHasItsTurn(t *testing.T) {
	g := NewWithT(t)
	results := map[string]run.Result{"+lost-response": run.Void, "+crash-after-write": run.Broken}
	ran, l, said := sampled(t, time.Hour, results, crashID, staleID)
	g.Expect(ran).To(HaveLen(2*(1+6)), "all pairs")
	for i, id := range ran {
		first := crashID
		if i >= 4 && i < 8 || i >= 11 {
			first = staleID // three pairs of one, three of the other, and the rest
		}
		g.Expect(id).To(HavePrefix(first))
		g.Expect(strings.Contains(id, "+")).To(Equal(i != 0 && i != 4))
	}
	g.Expect(l.close()).To(MatchError(errFound))
	for _, text := range []string{
		"plan 1: held         " + crashID + " (20.0 s; 120 an hour, 59m30s to go)",
		"again: make prove SEED=7 PLAN='" + crashID + "+crash-after-write:PUT:/a/{acme}/status:1'",
		"| " + crashID + " | held  | 2                      | 6     | 6     | 4    | 1      | 0            | 1    |",
		"Two faults: 2 of 2 first faults were run, and 2 held, with 4 writes in their recoveries; of the 12 pairs from these 12 were tried: 8 held, 2 broken, 0 inconclusive, 2 void",
		"| tenant-life crash-after-write+lost-response",
	} {
		g.Expect(said.String()).To(ContainSubstring(text))
	}
	again, _, _ := sampled(t, time.Hour, nil, crashID, staleID)
	g.Expect(again).To(Equal(ran), "the seed fixes the order")
}

func TestPairs_KeepToTheBudget(t *testing.T) {
	g := NewWithT(t)
	ran, l, said := sampled(t, 90*time.Second,
		map[string]run.Result{"+crash-after-write": run.Void, "+crash-before-write": run.Void, "+lost-response": run.Void, "+failed-write": run.Void}, crashID, staleID)
	g.Expect(ran).To(HaveLen(3))
	g.Expect(l.close()).To(Succeed(), "a void pair is no failure")
	g.Expect(said.String()).To(ContainSubstring(
		"Two faults: 1 of 2 first faults were run, and 1 held, with 2 writes in their recoveries; of the 6 pairs from these 2 were tried: 0 held, 0 broken, 0 inconclusive, 2 void"))
}

func TestPairs_OnlyAfterFirstFaultsThatHeld(t *testing.T) {
	for _, r := range []run.Result{run.Broken, run.Inconclusive, run.Void} {
		g := NewWithT(t)
		ran, l, _ := sampled(t, time.Hour, map[string]run.Result{"crash-after-write": r}, crashID)
		g.Expect(ran).To(Equal([]string{crashID}))
		g.Expect(l.sweep.Pairs[0].Result).To(Equal(r))
		g.Expect(l.sweep.Pairs[0].Writes).To(BeEmpty())
	}
}

func TestPairs_ReportErrors(t *testing.T) {
	g := NewWithT(t)
	l, output, _ := opened(t, options{})
	s := &sweep{options: l.options, output: output, ledger: l}
	g.Expect(s.samplePairs(t.Context(), oneWorker{}, nil)).To(MatchError(ContainSubstring("no plan of a crash")))
	l.expectUntil(time.Hour)
	failed := errors.New("the control plane has died")
	p := &pairSampler{sweep: s, clock: l.clock, until: l.until,
		runPlan: func(*run.Prover, context.Context, *run.Reference, scenario.Plan) (run.Outcome, error) {
			return run.Outcome{}, failed
		}}
	g.Expect(p.sample(t.Context(), oneWorker{}, []*firstFault{{plan: plan(t, crashID)}})).To(MatchError(failed))
	for _, args := range [][]string{{"--smoke"}, {"--clean=1"}, {"--plan=" + crashID}, {"--repeat=2"}, {"--explore=1m"}} {
		_, err := parse(append([]string{"--pairs=1m"}, args...)...)
		g.Expect(err).To(MatchError(ContainSubstring("--pairs excludes")))
	}
	_, err := parse("--pairs=-1m")
	g.Expect(err).To(MatchError(ContainSubstring("no time")))
	o := asked(t, "--pairs=1m")
	g.Expect(o.leaves()).To(BeFalse())
}
