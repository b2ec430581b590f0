// SPDX-License-Identifier: Apache-2.0

// Package invariant judges histories: one promise a file, each a pure function.
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> [invariant] -> report
//
// A verdict is Held, Broken or Inconclusive. A promise is only held if there was
// something to judge and everything that is needed was recorded. It is inconclusive if
// the evidence is missing or ambiguous, or its case never came up. A history whose faults
// did not happen holds nothing either.
//
// The properties of an operator are data, a Contract; no code here is specific to
// one.
package invariant
