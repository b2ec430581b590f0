package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
)

// heldAction is what a fault does while a request is held at a point on its way.
type heldAction struct {
	point fault.Point
	do    func(context.Context, *activeFault, *replica, *fault.Held) error
}

// holdFirst holds the first request that matches the plan's target, from any replica, and does b.
func (a *activeFault) holdFirst(ctx context.Context, b heldAction) {
	for _, r := range a.prover.running() {
		gate := fault.NewGate(b.point)
		a.inject(r, a.target(), gate)
		a.tasks.Go(func() {
			held, err := gate.Wait(ctx)
			if err != nil {
				return // the run is over and no such request came
			}
			defer held.Release()
			first := false
			a.first.Do(func() { first = true })
			if !first {
				return
			}
			defer a.beginOngoing()()
			switch err := b.do(ctx, a, r, held); {
			case ctx.Err() != nil:
				a.setVoidReason("the run ended before it was over: %v", err)
			case err != nil:
				a.addError(err)
			}
		})
	}
}
