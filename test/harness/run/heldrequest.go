// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"sync"

	"leasehold.dev/test/harness/fault"
)

// heldAction is a fault with an action while the first request that matches the plan's target, from
// any replica, is held at a point.
type heldAction struct {
	point fault.Point
	do    whileHeld
}

// whileHeld does something while a request of a replica is held.
type whileHeld func(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error

// held returns the constructor of a heldAction.
func held(point fault.Point, do whileHeld) func() injector {
	return stateless(heldAction{point, do})
}

func (h heldAction) begin(ctx context.Context, a *activeFault) error {
	var first sync.Once
	for _, r := range a.prover.running() {
		a.holdAt(ctx, &first, r.proxy, a.target(), h.point, func(held *fault.HeldRequest) error {
			return h.do(ctx, a, r, held)
		})
	}
	return nil
}

// holdAt holds the first request at a proxy that matches, and calls do unless first was done.
func (a *activeFault) holdAt(ctx context.Context, first *sync.Once, proxy *fault.Proxy, match fault.Match,
	point fault.Point, do func(*fault.HeldRequest) error) {
	gate := fault.NewGate(point)
	a.inject(proxy, match, gate)
	a.tasks.Go(func() {
		held, err := gate.Wait(ctx)
		if err != nil {
			return // the run has ended without such a request
		}
		defer held.Release()
		isFirst := false
		first.Do(func() { isFirst = true })
		if !isFirst {
			return
		}
		defer a.beginOngoing()()
		switch err := do(held); {
		case ctx.Err() != nil:
			a.setVoidReason("the run ended before it was over: %v", err)
		case err != nil:
			a.addError(err)
		}
	})
}

func waitUntilDone(ctx context.Context, proxy *fault.Proxy, id int) (fault.ProxiedRequest, error) {
	var request fault.ProxiedRequest
	err := waitUntil(ctx, "the end of "+proxy.Journal().Request(id).String(), func() bool {
		request = proxy.Journal().Request(id)
		return !request.Done.IsZero()
	})
	return request, err
}
