package scenario

import (
	"net/http"
	"slices"
)

// Faults of a call to the external system.
const (
	// ExternalCrash kills the replica after its call was answered and before the answer arrives.
	ExternalCrash Fault = "external-crash"
	// ExternalLostResponse cuts the connection after the call was answered.
	ExternalLostResponse Fault = "external-lost-response"
	// ExternalError answers with an error in place of the external system. Its variants are the
	// codes.
	ExternalError Fault = "external-error"
	// ExternalSlow delays the answer.
	ExternalSlow Fault = "external-slow"
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
// and at a few reads one way.
func externalFaults(d *derivation) []Plan {
	var plans []Plan
	for _, t := range d.calls(func(c Call) bool { return c.Changed }) {
		plans = append(plans, d.disturbed(t)...)
	}
	var reads []Plan
	for _, t := range d.calls(func(c Call) bool { return !c.Changed && c.Answered }) {
		reads = append(reads, d.one(d.disturbed(t)))
	}
	slices.SortFunc(reads, Order(d.seed))
	return append(plans, reads[:min(readsTried, len(reads))]...)
}

// disturbed returns a plan for each fault of a call.
func (d *derivation) disturbed(t Target) []Plan {
	var plans []Plan
	for _, fault := range []Fault{ExternalCrash, ExternalLostResponse, ExternalSlow} {
		plans = append(plans, d.plan(fault, "", t))
	}
	code := draw(d.seed, d.plan(ExternalError, "", t), texts(externalCodes))
	return append(plans, d.plan(ExternalError, code, t))
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
