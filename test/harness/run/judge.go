// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"

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

	observed observation // of a clean run
}

// Reference runs a scenario n times without a fault. Two runs show which differences are
// incidental.
func (p *Prover) Reference(ctx context.Context, s scenario.Scenario, n int) (*Reference, error) {
	var runs []Judged
	for range n {
		r, err := p.cleanRun(ctx, s)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return p.reference(s, runs), nil
}

// cleanRun runs a scenario without a fault. The run has no verdicts.
func (p *Prover) cleanRun(ctx context.Context, s scenario.Scenario) (Judged, error) {
	if err := s.Validate(); err != nil {
		return Judged{}, err
	}
	ex, run, err := p.run(ctx, s, nil)
	if err != nil {
		return run, err
	}
	run.Requests, run.observed = ex.countRequests(run.History), ex.observed(run.History)
	return run, nil
}

// reference judges the clean runs of a scenario, each against all of them.
func (p *Prover) reference(s scenario.Scenario, runs []Judged) *Reference {
	ref := &Reference{Scenario: s}
	for _, r := range runs {
		ref.Histories = append(ref.Histories, r.History)
	}
	ref.hashed = history.LearnHashedNames(p.subject.Contract.Users, ref.Histories)
	for _, r := range runs {
		names := ref.hashed.Alias(r.History)
		for i := range r.observed.Writes {
			r.observed.Writes[i].Path = renamed(r.observed.Writes[i].Path, names)
		}
		for i := range r.Requests {
			r.Requests[i].Path = renamed(r.Requests[i].Path, names)
		}
		ref.observed = append(ref.observed, r.observed)
	}
	for _, r := range runs {
		p.judge(ref, &r)
		ref.Outcomes = append(ref.Outcomes, r)
	}
	return ref
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
	_, outcome, err := p.run(ctx, ref.Scenario, plan)
	if err != nil {
		return outcome, err
	}
	ref.hashed.Alias(outcome.History)
	p.judge(ref, &outcome)
	return outcome, nil
}

// run runs a scenario, without a fault if plan is nil. The outcome has no verdicts.
func (p *Prover) run(ctx context.Context, s scenario.Scenario, plan *Plan) (*execution, Judged, error) {
	began := p.clock.Now()
	ex, h, err := p.execute(ctx, s, plan)
	if err != nil {
		return nil, Judged{}, err
	}
	return ex, Judged{History: h, AuditLog: ex.auditLog, Logs: ex.logs, Outcome: invariant.Outcome{Scenario: s.Name,
		Faults: h.Faults, Took: p.clock.Since(began)}}, nil
}

// judge adds the verdicts.
func (p *Prover) judge(ref *Reference, o *Judged) {
	o.Verdicts = invariant.Judge(invariant.Case{History: o.History, References: ref.Histories,
		Contract: p.subject.Contract})
	o.Result = invariant.Sum(o.History, o.Verdicts, ref.Scenario.Invariants)
}
