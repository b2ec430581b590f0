package scenario

import (
	"net/http"
	"slices"
)

// ExternalFails disturbs a call to the external system.
const ExternalFails Perturbation = "P5"

// The variants of ExternalFails, besides externalCodes: a refused call is not forwarded.
const (
	// ExternalDieAfter kills the replica after its call was answered and before the answer
	// arrives.
	ExternalDieAfter = "die-after"
	// ExternalDieBefore kills the replica before its call arrives.
	ExternalDieBefore = "die-before"
	// ExternalLose cuts the connection after the call was answered.
	ExternalLose = "lose"
	// ExternalSlow delays the answer.
	ExternalSlow = "slow"
)

// externalCodes are the codes with which a call may be refused.
var externalCodes = []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}

// readsTried bounds the number of reads that are disturbed.
const readsTried = 3

// Call is a call of the subject to the external system in a clean run.
type Call struct {
	Method string
	// Path has placeholders for names of the scenario, and the sorted names of the query's
	// parameters, as in /{bucket}?tagging.
	Path string
	// Changed means that the call changed something.
	Changed bool
	// Answered means that the call was answered.
	Answered bool
}

// externalFaults plans at each call that changed something each way to disturb it, with one code,
// and at a few reads one variant.
func externalFaults(d *derivation) []Plan {
	var plans []Plan
	for _, p := range d.at(ExternalFails, "", d.calls(func(c Call) bool { return c.Changed })) {
		for _, variant := range []string{ExternalDieAfter, ExternalDieBefore, ExternalLose, ExternalSlow,
			draw(d.seed, p, texts(externalCodes))} {
			plans = append(plans, d.plan(ExternalFails, variant, p.Target))
		}
	}
	reads := d.at(ExternalFails, "", d.calls(func(c Call) bool { return !c.Changed && c.Answered }))
	slices.SortFunc(reads, Order(d.seed))
	for _, p := range reads[:min(readsTried, len(reads))] {
		plans = append(plans, d.plan(ExternalFails, draw(d.seed, p, variants[ExternalFails]), p.Target))
	}
	return plans
}

// calls returns the wanted calls that came in all runs, in the order of the first run.
func (d *derivation) calls(wanted func(Call) bool) []Target {
	return steady(d.runs, func(o Observed) []Write {
		var all []Write
		for _, c := range o.Calls {
			all = append(all, Write{Method: c.Method, Path: c.Path, Effective: wanted(c)})
		}
		return all
	})
}
