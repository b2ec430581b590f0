package run

import (
	"context"
	"fmt"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// leaseCut separates the leader from its Lease, or from everything else.
type leaseCut struct{}

func (l leaseCut) inject(ctx context.Context, a *activeFault) error {
	a.holdFirst(ctx, map[scenario.Fault]heldAction{
		scenario.LeasePartition: {fault.AfterAnswer, l.fromLease},
		scenario.LeaseOnly:      {fault.AfterAnswer, l.fromRest},
	}[a.plan.Fault])
	return nil
}

// fromLease drops the leader's requests about the Lease until another replica leads.
func (leaseCut) fromLease(ctx context.Context, a *activeFault, r *replica, held *fault.Held) error {
	began, life := a.now(), len(r.lifetimes())-1
	cut := a.inject(r, a.leaseMatch(), fault.BlackHole{})
	defer cut.Heal()
	held.Release()
	next, err := a.waitForSuccessor(ctx, r)
	if next == nil || err != nil {
		return err
	}
	if !cut.Happened() {
		a.setVoidReason("replica %s led, though %s had not tried to renew", next.process.Name(), r.process.Name())
		return nil
	}
	a.record(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("cut off from the Lease at %s, until replica %s led", held.Request, next.process.Name()),
	})
	cut.Heal()
	return a.waitUntilStepsDown(ctx, r, life)
}

// fromRest drops all requests of the leader but those about the Lease, for longer than a lease
// term. The replica leads all the time and can do nothing.
func (leaseCut) fromRest(ctx context.Context, a *activeFault, r *replica, held *fault.Held) error {
	rest := fault.Match{NotPath: a.prover.leasePath()}
	term, err := a.leaseTerm(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	cut := a.inject(r, rest, fault.BlackHole{})
	defer cut.Heal()
	r.proxy.Sever(rest)
	held.Release()
	return a.recordStarvation(ctx, cut, term, history.Fault{
		Replica: r.process.Name(), Began: began, Detail: fmt.Sprintf("cut off at %s from all but the Lease,", held.Request),
	})
}
