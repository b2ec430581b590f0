package run

import (
	"context"
	"fmt"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// The replicas that cannot reach the API server: P13.

// cutOffOne is a network that loses all packets of the replica, until another one
// leads.
func (a *armed) cutOffOne(ctx context.Context, r *replica, held *fault.Held) error {
	began, life := a.now(), len(r.lived())-1
	cut := a.inject(r, fault.Match{}, fault.BlackHole{})
	defer cut.Heal()
	severed := r.proxy.Sever(fault.Match{})
	held.Release()
	next, err := a.successor(ctx, r)
	if next == nil || err != nil {
		return err
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("cut off at %s, with %d requests under way and %d after, until replica %s led", held.Request, severed, cut.Count(), next.process.Name()),
	})
	cut.Heal()
	return a.leaves(ctx, r, life)
}

// cutOffAll is an API server that is down for longer than a Lease lasts.
func (a *armed) cutOffAll(ctx context.Context, _ *replica, held *fault.Held) error {
	term, err := a.term(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	var cuts []*fault.Injection
	for _, r := range a.prover.present() {
		cuts = append(cuts, a.inject(r, fault.Match{}, fault.Cut{}))
		r.proxy.Sever(fault.Match{})
	}
	defer func() {
		for _, cut := range cuts {
			cut.Heal()
		}
	}()
	held.Release()
	if err := a.outlast(ctx, term); err != nil {
		return err
	}
	for i, cut := range cuts {
		if !cut.Happened() {
			a.missing("replica %s asked for nothing in %s", a.prover.present()[i].process.Name(), term)
			return nil
		}
	}
	a.noted(history.Fault{
		Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("all were cut off at %s, for longer than the Lease lasts", held.Request),
	})
	return nil
}

// cutOffAtStart has a replica that does not lead start while it cannot reach the API
// server, which it can after a Lease's time.
func (a *armed) cutOffAtStart(ctx context.Context, leader *replica, held *fault.Held) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	term, err := a.term(ctx)
	if err != nil {
		return err
	}
	held.Release()
	began := a.now()
	r.kill()
	cut := a.inject(r, fault.Match{}, fault.Cut{})
	defer cut.Heal()
	return a.starve(ctx, cut, term, history.Fault{
		Replica: r.process.Name(), Began: began, Detail: fmt.Sprintf("killed at %s and started again, cut off for", held.Request),
	})
}

// standby is a replica that is not the leader; nil, which is noted, if there is none.
func (a *armed) standby(leader *replica) *replica {
	for _, r := range a.prover.present() {
		if r != leader {
			return r
		}
	}
	a.missing("there is only one replica")
	return nil
}
