// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"

	"leasehold.dev/test/harness/scenario"
)

// call is a request of the subject in a clean run, to the API server or to the external system.
type call struct {
	Method string
	// Path has placeholders for names of the scenario. That of the external system has also the names
	// of its query parameters.
	Path string
	// Changed means that it changed something.
	Changed bool
	// Answered means that the external system answered it. A write that the API server did not answer
	// is not observed.
	Answered bool
}

// observation is the behavior of the subject in one clean run, with placeholders for names of the
// scenario.
type observation struct {
	// Writes are the writes to the API server in their order.
	Writes []call
	// Calls are the calls about the run's own external objects in their order.
	Calls []call
	// WatchEvents are the watch events about the run's own objects, each once, in their order.
	WatchEvents []watchEvent
	// Leases is the path of the collection with the Lease; empty if no replica watches it.
	Leases string
	// Alone is true if the subject has one replica.
	Alone bool
}

// derivation is the input of the rules that derive plans.
type derivation struct {
	scenario scenario.Scenario
	runs     []observation
	seed     uint64
}

func (d *derivation) plan(f scenario.FaultName, variant string, t Target) Plan {
	return Plan{Scenario: d.scenario.Name, Fault: f, Variant: variant, Target: t}
}

// derivePlans derives the plans of a scenario from its clean runs. Only requests of all runs are
// targets, because others may not occur again. Where not all targets and variants are tried, the
// seed and the plan's ID select them, so that an additional request does not change other plans.
func derivePlans(s scenario.Scenario, runs []observation, seed uint64) []Plan {
	if len(runs) == 0 {
		return nil
	}
	d := &derivation{scenario: s, runs: runs, seed: seed}
	var plans []Plan
	for _, of := range specs {
		if of.takesOver && runs[0].Alone {
			continue
		}
		if len(s.Faults) == 0 || slices.Contains(s.Faults, of.fault) {
			plans = append(plans, of.derive(d, of.fault)...)
		}
	}
	return plans
}

func eachWrite(d *derivation, f scenario.FaultName) []Plan { return d.at(f, "", d.writes()) }

// fewWrites plans the fault at the first write, at the last, and at one between, because the
// leader's work matters.
func fewWrites(d *derivation, f scenario.FaultName) []Plan { return d.few(eachWrite(d, f)) }

// oneWrite plans the fault at a write that the seed selects.
func oneWrite(d *derivation, f scenario.FaultName) []Plan { return d.one(eachWrite(d, f)) }

// writes returns the writes that had an effect in all runs.
func (d *derivation) writes() []Target {
	return steady(d.runs, func(o observation) []call { return o.Writes }, func(c call) bool { return c.Changed })
}

// steady returns the wanted requests of all runs, in the order of the first run.
func steady(runs []observation, of func(observation) []call, wanted func(call) bool) []Target {
	in := map[Target]int{}
	var order, all []Target
	for i, run := range runs {
		nth := map[Target]int{}
		for _, c := range of(run) {
			t := Target{Method: c.Method, Path: c.Path}
			nth[t]++
			t.Nth = nth[t]
			if !wanted(c) {
				continue
			}
			in[t]++
			if i == 0 {
				order = append(order, t)
			}
		}
	}
	for _, t := range order {
		if in[t] == len(runs) {
			all = append(all, t)
		}
	}
	return all
}
