// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"sync"
)

// Gate holds every matching request, either before it is forwarded or after the upstream has
// carried it out, until the test releases it. While the request is held, the test can act, for
// example kill the client.
//
// A request that is held before it is forwarded has been read completely. It is forwarded on
// release even if its client has died. In this way a test can make a request arrive late.
type Gate struct {
	at      Point
	arrived chan *HeldRequest
}

// NewGate returns a Gate that holds requests at the given point.
func NewGate(at Point) *Gate {
	return &Gate{at: at, arrived: make(chan *HeldRequest)}
}

// Wait returns the request that has been held for longest and that Wait has not returned before. It
// blocks until there is such a request, and returns an error if ctx is done first.
func (g *Gate) Wait(ctx context.Context) (*HeldRequest, error) {
	select {
	case held := <-g.arrived:
		return held, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a request at the gate: %w", ctx.Err())
	}
}

// HeldRequest is a request that a Gate holds. Only the first call of Release or Cut has an effect.
type HeldRequest struct {
	// Request is the request's entry in the journal at the time when the Gate stopped it.
	Request ProxiedRequest

	decided chan error
	once    sync.Once
}

// Release lets the request continue. It is safe to call more than once.
func (h *HeldRequest) Release() { h.decide(nil) }

// Cut closes the connection of the client. A request that has not been forwarded is never
// forwarded.
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
