// SPDX-License-Identifier: Apache-2.0

// Package scenario is the stage of the pipeline that says what is to happen, as
// data:
//
//	seed -> [scenario] -> env -> {workload || fault} -> record -> history -> invariant -> report
//
// A Scenario is what users do, step by step, and when all has to be at rest. Names
// in braces are placeholders: "{team}" is another name in each run, so that many
// runs share a control plane. A scenario can be read from YAML: docs/scenarios.md has an example.
package scenario
