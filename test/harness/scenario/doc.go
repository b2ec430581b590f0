// Package scenario is the stage of the pipeline that says what is to happen, as
// data:
//
//	seed -> [scenario] -> env -> {workload || fault} -> record -> history -> invariant -> report
//
// A Scenario is what users do, step by step, and when all has to be at rest. Names
// in braces are placeholders: "{team}" is another name in each run, so that many
// runs share a control plane. A scenario can be read from YAML:
//
//	name: team-life
//	invariants: [end-state, convergence, quiescence, single-writer]
//	steps:
//	- apply: {apiVersion: example.com/v1, kind: Team, metadata: {name: "{team}"}}
//	- name: made
//	  quiesce:
//	    until: [{object: {apiVersion: example.com/v1, kind: Team, name: "{team}"}, condition: Ready}]
//	    for: 2s
//	- delete: {apiVersion: example.com/v1, kind: Team, name: "{team}"}
//	- name: gone
//	  quiesce:
//	    until: [{object: {apiVersion: example.com/v1, kind: Team, name: "{team}"}, gone: true}]
//	    for: 2s
package scenario
