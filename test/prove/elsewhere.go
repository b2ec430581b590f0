package main

import (
	"context"
	"fmt"
	"path/filepath"

	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// elsewhere runs each scenario once more, with nothing going wrong but that the
// operator lives in a namespace of another name: with rights or manifests that hang
// on the name, it would not be as in the references.
func (s *sweep) elsewhere(ctx context.Context, fleet *run.Fleet, there run.Subject, references []*run.Reference) error {
	s.mu.Lock()
	s.ledger.expect(len(references))
	s.mu.Unlock()
	return fleet.Each(ctx, len(references), func(ctx context.Context, p *run.Prover, i int) error {
		outcome, err := p.Clean(ctx, references[i])
		if err != nil {
			return fmt.Errorf("running where %s installs: %w", there.Operator.Manifests, err)
		}
		plan := scenario.Plan{
			Scenario: references[i].Scenario.Name, Perturbation: scenario.Elsewhere,
			Target: scenario.Target{Method: scenario.ManifestsTarget, Path: filepath.Base(there.Operator.Manifests), Nth: 1},
		}
		outcome.Plan = plan.ID()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ledger.add(ran{references[i], &plan, outcome, there.Promises})
	})
}
