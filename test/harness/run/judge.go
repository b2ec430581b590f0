// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/scenario"
)

// Reference is a scenario as it runs without a fault.
type Reference struct {
	Scenario scenario.Scenario
	// Histories are those of the clean runs.
	Histories []*history.History
	// Outcomes are the outcomes of the clean runs; each is judged against all of them.
	Outcomes []Judged
	observed []observation
	hashed   history.HashedNames
}

// Plans derives the plans of the scenario.
func (r *Reference) Plans(seed uint64) []Plan {
	return derivePlans(r.Scenario, r.observed, seed)
}

// Judged is one run with the input of its judgement.
type Judged struct {
	invariant.Outcome

	History *history.History
	// AuditLog is the API server's audit log of the run.
	AuditLog []byte
	// Logs are those of the replicas in the run, by name.
	Logs map[string][]byte
}

// Reference runs a scenario n times without a fault. Two runs show which differences are
// incidental.
func (p *Prover) Reference(ctx context.Context, s scenario.Scenario, n int) (*Reference, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	ref := &Reference{Scenario: s}
	var trials []*execution
	var took []time.Duration
	var phases [][]invariant.Phase
	for range n {
		began := p.clock.Now()
		t, h, err := p.execute(ctx, s, nil)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
		ref.Histories = append(ref.Histories, h)
		ref.observed = append(ref.observed, t.observed(h))
		took = append(took, p.clock.Since(began))
		phases = append(phases, t.phases(h)) // all clean runs are judged together, later
	}
	ref.hashed = history.LearnHashedNames(p.subject.Contract.Users, ref.Histories)
	for i, h := range ref.Histories {
		ref.observed[i].rename(ref.hashed.Alias(h))
	}
	for i, h := range ref.Histories {
		outcome := p.judge(ref, h)
		outcome.Took, outcome.AuditLog, outcome.Phases = took[i], trials[i].auditLog, phases[i]
		outcome.Logs = trials[i].logs
		ref.Outcomes = append(ref.Outcomes, outcome)
	}
	return ref, nil
}

// Clean runs the scenario once more without a fault. A broken invariant is then a false alarm, or a
// defect that needs no fault.
func (p *Prover) Clean(ctx context.Context, ref *Reference) (Judged, error) {
	return p.runOnce(ctx, ref, nil)
}

// Run runs one plan. An error is the harness's own; the outcome has the operator's violations.
func (p *Prover) Run(ctx context.Context, ref *Reference, plan Plan) (Judged, error) {
	if plan.Scenario != ref.Scenario.Name {
		return Judged{}, fmt.Errorf("running plan %s: it is not one of scenario %s", plan.ID(), ref.Scenario.Name)
	}
	outcome, err := p.runOnce(ctx, ref, &plan)
	if err != nil {
		return outcome, fmt.Errorf("running plan %s: %w", plan.ID(), err)
	}
	outcome.Plan = plan.ID()
	return outcome, nil
}

func (p *Prover) runOnce(ctx context.Context, ref *Reference, plan *Plan) (Judged, error) {
	began := p.clock.Now()
	t, h, err := p.execute(ctx, ref.Scenario, plan)
	if err != nil {
		return Judged{}, err
	}
	ref.hashed.Alias(h)
	outcome := p.judge(ref, h)
	outcome.Took, outcome.AuditLog, outcome.Logs = p.clock.Since(began), t.auditLog, t.logs
	outcome.Phases = t.phases(h)
	return outcome, nil
}

func (p *Prover) judge(ref *Reference, h *history.History) Judged {
	o := Judged{Outcome: invariant.Outcome{Scenario: ref.Scenario.Name, Faults: h.Faults}, History: h}
	o.Verdicts = invariant.Judge(invariant.Case{History: h, References: ref.Histories, Contract: p.subject.Contract})
	o.Result = invariant.Sum(h, o.Verdicts, ref.Scenario.Invariants)
	return o
}
