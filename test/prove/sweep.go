package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// cleanRuns are what plans are compared with: in two it shows what differs by itself.
const cleanRuns = 2

// sweep runs plans one after another.
type sweep struct {
	options options
	output  io.Writer
	ledger  *ledger
}

func newSweep(o options, promises invariant.Operator, output io.Writer) *sweep {
	return &sweep{options: o, output: output, ledger: newLedger(o, promises, output)}
}

func (s *sweep) run(ctx context.Context, prover *run.Prover, of scenario.Scenario) error {
	fmt.Fprintf(s.output, "%s: %d clean runs to compare with\n", of.Name, cleanRuns)
	ref, err := prover.Reference(ctx, of, cleanRuns)
	if err != nil {
		return err
	}
	for _, outcome := range ref.Outcomes {
		if err := s.ledger.compared(ran{ref, nil, outcome}); err != nil {
			return err
		}
	}
	plans, err := s.chosen(ref)
	if err != nil {
		return err
	}
	s.ledger.expect(len(plans) + s.options.clean)
	for range s.options.clean {
		outcome, err := prover.Clean(ctx, ref)
		if err != nil {
			return err
		}
		if err := s.ledger.add(ran{ref, nil, outcome}); err != nil {
			return err
		}
	}
	for _, plan := range plans {
		outcome, err := prover.Run(ctx, ref, plan)
		if err != nil {
			return err
		}
		if err := s.ledger.add(ran{ref, &plan, outcome}); err != nil {
			return err
		}
	}
	return nil
}

// chosen are the plans that the options ask for. Codes come from the seed alone,
// so that a plan that is run again is the same.
func (s *sweep) chosen(ref *run.Reference) ([]scenario.Plan, error) {
	switch {
	case s.options.clean > 0:
		return nil, nil
	case s.options.plan != "":
		plan, err := scenario.ParsePlan(s.options.plan)
		return []scenario.Plan{plan}, err
	}
	plans := ref.Plans(rand.New(rand.NewPCG(s.options.seed, 1)))
	if len(plans) == 0 {
		return nil, errors.New("deriving plans: the operator has written nothing in the clean runs")
	}
	if s.options.match != nil {
		plans = slices.DeleteFunc(plans, func(p scenario.Plan) bool { return !s.options.match.MatchString(p.ID()) })
	}
	if len(plans) == 0 {
		return nil, fmt.Errorf("choosing plans: none has %s in its ID", s.options.match)
	}
	if !s.options.smoke {
		return plans, nil
	}
	return subset(plans, rand.New(rand.NewPCG(s.options.seed, 2))), nil
}

// subset is one plan of each perturbation, each at another write.
func subset(plans []scenario.Plan, random *rand.Rand) []scenario.Plan {
	by := map[scenario.Perturbation][]scenario.Plan{}
	for _, p := range plans {
		by[p.Perturbation] = append(by[p.Perturbation], p)
	}
	var few []scenario.Plan
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		few = append(few, by[kind][random.IntN(len(by[kind]))])
	}
	return few
}

// finish writes the summary and says whether all has held.
func (s *sweep) finish() error { return s.ledger.close() }
