// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// Faults of a call to the external system.
const (
	// ExternalCrash kills the replica after its call was answered and before the answer arrives.
	ExternalCrash scenario.FaultName = "external-crash"
	// ExternalError answers with an error in place of the external system. Its variants are the
	// codes.
	ExternalError scenario.FaultName = "external-error"
)

// callRefusals are the codes with which a call may be refused.
var callRefusals = []string{"403", "500", "503"}

// readsTried bounds the number of reads that are disturbed.
const readsTried = 3

var callCrash = spec{
	fault: ExternalCrash, family: externalFamily,
	text:   "a replica is killed (SIGKILL) after the external system has answered TARGET and before the replica receives the response",
	derive: eachCall, injector: heldAction{fault.AfterAnswer, crash},
}

var callRefused = spec{
	fault: ExternalError, family: externalFamily,
	variants: callRefusals,
	text:     "a replica receives VARIANT for TARGET, which never reaches the external system",
	derive:   eachCall, injector: requestFault{refuse, wasNotForwarded},
}

// eachCall plans the fault at each call that changed something, and at a few reads. A read is
// disturbed in one way, which the seed selects.
func eachCall(d *derivation, f scenario.FaultName) []Plan {
	var plans, reads []Plan
	for _, t := range d.calls(func(c call) bool { return c.Changed }) {
		plans = append(plans, d.disturbed(t)...)
	}
	for _, t := range d.calls(func(c call) bool { return !c.Changed && c.Answered }) {
		reads = append(reads, d.one(d.disturbed(t))...)
	}
	slices.SortFunc(reads, Order(d.seed))
	plans = append(plans, reads[:min(readsTried, len(reads))]...)
	return slices.DeleteFunc(plans, func(p Plan) bool { return p.Fault != f })
}

// disturbed returns a plan for each fault of a call.
func (d *derivation) disturbed(t Target) []Plan {
	code := draw(d.seed, d.plan(ExternalError, "", t), callRefusals)
	return []Plan{d.plan(ExternalCrash, "", t), d.plan(ExternalError, code, t)}
}

// calls returns the wanted calls of all runs.
func (d *derivation) calls(wanted func(call) bool) []Target {
	return steady(d.runs, func(o observation) []call { return o.Calls }, wanted)
}

// observedCalls returns the calls of a clean run, from which plans are derived.
func (ex *execution) observedCalls(h *history.History) []call {
	normal := h.Normalizer()
	var all []call
	for _, r := range ex.externalRequests() {
		path := normal.Replace(pathOf(r))
		if path == pathOf(r) {
			continue // it is about none of this run's things
		}
		all = append(all, call{Method: r.Method, Path: path, Changed: r.Mutating() && r.Committed(),
			Answered: r.Status != 0})
	}
	return all
}

// pathOf returns a request's path with the names of its query parameters.
func pathOf(r fault.ProxiedRequest) string {
	path := strings.TrimSuffix(r.Path, "/")
	if len(r.Query) == 0 {
		return path
	}
	return path + "?" + strings.Join(slices.Sorted(maps.Keys(r.Query)), "&")
}

// matchOf returns the match for the requests whose pathOf is the target's path.
func matchOf(t Target, names map[string]string) (fault.Match, error) {
	path, query, asks := strings.Cut(scenario.Fill(t.Path, names), "?")
	m := fault.Match{Methods: []string{t.Method}, Path: path, NoQuery: !asks, From: t.Nth, To: t.Nth}
	if !asks {
		return m, nil
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return m, fmt.Errorf("reading the path %s: %w", t.Path, err)
	}
	m.Query = map[string]string{}
	for name := range parameters {
		m.Query[name] = ""
	}
	return m, nil
}
