// Package figures has what measurements find: figures with all their runs and the goal of each,
// gathered in a report that is written as Markdown and as JSON.
//
// It is independent of what is measured.
package figures

import (
	"slices"
	"time"
)

// Figure is one thing that was measured, as often as it was.
type Figure struct {
	// ID names it for ever, as in W1.tenant.create: reports are compared by it.
	ID string `json:"id"`
	// Title is what was measured, in a few words.
	Title string `json:"title"`
	// Unit is that of each run: "s", "ms", "B", or "" for counts and ratios.
	Unit string `json:"unit,omitempty"`
	// Runs are the values of all runs, in the order in which they were taken.
	Runs []float64 `json:"runs"`
	// Goal is the limit of the figure. Nil: the figure is only reported.
	Goal *Goal `json:"goal,omitempty"`
	// Note explains the figure, such as what the peer is.
	Note string `json:"note,omitempty"`
}

// Goal is a bound that a figure has to keep.
type Goal struct {
	// Value is the bound, in the figure's unit.
	Value float64 `json:"value"`
	// Exactly means that the figure has to be the value; else at most the value.
	Exactly bool `json:"exactly,omitempty"`
	// Median means that the median has to keep it; else every run.
	Median bool `json:"median,omitempty"`
}

// AtMost is the goal that no run is above the value.
func AtMost(value float64) *Goal { return &Goal{Value: value} }

// MedianAtMost is the goal that the median is not above the value.
func MedianAtMost(value float64) *Goal { return &Goal{Value: value, Median: true} }

// Exactly is the goal that every run is the value.
func Exactly(value float64) *Goal { return &Goal{Value: value, Exactly: true} }

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
	}
	judged := f.Runs
	if f.Goal.Median {
		judged = []float64{f.Median()}
	}
	for _, value := range judged {
		// What is not a number does not meet it.
		if value != f.Goal.Value && (f.Goal.Exactly || !(value < f.Goal.Value)) {
			return Missed
		}
	}
	return Met
}

// Median returns the run in the middle, or the mean of the two there. It panics if there is none.
func (f Figure) Median() float64 {
	sorted := slices.Sorted(slices.Values(f.Runs))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Section is what one measurement has found.
type Section struct {
	// ID is the short name by which the measurement is chosen, as in writes.
	ID string `json:"id"`
	// Title is its headline.
	Title string `json:"title"`
	// Text describes how it was measured and what was seen, in Markdown.
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
	// Quick means that too little was measured for the figures to mean anything.
	Quick    bool          `json:"quick,omitempty"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Machine  Machine       `json:"machine"`
	Sections []Section     `json:"sections"`
}

// With returns the figures of a verdict, in the order of the sections.
func (r Report) With(v Verdict) (found []Figure) {
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if f.Verdict() == v {
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
