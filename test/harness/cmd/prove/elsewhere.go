package main

import (
	"context"
	"fmt"
	"path/filepath"

	"leasehold.dev/test/harness/run"
)

// elsewhere runs each scenario once more, with nothing going wrong but that the
// operator lives in a namespace of another name: with rights or manifests that hang
// on the name, it would not be as in the references.
func (s *sweeper) elsewhere(ctx context.Context, fleet *run.Fleet, there run.Subject, references []*run.Reference) error {
	var jobs []job
	for _, ref := range references {
		plan := run.Plan{
			Scenario: ref.Scenario.Name, Fault: run.OtherNamespace,
			Target: run.Target{Method: run.ManifestsTarget, Path: filepath.Base(there.Operator.Manifests), Nth: 1},
		}
		if s.options.shard.has(plan) {
			jobs = append(jobs, job{ref, &plan})
		}
	}
	if err := s.do(ctx, fleet, there.Contract, jobs); err != nil {
		return fmt.Errorf("running where %s installs: %w", there.Operator.Manifests, err)
	}
	return nil
}
