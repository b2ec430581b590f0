// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"sync"
)

// Gate holds every matching request until the test releases it. The test thus gets a point after
// the request's arrival, or after the upstream carried it out. At that point it can act, for
// example kill the client.
//
// A request that is held before its forwarding has been read completely. It is forwarded on release
// even if its client has died: that is how a request arrives late.
type Gate struct {
	at      Point
	arrived chan *HeldRequest
}

// NewGate returns a gate at one point of the way.
func NewGate(at Point) *Gate {
	return &Gate{at: at, arrived: make(chan *HeldRequest)}
}

// Wait returns the request that has been held for longest and has not been returned before. It
// waits for a request, or for the end of ctx.
func (g *Gate) Wait(ctx context.Context) (*HeldRequest, error) {
	select {
	case held := <-g.arrived:
		return held, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a request at the gate: %w", ctx.Err())
	}
}

// HeldRequest is a request that stands at a Gate.
type HeldRequest struct {
	// Request is the journal's record of it.
	Request ProxiedRequest

	decided chan error
	once    sync.Once
}

// Release lets it go. It is safe to call more than once.
func (h *HeldRequest) Release() { h.decide(nil) }

// Cut closes the client's connection instead; what has not been forwarded never
// will be.
func (h *HeldRequest) Cut() { h.decide(errCut) }

func (h *HeldRequest) decide(err error) {
	h.once.Do(func() { h.decided <- err })
}

func (g *Gate) act(x *exchange) {
	if g.at == BeforeForward {
		defer x.outliveClient()()
	}
	x.stopAt(g.at, func() error {
		x.happened(x.injection)
		return g.hold(&HeldRequest{Request: x.noted(), decided: make(chan error, 1)}, x.injection.ctx.Done())
	})
}

// hold waits until the request is released, and returns the reason if it is not forwarded. A
// decision about the request takes precedence over an injection that is healed right after.
func (g *Gate) hold(held *HeldRequest, healed <-chan struct{}) error {
	arrived := g.arrived
	for {
		select {
		case arrived <- held:
			arrived = nil // once
			continue
		case err := <-held.decided:
			return err
		case <-healed:
		}
		select {
		case err := <-held.decided:
			return err
		default:
			return nil
		}
	}
}
