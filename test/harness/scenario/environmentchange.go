package scenario

import (
	"net/http"
	"slices"
	"strings"
)

// Changes of one object by an administrator or another controller. Those of an object that the
// operator created happen while the operator's write to it is being answered.
const (
	// MetadataStripped removes all labels and annotations of an object that the operator created.
	MetadataStripped Fault = "metadata-stripped"
	// ObjectDeleted deletes an object that the operator created.
	ObjectDeleted Fault = "object-deleted"
	// MetadataContested removes labels and annotations of an object that the operator created, again
	// and again for some seconds.
	MetadataContested Fault = "metadata-contested"
	// ForeignFinalizer puts another controller's finalizer on an object before a user deletes it,
	// and removes it some time after the operator's own. Its target is that step: StepTarget, the
	// step's name and its number from 1.
	ForeignFinalizer Fault = "foreign-finalizer"
)

// StepTarget is the method of a target that is a step of the scenario.
const StepTarget = "STEP"

// environmentChanges plans changes at the writes that create objects, and at deletions by users.
// The path of a POST does not name the object, so it is no target.
func environmentChanges(d *derivation) []Plan {
	var plans []Plan
	for _, t := range steady(d.runs,
		func(o Observed) []Write { return firsts(o.Writes, func(w Write) bool { return w.Made }) }) {
		if t.Method == http.MethodPost {
			continue
		}
		for _, fault := range []Fault{MetadataStripped, ObjectDeleted, MetadataContested} {
			plans = append(plans, d.plan(fault, "", t))
		}
	}
	for i, step := range d.scenario.Steps {
		if step.Delete != nil {
			plans = append(plans, d.plan(ForeignFinalizer, "",
				Target{Method: StepTarget, Path: step.Name, Nth: i + 1}))
		}
	}
	return plans
}

// firsts marks as effective only the first wanted write of each path. The others remain, because
// they count as requests.
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
