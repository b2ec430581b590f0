package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/scenario"
)

// slow is how late an answer from the outside is: later than those who ask wait for
// in a scenario that has it fail.
const slow = 4 * time.Second

// failOutside lets one call to what is outside go wrong.
func failOutside(ctx context.Context, a *armed) error {
	x := a.prover.external
	if x == nil {
		return errors.New("the subject has nothing outside the cluster")
	}
	match, err := matchOf(a.plan.Target, a.names)
	if err != nil {
		return err
	}
	switch a.plan.Variant {
	case scenario.OutsideDieAfter:
		a.dieOutside(ctx, match, fault.AfterAnswer)
	case scenario.OutsideDieBefore:
		a.dieOutside(ctx, match, fault.BeforeForward)
	case scenario.OutsideLose:
		a.injectAt(x.Proxy(), match, fault.Cut{At: fault.AfterAnswer})
	case scenario.OutsideSlow:
		a.injectAt(x.Proxy(), match, fault.Delay{At: fault.AfterAnswer, For: slow})
	default:
		code, err := strconv.Atoi(a.plan.Variant)
		if err != nil {
			return fmt.Errorf("reading the code: %w", err)
		}
		answer, err := x.Refusal(code)
		if err != nil {
			return err
		}
		a.injectAt(x.Proxy(), match, answer)
	}
	return nil
}

// dieOutside kills the replica whose call comes to a point of its way.
func (a *armed) dieOutside(ctx context.Context, match fault.Match, at fault.Point) {
	gate, proxy := fault.NewGate(at), a.prover.external.Proxy()
	a.injectAt(proxy, match, gate)
	a.all.Go(func() {
		held, err := gate.Wait(ctx)
		if err != nil {
			return // the run is over and no such call came
		}
		caller := proxy.Journal().Peer(held.Request)
		r := a.prover.named(caller)
		if r == nil {
			a.missing("%s came, and who had sent it could not be told", held.Request)
			held.Release()
			return
		}
		a.killWith(r, held)
	})
}

// failedOutside reports whether a call was spoiled in the way of the variant. An
// answer that says no is lost as well as another, unless it was to a change: the
// plan is about one that was made.
func failedOutside(a *armed, r *replica, request fault.Request) bool {
	answered := !request.Answered.IsZero() && (request.Committed() || !request.Mutating())
	switch a.plan.Variant {
	case scenario.OutsideDieAfter:
		return a.died(r, request) && answered && request.Delivered.IsZero()
	case scenario.OutsideDieBefore:
		return a.died(r, request) && request.Forwarded.IsZero()
	case scenario.OutsideLose:
		return answered && request.Delivered.IsZero()
	case scenario.OutsideSlow:
		// Who asked had given up, or got it late.
		return answered && (request.Delivered.IsZero() || request.Delivered.Sub(request.Answered) >= slow)
	}
	return wasNotForwarded(a, r, request)
}
