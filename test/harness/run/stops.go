package run

import (
	"context"
	"fmt"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// The replicas that are asked to stop: P14.

// slowness is how long an answer takes that a replica waits for while it is asked to
// stop. It is longer than what usually goes before the end of the work, such as the
// time to be taken off a Service.
const slowness = 5 * time.Second

// askLeader asks the leader to stop. It is started again when it has, as all that are asked.
func (a *armed) askLeader(ctx context.Context, r *replica, held *fault.Held) error {
	return a.askAndSee(ctx, r, held, "asked to stop at "+held.Request.String())
}

func (a *armed) askStandby(ctx context.Context, leader *replica, held *fault.Held) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	return a.askAndSee(ctx, r, held, "asked to stop, without leading, at "+held.Request.String())
}

// askAndSee asks a replica to stop, lets the request go on, and waits for the end.
func (a *armed) askAndSee(ctx context.Context, r *replica, held *fault.Held, detail string) error {
	began := a.now()
	life, err := r.ask(ctx)
	if err != nil {
		return err
	}
	held.Release()
	if err := r.gone(ctx, life, a.prover.grace()); err != nil {
		return err
	}
	a.noted(history.Fault{Replica: r.process.Name(), Began: began, Ended: a.now(), Detail: detail})
	return nil
}

// askAtStart asks a replica to stop that has just started: its first request is on
// the way.
func (a *armed) askAtStart(ctx context.Context, leader *replica, held *fault.Held) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	held.Release()
	r.kill()
	gate := fault.NewGate(fault.BeforeForward)
	a.inject(r, fault.Match{To: 1}, gate)
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	first, err := gate.Wait(limited)
	if err != nil {
		a.missing("replica %s was started and asked for nothing within %s", r.process.Name(), a.limit)
		return nil
	}
	defer first.Release()
	return a.askAndSee(ctx, r, first, "asked to stop at its first request, "+first.Request.String())
}

// askWhileSlow asks a replica to stop that is waiting for an answer. The request is
// on its way and arrives, also if nobody waits for it any more.
func (a *armed) askWhileSlow(ctx context.Context, r *replica, held *fault.Held) error {
	began := a.now()
	life, err := r.ask(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("being slow: %w", ctx.Err())
	case <-a.prover.clock.After(slowness):
	}
	took := a.now().Sub(began)
	held.Release()
	slow, err := a.done(ctx, r, held.Request.ID)
	if err != nil {
		return err
	}
	if err := r.gone(ctx, life, a.prover.grace()); err != nil {
		return err
	}
	if slow.Status == 0 {
		a.missing("%s was not answered: %s", slow, slow.Error)
		return nil
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("asked to stop while it waited for %s, which took %s and was answered %d", slow, took.Round(time.Millisecond), slow.Status),
	})
	return nil
}
