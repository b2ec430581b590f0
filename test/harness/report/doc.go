// SPDX-License-Identifier: Apache-2.0

// Package report writes down what became of runs, for people and for programs:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> invariant -> [report]
//
// A Run becomes a folder. It has all that it takes to understand the run without
// the code (timeline.html, verdicts.txt, objects.yaml, audit.log) and to judge it
// again without a cluster (case.json and the histories). A Sweep is many runs: a
// table, JUnit for machines that count tests, and summary.json.
//
// It takes and returns plain data, and does not depend on how the data was recorded.
package report
