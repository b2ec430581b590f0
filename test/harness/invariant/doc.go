// Package invariant judges histories: one promise a file, each a pure function.
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> [invariant] -> report
//
// A verdict is Held, Broken or Inconclusive. A promise is only held if there was
// something to judge and everything that is needed was recorded: what was not
// looked at, cannot be told apart, or never came to the point is inconclusive. A
// history whose faults did not happen holds nothing either.
//
// What has to be known of an operator comes as data, an Operator; nothing here
// knows any. The numbers are those of the table in docs/proving.md.
package invariant
