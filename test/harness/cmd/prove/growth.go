package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// growthTimeout bounds how long a grown object may take to be ready.
const growthTimeout = 20 * time.Second

// grow finds how far the kind's object can be grown: until the API server or a webhook refuses it, or
// it does not become ready. A kind that cannot grow has no scenario with a change.
func (l *learner) grow(ctx context.Context, prover *run.Prover, k *learn.DraftKind) error {
	for _, how := range []learn.Growth{learn.GrowAll, learn.GrowGiven} {
		if !k.Grow(how) {
			continue
		}
		trial, err := l.growthTrial(k)
		if err != nil {
			return err
		}
		fmt.Fprintf(l.output, "%s: init added %s to the sample, as the schema allows; "+
			"a clean run shows whether the operator accepts that\n", k.ChangeName(), strings.Join(k.Added, ", "))
		reference, err := prover.Reference(ctx, trial, 1)
		var problem string
		switch refused := (*run.RefusedError)(nil); {
		case errors.As(err, &refused):
			problem = refused.Error()
		case err != nil:
			return err
		default:
			problem = growthProblem(reference.Histories[0])
		}
		if problem == "" {
			return nil
		}
		fmt.Fprintf(l.output, "%s: the sample stays without that: %s\n", k.ChangeName(), problem)
	}
	k.Grown, k.Added = nil, nil
	return nil
}

// growthTrial is the scenario with the change up to the grown object.
func (l *learner) growthTrial(k *learn.DraftKind) (scenario.Scenario, error) {
	text, err := l.draft.Change(k)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s, err := scenario.Parse(text)
	if err != nil {
		return s, err
	}
	last := slices.IndexFunc(s.Steps, func(step scenario.Step) bool { return step.Name == "grown" })
	s.Steps = s.Steps[:last+1]
	for i, step := range s.Steps {
		s.Steps[i].Refused = "" // a refusal ends the trial
		if step.Quiesce != nil {
			step.Quiesce.Within = metav1.Duration{Duration: growthTimeout}
		}
	}
	return s, nil
}

// growthProblem is why a grown object is of no use; "" if it is.
func growthProblem(h *history.History) string {
	for _, m := range h.Checkpoints {
		if !m.Converged {
			return fmt.Sprintf("at %q it is not ready: %s", m.Name, strings.Join(m.Unmet, ", "))
		}
	}
	return ""
}
