package scenario

import (
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
	// ForeignFinalizer puts a finalizer of somebody else on the object that the
	// operator reconciles, and takes it off a while after the operator's own is gone.
	ForeignFinalizer = "finalizer"
)

// worldMoves are what can happen to each object that the operator makes, and to
// those that it makes them for: the first write of it is the moment.
func worldMoves(d *derivation) []Plan {
	var plans []Plan
	for _, t := range steady(d.runs, func(o Observed) []Write { return firsts(o.Writes, func(w Write) bool { return w.Made }) }) {
		for _, variant := range []string{StripLabels, RemoveChild, Rival} {
			plans = append(plans, d.plan(WorldMoves, variant, t))
		}
	}
	if !slices.ContainsFunc(d.scenario.Steps, func(s Step) bool { return s.Delete != nil }) {
		return plans // nothing is to go, so nothing can be held
	}
	for _, t := range steady(d.runs, func(o Observed) []Write { return firsts(o.Writes, func(w Write) bool { return w.Reconciled }) }) {
		plans = append(plans, d.plan(WorldMoves, ForeignFinalizer, t))
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
