package scenario

import (
	"errors"
	"fmt"
	"slices"
)

// maxRounds bounds the repetition of steps, as each is a step of every run.
const maxRounds = 100

// File is a scenario in its YAML form: one step may represent several.
type File struct {
	Scenario
	// Steps are done one after another. The last one is a quiesce.
	Steps []FileStep `json:"steps"`
}

// FileStep is a step, or a repetition of steps.
type FileStep struct {
	Step
	// Repeat performs steps several times, in place of an action.
	Repeat *Repeat `json:"repeat,omitempty"`
}

// Repeat performs steps several times. In round n their names end in -n.
type Repeat struct {
	// Times is from 1 to 100.
	Times int    `json:"times"`
	Steps []Step `json:"steps"`
}

// unrolled is the scenario with each step as often as it happens.
func (f File) unrolled() (Scenario, error) {
	s := f.Scenario
	s.Steps = nil
	for i, step := range f.Steps {
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
func (s FileStep) unroll() ([]Step, error) {
	if len(s.actions()) > 0 || s.As != "" || s.Refused != "" {
		return nil, errors.New("a repeat has no action, as or refused of its own; its steps have")
	}
	if s.Repeat.Times < 1 || s.Repeat.Times > maxRounds || len(s.Repeat.Steps) == 0 {
		return nil, fmt.Errorf("repeat needs steps, and times from 1 to %d", maxRounds)
	}
	var all []Step
	for n := range s.Repeat.Times {
		for _, step := range slices.Clone(s.Repeat.Steps) {
			if step.Name != "" {
				step.Name = fmt.Sprintf("%s-%d", step.Name, n+1)
			}
			all = append(all, step)
		}
	}
	return all, nil
}
