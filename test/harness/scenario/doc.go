// SPDX-License-Identifier: Apache-2.0

// Package scenario is the stage of the pipeline that defines, as data, what users
// do:
//
//	seed -> [scenario] -> env -> {workload || fault} -> record -> history -> invariant -> report
//
// A Scenario contains the steps of users, and the points at which the operator must have
// reached the desired state. Names in braces are placeholders: "{team}" is a different
// name in each run, so that many runs can share a control plane. A scenario can be read
// from YAML: docs/scenarios.md contains an example.
package scenario
