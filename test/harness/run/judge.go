package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/scenario"
)

// Result is what became of a run.
type Result = invariant.Result

const (
	// Held is that every promise that the scenario is about was kept.
	Held = invariant.Held
	// Broken is that one was not.
	Broken = invariant.Broken
	// Inconclusive is that none is known to be broken, and one that the scenario is
	// about could not be judged.
	Inconclusive = invariant.Inconclusive
	// Void is that what was to go wrong did not.
	Void = invariant.Void
)

// Reference is what a scenario looks like when nothing goes wrong.
type Reference struct {
	Scenario scenario.Scenario
	// Histories are those of the clean runs.
	Histories []*history.History
	// Outcomes are what became of them: each is judged by the others.
	Outcomes []Outcome
	observed []scenario.Observed
}

// Plans derives what can go wrong.
func (r *Reference) Plans(random *rand.Rand) []scenario.Plan {
	return scenario.Plans(r.Scenario, r.observed, random)
}

// Outcome is what became of one run.
type Outcome struct {
	Scenario string `json:"scenario"`
	// Plan is the ID of the plan; "" of a clean run.
	Plan     string              `json:"plan,omitempty"`
	Result   Result              `json:"result"`
	Verdicts []invariant.Verdict `json:"verdicts"`
	Faults   []history.Fault     `json:"faults,omitempty"`
	Took     time.Duration       `json:"took"`
	History  *history.History    `json:"-"`
	// AuditLog is what the API server has written down of the run.
	AuditLog []byte `json:"-"`
}

// Reference runs a scenario n times in which nothing goes wrong. Two are needed to
// tell what differs by itself.
func (p *Prover) Reference(ctx context.Context, s scenario.Scenario, n int) (*Reference, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	ref := &Reference{Scenario: s}
	var trials []*trial
	var took []time.Duration
	for range n {
		began := p.clock.Now()
		t, h, err := p.run(ctx, s, nil)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
		ref.Histories = append(ref.Histories, h)
		ref.observed = append(ref.observed, t.observed(h))
		took = append(took, p.clock.Since(began))
	}
	for i, h := range ref.Histories {
		outcome := p.judge(ref, h)
		outcome.Took, outcome.AuditLog = took[i], trials[i].auditLog
		ref.Outcomes = append(ref.Outcomes, outcome)
	}
	return ref, nil
}

// Clean runs the scenario once more with nothing going wrong. A promise that is
// broken then is a false alarm, or a flaw that shows by itself.
func (p *Prover) Clean(ctx context.Context, ref *Reference) (Outcome, error) {
	return p.once(ctx, ref, nil)
}

// Run runs one plan. An error is the harness's own; what the operator did wrong is
// in the outcome.
func (p *Prover) Run(ctx context.Context, ref *Reference, plan scenario.Plan) (Outcome, error) {
	if plan.Scenario != ref.Scenario.Name {
		return Outcome{}, fmt.Errorf("running plan %s: it is not one of scenario %s", plan.ID(), ref.Scenario.Name)
	}
	outcome, err := p.once(ctx, ref, &plan)
	if err != nil {
		return outcome, fmt.Errorf("running plan %s: %w", plan.ID(), err)
	}
	outcome.Plan = plan.ID()
	return outcome, nil
}

func (p *Prover) once(ctx context.Context, ref *Reference, plan *scenario.Plan) (Outcome, error) {
	began := p.clock.Now()
	t, h, err := p.run(ctx, ref.Scenario, plan)
	if err != nil {
		return Outcome{}, err
	}
	outcome := p.judge(ref, h)
	outcome.Took, outcome.AuditLog = p.clock.Since(began), t.auditLog
	return outcome, nil
}

func (p *Prover) judge(ref *Reference, h *history.History) Outcome {
	o := Outcome{Scenario: ref.Scenario.Name, Faults: h.Faults, History: h}
	o.Verdicts = invariant.Judge(invariant.Case{History: h, References: ref.Histories, Operator: p.subject.Promises})
	o.Result = invariant.Sum(h, o.Verdicts, ref.Scenario.Must)
	return o
}
