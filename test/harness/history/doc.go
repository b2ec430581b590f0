// SPDX-License-Identifier: Apache-2.0

// Package history is the hub of the pipeline: what happened in one run, as plain
// data that can be saved and judged again without any cluster:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> [history] -> invariant -> report
//
// # One order
//
// Everything is ordered by the versions of the store (resourceVersion), which
// are one sequence over all resources of one etcd. A write has the version that
// it was stored with; everything else has a RevisionRange. Whether
// a thing came before another is answered by RevisionRange.Before, and where it cannot be
// decided, both orders are false. Times are for durations and for the reader.
//
// # Missing records are named
//
// Recorded names the sources that were listening. "Nothing was recorded" and
// "nothing happened" are different things, and only the second proves anything.
package history
