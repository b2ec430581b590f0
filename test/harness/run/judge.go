package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/scenario"
)

// Result is what became of a run.
type Result string

const (
	// Held is that every promise that the scenario is about was kept.
	Held Result = "held"
	// Broken is that one was not.
	Broken Result = "broken"
	// Inconclusive is that none is known to be broken, and one that the scenario is
	// about could not be judged.
	Inconclusive Result = "inconclusive"
	// Void is that what was to go wrong did not.
	Void Result = "void"
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
}

// Reference runs a scenario n times in which nothing goes wrong. Two are needed to
// tell what differs by itself.
func (p *Prover) Reference(ctx context.Context, s scenario.Scenario, n int) (*Reference, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	ref := &Reference{Scenario: s}
	var took []time.Duration
	for range n {
		began := p.clock.Now()
		t, h, err := p.run(ctx, s, nil)
		if err != nil {
			return nil, err
		}
		ref.Histories = append(ref.Histories, h)
		ref.observed = append(ref.observed, t.observed(h))
		took = append(took, p.clock.Since(began))
	}
	for i, h := range ref.Histories {
		outcome := p.judge(ref, h)
		outcome.Took = took[i]
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
	_, h, err := p.run(ctx, ref.Scenario, plan)
	if err != nil {
		return Outcome{}, err
	}
	outcome := p.judge(ref, h)
	outcome.Took = p.clock.Since(began)
	return outcome, nil
}

func (p *Prover) judge(ref *Reference, h *history.History) Outcome {
	o := Outcome{Scenario: ref.Scenario.Name, Faults: h.Faults, History: h}
	for _, i := range invariant.All() {
		o.Verdicts = append(o.Verdicts, i.Judge(invariant.Case{History: h, References: ref.Histories, Operator: p.subject.Promises}))
	}
	o.Result = resultOf(h, o.Verdicts, ref.Scenario.Must)
	return o
}

// resultOf sums up. A promise that is broken is broken, whatever was to go wrong.
func resultOf(h *history.History, verdicts []invariant.Verdict, must []string) Result {
	result := Held
	if len(h.Void()) > 0 {
		result = Void
	}
	for _, v := range verdicts {
		switch {
		case v.Result == invariant.Broken:
			return Broken
		case v.Result == invariant.Inconclusive && result == Held && slices.Contains(must, v.Invariant):
			result = Inconclusive
		}
	}
	return result
}
