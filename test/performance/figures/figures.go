// Package figures has what measurements find: figures with all their runs and the goal of each,
// gathered in a report that is written as a table for the terminal, as Markdown and as JSON.
//
// It knows nothing of what is measured.
package figures

import (
	"slices"
	"time"
)

// Figure is one thing that was measured, as often as it was.
type Figure struct {
	// ID names it for ever, as in W1.tenant.create: reports are compared by it.
	ID string `json:"id"`
	// Title says what it is, in a few words.
	Title string `json:"title"`
	// Unit is that of each run: "s", "ms", "B", "1/s", or "" for counts and ratios.
	Unit string `json:"unit,omitempty"`
	// Runs are the values of all runs, in the order in which they were taken.
	Runs []float64 `json:"runs"`
	// Goal is the limit of the figure. Nil: the figure is only reported.
	Goal *Goal `json:"goal,omitempty"`
	// Note says what the reader has to know to believe it, such as what the peer is.
	Note string `json:"note,omitempty"`
}

// Goal is a bound that a figure has to keep.
type Goal struct {
	// Value is the bound, in the figure's unit.
	Value float64 `json:"value"`
	// Exactly says that the figure has to be the value; else at most the value.
	Exactly bool `json:"exactly,omitempty"`
	// Of is which of the runs has to keep it.
	Of Of `json:"of"`
}

// Of says which of several runs a goal is about.
type Of string

// The runs that a goal can be about.
const (
	Every  Of = "every"  // of all runs, so that one can miss it
	Median Of = "median" // of the run in the middle
)

// AtMost is the goal that no run is above the value.
func AtMost(value float64) *Goal { return &Goal{Value: value, Of: Every} }

// MedianAtMost is the goal that the median is not above the value.
func MedianAtMost(value float64) *Goal { return &Goal{Value: value, Of: Median} }

// Exactly is the goal that every run is the value.
func Exactly(value float64) *Goal { return &Goal{Value: value, Exactly: true, Of: Every} }

// Verdict is how a figure stands to its goal.
type Verdict string

// The verdicts. Nothing that was not measured is ever met.
const (
	Met      Verdict = "met"
	Missed   Verdict = "missed"
	Reported Verdict = "reported" // there is no goal
	Absent   Verdict = "not measured"
)

// Verdict judges the figure by its goal.
func (f Figure) Verdict() Verdict {
	switch {
	case len(f.Runs) == 0:
		return Absent
	case f.Goal == nil:
		return Reported
	case f.Goal.Of == Median:
		return f.Goal.judge(f.Median())
	}
	for _, run := range f.Runs {
		if f.Goal.judge(run) != Met {
			return Missed
		}
	}
	return Met
}

// judge is written so that what is not a number is missed.
func (g Goal) judge(value float64) Verdict {
	if value == g.Value || (!g.Exactly && value < g.Value) {
		return Met
	}
	return Missed
}

// Min returns the smallest of the runs. It panics if there is none, as do Median and Max.
func (f Figure) Min() float64 { return slices.Min(f.Runs) }

// Max returns the largest of the runs.
func (f Figure) Max() float64 { return slices.Max(f.Runs) }

// Median returns the run in the middle, or the mean of the two there.
func (f Figure) Median() float64 {
	sorted := slices.Sorted(slices.Values(f.Runs))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Section is what one measurement has found.
type Section struct {
	// ID is the short name by which the measurement is chosen, as in writes.
	ID string `json:"id"`
	// Title is its headline.
	Title string `json:"title"`
	// Text says how it was measured and what was seen, in Markdown.
	Text    string   `json:"text,omitempty"`
	Figures []Figure `json:"figures"`
	// Took is how long the measurement lasted.
	Took time.Duration `json:"took"`
	// Failure is why it broke off; its figures are then those from before.
	Failure string `json:"failure,omitempty"`
}

// Report is one run of all measurements.
type Report struct {
	// Commit is what was measured, with -dirty if it was changed.
	Commit string `json:"commit"`
	// Seed is what chance was drawn from.
	Seed uint64 `json:"seed"`
	// Quick says that so little was measured that the figures say nothing.
	Quick    bool          `json:"quick,omitempty"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Machine  Machine       `json:"machine"`
	Sections []Section     `json:"sections"`
}

// Missed are the figures that do not keep their goals, in the order of the sections.
func (r Report) Missed() []Figure {
	return r.figures(func(f Figure) bool { return f.Goal != nil && f.Verdict() != Met })
}

// Absent are the figures that no run measured, in the order of the sections.
func (r Report) Absent() []Figure {
	return r.figures(func(f Figure) bool { return f.Verdict() == Absent })
}

func (r Report) figures(has func(Figure) bool) (found []Figure) {
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if has(f) {
				found = append(found, f)
			}
		}
	}
	return found
}

// Failed are the sections that broke off.
func (r Report) Failed() []Section {
	return slices.DeleteFunc(slices.Clone(r.Sections), func(s Section) bool { return s.Failure == "" })
}

// Machine is where it was measured.
type Machine struct {
	System string `json:"system"` // as in linux/amd64
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"` // bytes
	Go     string `json:"go"`
	// Load is the mean number of processes that wanted to run in the minute before.
	Load float64 `json:"load"`
}
