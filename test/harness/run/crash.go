package run

import (
	"context"
	"slices"

	"leasehold.dev/test/harness/fault"
)

// crash kills the replica whose request the API server has answered.
type crash struct{}

func (c crash) inject(ctx context.Context, a *activeFault) error {
	for _, r := range a.prover.replicas {
		gate := fault.NewGate(fault.AfterAnswer)
		a.inject(r, a.target(), gate)
		a.tasks.Go(func() { c.killAt(ctx, a, gate, r) })
	}
	return nil
}

// killAt kills the replica whose request the gate holds.
func (crash) killAt(ctx context.Context, a *activeFault, gate *fault.Gate, r *replica) {
	held, err := gate.Wait(ctx)
	if err != nil {
		return // the run is over and no such request came
	}
	kills := false
	a.first.Do(func() { kills = true })
	if !kills {
		held.Release()
		return
	}
	a.killWith(ctx, r, held)
}

// killWith kills a replica and cuts its request.
func (a *activeFault) killWith(ctx context.Context, r *replica, held *fault.Held) {
	r.kill()
	held.Cut()
	a.mu.Lock()
	a.killed = append(a.killed, killedRequest{r, held.Request.ID})
	a.mu.Unlock()
	a.healInjections() // the next leader sends the same request and must survive it
	a.releaseLease(ctx)
}

// wasKilled reports whether the fault killed the replica at this request.
func (a *activeFault) wasKilled(r *replica, request fault.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.killed, killedRequest{r, request.ID})
}

// happened reports whether the replica died with the request. A write that the API server refused
// is no death after a commit.
func (crash) happened(a *activeFault, r *replica, request fault.Request) bool {
	return a.wasKilled(r, request) && answerWasLost(request)
}
