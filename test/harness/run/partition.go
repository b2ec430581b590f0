package run

import (
	"context"
	"fmt"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

var fullPartition = spec{
	fault: "full-partition", family: "partition",
	text:   "when the API server has done TARGET, it is out of reach of all replicas, for longer than a Lease lasts",
	derive: oneWrite, newInjector: held(fault.AfterAnswer, cutOffAll),
}

var partitionedStart = spec{
	fault: "partitioned-start", family: "partition",
	text:   "when the API server has done TARGET, a replica that does not lead dies and starts again, out of reach of the API server for longer than a Lease lasts",
	derive: oneWrite, newInjector: held(fault.AfterAnswer, startCutOff),
}

// cutOffAll refuses the connections of all replicas for longer than a lease term.
func cutOffAll(ctx context.Context, a *activeFault, _ *replica, held *fault.HeldRequest) error {
	term, err := a.leaseTerm(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	var cuts []*fault.Injection
	for _, r := range a.prover.running() {
		cuts = append(cuts, a.inject(r, fault.Match{}, fault.Cut{}))
		r.proxy.Sever(fault.Match{})
	}
	defer func() {
		for _, cut := range cuts {
			cut.Heal()
		}
	}()
	held.Release()
	if err := a.waitOutLease(ctx, term); err != nil {
		return err
	}
	for i, cut := range cuts {
		if !cut.Happened() {
			a.setVoidReason("replica %s asked for nothing in %s", a.prover.running()[i].process.Name(), term)
			return nil
		}
	}
	a.record(history.FaultRecord{
		Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("all were cut off at %s, for longer than the Lease lasts", held.Request),
	})
	return nil
}

// startCutOff restarts a standby that cannot reach the API server for longer than a lease term.
func startCutOff(ctx context.Context, a *activeFault, leader *replica, held *fault.HeldRequest) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	term, err := a.leaseTerm(ctx)
	if err != nil {
		return err
	}
	held.Release()
	began := a.now()
	r.kill()
	cut := a.inject(r, fault.Match{}, fault.Cut{})
	defer cut.Heal()
	return a.recordStarvation(ctx, cut, term, history.FaultRecord{
		Replica: r.process.Name(), Began: began,
		Detail: fmt.Sprintf("killed at %s and started again, cut off for", held.Request),
	})
}
