// SPDX-License-Identifier: Apache-2.0

// Package history defines what happened in one run, as plain data that can be saved and
// judged again without a cluster. All stages of the pipeline use it:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> [history] -> invariant -> report
//
// # One order
//
// Everything is ordered by resourceVersion, which is one sequence over all resources
// of one etcd. A write has the resourceVersion that it was stored with; everything else
// has a RevisionRange. RevisionRange.Before reports whether one event happened before
// another. If the order cannot be decided, Before is false in both directions. Times are
// only for durations and for the reader.
//
// # Missing records are named
//
// Recorded names the sources that were recorded. "Nothing was recorded" and
// "nothing happened" are different, and only the second proves anything.
package history
