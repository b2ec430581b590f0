package scenario

import (
	"net/http"
	"slices"
	"strings"
)

// WorldMoves is that an administrator does something to an object of the
// operator's at the moment in which the operator's write to it is being answered.
const WorldMoves Perturbation = "P17"

// The variants of WorldMoves.
const (
	// StripLabels takes all labels and annotations off what the operator made.
	StripLabels = "strip"
	// RemoveChild deletes what the operator made.
	RemoveChild = "remove"
	// Rival writes other values over what the operator made, for some seconds.
	Rival = "rival"
	// ForeignFinalizer puts a finalizer of somebody else on an object before a user
	// deletes it, and takes it off a while after the operator's own is gone. Its
	// target is that step: the word StepTarget, its name and its number from 1.
	ForeignFinalizer = "finalizer"
)

// StepTarget is the method of a target that is a step of the scenario.
const StepTarget = "STEP"

// worldMoves are what can happen to each object that the operator makes, at the
// write that makes it, and to those that a user deletes. A POST does not say in its
// path which object it makes, so nothing is planned at one.
func worldMoves(d *derivation) []Plan {
	var plans []Plan
	for _, t := range steady(d.runs, func(o Observed) []Write { return firsts(o.Writes, func(w Write) bool { return w.Made }) }) {
		if t.Method == http.MethodPost {
			continue
		}
		for _, variant := range []string{StripLabels, RemoveChild, Rival} {
			plans = append(plans, d.plan(WorldMoves, variant, t))
		}
	}
	for i, step := range d.scenario.Steps {
		if step.Delete != nil {
			plans = append(plans, d.plan(WorldMoves, ForeignFinalizer, Target{Method: StepTarget, Path: step.Name, Nth: i + 1}))
		}
	}
	return plans
}

// firsts keeps the writes that are wanted and the first of their path; the others
// have no effect, so that they still count as the requests that they were.
func firsts(writes []Write, wanted func(Write) bool) []Write {
	seen := map[string]bool{}
	kept := slices.Clone(writes)
	for i, w := range writes {
		object := strings.TrimSuffix(w.Path, "/status")
		kept[i].Effective = w.Effective && wanted(w) && !seen[object]
		seen[object] = seen[object] || kept[i].Effective
	}
	return kept
}
