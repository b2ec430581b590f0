package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// pairsInARow is how many pairs of one first fault are tried before the next first fault has its
// turn.
const pairsInARow = 3

// firstFault is a plan after whose fault a second one is tried.
type firstFault struct {
	reference *run.Reference
	plan      scenario.Plan
	ran       bool
	untried   []scenario.Plan // in the order of the seed
	coverage  report.FirstFault
}

// firstFaults returns the plans of a crash or a stale start in the order of the seed. The match of
// the options is about them.
func (s *sweep) firstFaults(references []*run.Reference) []*firstFault {
	var plans []scenario.Plan
	of := map[string]*run.Reference{}
	for _, ref := range references {
		of[ref.Scenario.Name] = ref
		for _, plan := range ref.Plans(s.options.seed) {
			if plan.HasRecovery() && s.options.match.MatchString(plan.ID()) {
				plans = append(plans, plan)
			}
		}
	}
	slices.SortFunc(plans, scenario.Order(s.options.seed))
	firsts := make([]*firstFault, len(plans))
	for i, plan := range plans {
		firsts[i] = &firstFault{reference: of[plan.Scenario], plan: plan, coverage: report.FirstFault{Plan: plan.ID()}}
	}
	return firsts
}

// workers is implemented by run.Fleet.
type workers interface {
	Each(ctx context.Context, n int, do func(ctx context.Context, p *run.Prover, i int) error) error
}

// pairSampler tries pairs of faults within a time budget.
type pairSampler struct {
	sweep *sweep
	clock clock.PassiveClock
	until time.Time
	// runPlan is a method of run.Prover.
	runPlan func(p *run.Prover, ctx context.Context, ref *run.Reference, plan scenario.Plan) (run.Outcome, error)
}

// samplePairs tries pairs until the budget of the options is used up, or all have been tried.
func (s *sweep) samplePairs(ctx context.Context, fleet workers, firsts []*firstFault) error {
	if len(firsts) == 0 {
		return errors.New("choosing pairs: no plan of a crash or a stale start matches")
	}
	s.ledger.expectUntil(s.options.pairs)
	p := &pairSampler{sweep: s, clock: s.ledger.clock, until: s.ledger.until, runPlan: (*run.Prover).Run}
	err := p.sample(ctx, fleet, firsts)
	for _, f := range firsts {
		s.ledger.sweep.Pairs = append(s.ledger.sweep.Pairs, f.coverage)
	}
	return err
}

// sample visits the first faults in rounds.
func (p *pairSampler) sample(ctx context.Context, fleet workers, firsts []*firstFault) error {
	for remaining := true; remaining && !p.timeIsUp(); {
		err := fleet.Each(ctx, len(firsts), func(ctx context.Context, prover *run.Prover, i int) error {
			return p.visit(ctx, prover, firsts[i])
		})
		if err != nil {
			return err
		}
		remaining = false
		for _, f := range firsts {
			remaining = remaining || len(f.untried) > 0
		}
	}
	return nil
}

func (p *pairSampler) timeIsUp() bool { return !p.clock.Now().Before(p.until) }

// visit runs the first fault alone, if it has not run yet, and then some of its pairs.
func (p *pairSampler) visit(ctx context.Context, prover *run.Prover, f *firstFault) error {
	if !f.ran {
		if p.timeIsUp() {
			return nil
		}
		outcome, err := p.try(ctx, prover, f, f.plan)
		if err != nil {
			return err
		}
		f.ran, f.coverage.Result = true, outcome.Result
		if outcome.Result == run.Held {
			f.untried = f.plan.Pairs(f.reference.Scenario, outcome.Recovery, p.sweep.options.seed)
		}
		for _, pair := range f.untried {
			f.coverage.Add(writeOf(pair))
		}
	}
	for range min(pairsInARow, len(f.untried)) {
		if p.timeIsUp() {
			return nil
		}
		pair := f.untried[0]
		f.untried = f.untried[1:]
		outcome, err := p.try(ctx, prover, f, pair)
		if err != nil {
			return err
		}
		f.coverage.Tried(writeOf(pair), outcome.Result)
	}
	return nil
}

// writeOf returns the write of the recovery at which the second fault of a plan happens.
func writeOf(plan scenario.Plan) string {
	t := plan.Second.Target
	return fmt.Sprintf("%s:%s:%d", t.Method, t.Path, t.Nth)
}

// try runs a plan and reports it.
func (p *pairSampler) try(ctx context.Context, prover *run.Prover, f *firstFault,
	plan scenario.Plan) (run.Outcome, error) {
	outcome, err := p.runPlan(prover, ctx, f.reference, plan)
	if err != nil {
		return outcome, err
	}
	p.sweep.mu.Lock()
	defer p.sweep.mu.Unlock()
	return outcome, p.sweep.ledger.add(ran{f.reference, &plan, outcome, p.sweep.promises})
}
