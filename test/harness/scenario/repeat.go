package scenario

import (
	"errors"
	"fmt"
	"slices"
)

// maxRounds bounds the repetition of steps, as each is a step of every run.
const maxRounds = 100

// written is a scenario as a file has it: a step may stand for several.
type written struct {
	Scenario
	Steps []writtenStep `json:"steps"`
}

// writtenStep is a step, or a repetition of steps.
type writtenStep struct {
	Step
	Repeat *repeat `json:"repeat,omitempty"`
}

// repeat performs steps several times. In round n their names end in -n.
type repeat struct {
	Times int    `json:"times"`
	Steps []Step `json:"steps"`
}

// unrolled is the scenario with each step as often as it happens.
func (w written) unrolled() (Scenario, error) {
	s := w.Scenario
	s.Steps = nil
	for i, step := range w.Steps {
		if step.Repeat == nil {
			s.Steps = append(s.Steps, step.Step)
			continue
		}
		steps, err := step.unroll()
		if err != nil {
			return s, fmt.Errorf("step %d %s: %w", i+1, step.Name, err)
		}
		s.Steps = append(s.Steps, steps...)
	}
	return s, nil
}

// unroll returns the steps of all rounds.
func (w writtenStep) unroll() ([]Step, error) {
	if len(w.actions()) > 0 || w.As != "" || w.Refused != "" {
		return nil, errors.New("a repeat has no action, as or refused of its own; its steps have")
	}
	if w.Repeat.Times < 1 || w.Repeat.Times > maxRounds || len(w.Repeat.Steps) == 0 {
		return nil, fmt.Errorf("repeat needs steps, and times from 1 to %d", maxRounds)
	}
	var all []Step
	for n := range w.Repeat.Times {
		for _, step := range slices.Clone(w.Repeat.Steps) {
			if step.Name != "" {
				step.Name = fmt.Sprintf("%s-%d", step.Name, n+1)
			}
			all = append(all, step)
		}
	}
	return all, nil
}
