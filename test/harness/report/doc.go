// SPDX-License-Identifier: Apache-2.0

// Package report writes the results of runs, for people and for programs:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> invariant -> [report]
//
// A Run is written to a directory. The directory contains everything that is needed to
// understand the run without the code (timeline.html, verdicts.txt, objects.yaml, audit.log)
// and to judge it again without a cluster (case.json and the histories). A Sweep is many runs:
// a table, a JUnit report and summary.json.
//
// The package takes and returns plain data, and does not depend on how the data was recorded.
package report
