// SPDX-License-Identifier: Apache-2.0

// Package run connects the stages of the pipeline:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> invariant -> report
//
// A Prover is a control plane with the replicas of one operator, each behind its own
// proxy. Clean runs a scenario without a fault. Run runs one plan of the scenario, and
// judges what the API server has recorded:
//
//	prover, err := run.Start(ctx, run.Options{Subject: subject, Random: random})
//	defer prover.Stop(ctx)
//	reference, err := prover.Reference(ctx, scenario, 2)
//	for _, plan := range reference.Plans(seed) {
//		outcome, err := prover.Run(ctx, reference, plan)
//		... outcome.Result, outcome.Verdicts ...
//	}
//
// A Plan is one fault in a scenario, at one request. Plans are not written manually.
// They are derived from the writes of the operator in clean runs. Each fault is a spec
// in its own file: how plans name the fault, how they are derived and described, and how
// the fault is injected. To add a fault, add such a file and a line in specs.
//
// Runs follow one another on the same control plane, each with new names. A process of
// the operator that exits is restarted, as a kubelet would do.
package run
