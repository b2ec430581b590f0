// SPDX-License-Identifier: Apache-2.0

// Package run is the short story that joins the stages of the pipeline:
//
//	seed -> scenario -> env -> {workload || fault} -> record -> history -> invariant -> report
//
// A Prover is a control plane with the replicas of one operator, each behind a
// proxy of its own. Clean runs a scenario in which nothing goes wrong; Run runs
// one plan of it, and judges what the API server has recorded:
//
//	prover, err := run.Start(ctx, run.Options{Subject: subject, Random: random})
//	defer prover.Stop(ctx)
//	reference, err := prover.Reference(ctx, scenario, 2)
//	for _, plan := range reference.Plans(seed) {
//		outcome, err := prover.Run(ctx, reference, plan)
//		... outcome.Result, outcome.Verdicts ...
//	}
//
// A Plan is one thing that goes wrong in a scenario, at one request. Plans are not
// written by hand: they are derived from what an operator wrote in clean runs. A
// fault is a spec in a file of its own: how plans name it, how they are derived and
// described, and how it is injected. A new one is that file and its line in specs.
//
// Runs follow one another on the same control plane, with new names each. A
// process of the operator that ends is started again, as a kubelet would.
package run
