// SPDX-License-Identifier: Apache-2.0

// Package invariant judges histories. Each invariant is a pure function in its own file.
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> [invariant] -> report
//
// A verdict is Held, Broken or Inconclusive. An invariant is Held only if there was something
// to judge and everything that the judgment needs was recorded. It is Inconclusive if the
// evidence is missing or ambiguous, or if the situation never occurred. In a history whose
// faults did not happen, no invariant is Held.
//
// A Contract describes the properties of an operator as data. No code in this package is
// specific to one operator.
package invariant
