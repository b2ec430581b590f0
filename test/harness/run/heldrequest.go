// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"sync/atomic"

	"leasehold.dev/test/harness/fault"
)

// heldAction is a fault with an action while the first request that matches the plan's target, from
// any replica, is held at a point.
type heldAction struct {
	point fault.Point
	do    func(ctx context.Context, a *activeFault, r *replica, held heldRequest) error
}

// heldRequest is a request that a proxy holds.
type heldRequest struct {
	*fault.HeldRequest

	proxy *fault.Proxy
}

func (h heldAction) begin(ctx context.Context, a *activeFault) error {
	proxies, match, err := a.route()
	if err != nil {
		return err
	}
	var begun atomic.Bool
	for _, proxy := range proxies {
		gate := fault.NewGate(h.point)
		a.inject(proxy, match, gate)
		a.tasks.Go(func() {
			held, err := gate.Wait(ctx)
			if err != nil {
				return // the run has ended without such a request
			}
			defer held.Release()
			if !begun.Swap(true) {
				h.act(ctx, a, heldRequest{held, proxy})
			}
		})
	}
	return nil
}

// act does the action. No checkpoint begins before its end.
func (h heldAction) act(ctx context.Context, a *activeFault, held heldRequest) {
	defer a.beginOngoing()()
	r := a.prover.senderOf(held)
	if r == nil {
		a.setVoidReason("%s came, and its sender is unknown", held.Request)
		return
	}
	switch err := h.do(ctx, a, r, held); {
	case ctx.Err() != nil:
		a.setVoidReason("the run ended before it was over: %v", err)
	case err != nil:
		a.addError(err)
	}
}

// senderOf returns the replica that sent a request, by the proxy in front of the API server or by the
// connection to the external system. It returns nil if the replica is unknown.
func (p *Prover) senderOf(held heldRequest) *replica {
	for _, r := range p.running() {
		if r.proxy == held.proxy || r.process.Name() == held.Request.Peer {
			return r
		}
	}
	return nil
}

// waitUntilDone waits until the proxy has finished with the request, and returns its record.
func (h heldRequest) waitUntilDone(ctx context.Context) (fault.ProxiedRequest, error) {
	var request fault.ProxiedRequest
	err := waitUntil(ctx, "the end of "+h.Request.String(), func() bool {
		request = h.proxy.Journal().Request(h.Request.ID)
		return !request.Done.IsZero()
	})
	return request, err
}
